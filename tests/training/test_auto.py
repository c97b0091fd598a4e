"""init_from=auto, for jobs that are restarted: resume if there is a checkpoint, else begin."""

import tomllib

import pytest

from small_runs import TINY, Folder

pytestmark = pytest.mark.slow

UNNAMED = ["laptop", *(word for word in TINY if not word.startswith("--out_dir"))]
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")


def test_the_same_command_begins_continues_and_then_does_nothing(folder: Folder) -> None:
    folder.train("--out_dir=whole", "--lr_decay_iters=20")
    words = ["--init_from=auto", "--lr_decay_iters=20"]
    assert "finished 10 iterations" in folder.train(*words, "--max_iters=10")
    config = tomllib.loads((folder.path / "run/config.toml").read_text("utf-8"))
    assert config["init_from"] == "scratch"
    assert "resuming at iteration 10" in folder.train(*words)
    assert folder.losses() == folder.losses("whole")
    assert folder.weights(20) == folder.weights(20, "whole")
    events = folder.events()
    assert "has finished its 20 iterations: nothing to train" in folder.train(*words)
    assert folder.events() == events


def test_what_a_recipe_changes_is_said_of_a_new_run_and_not_of_a_resumed_one(folder: Folder) -> None:
    words = ["train", "laptop-classic", "--recipe=modern", "--init_from=auto", *TINY]
    changes = "not used with recipe=modern: min_lr=0.0001, beta2=0.99"
    assert changes in folder.run(*words, "--max_iters=10")
    resumed = folder.run(*words)
    assert "resuming at iteration 10" in resumed
    assert "not used with" not in resumed


def test_without_out_dir_the_newest_run_of_the_name_is_continued(folder: Folder) -> None:
    folder.run("train", *UNNAMED)
    folder.run("train", *UNNAMED, "--max_iters=10")
    out = folder.run("train", *UNNAMED, "--init_from=auto")
    assert "nanoscope 0.1.0: runs/laptop-tiny-2" in out
    assert "resuming at iteration 10" in out


def test_a_run_that_has_saved_nothing_yet_begins_again_in_its_folder(folder: Folder) -> None:
    folder.run("train", *UNNAMED)
    (folder.path / "runs/laptop-tiny-2").mkdir()  # killed before its first checkpoint
    out = folder.run("train", *UNNAMED, "--init_from=auto")
    assert "nanoscope 0.1.0: runs/laptop-tiny-2" in out
    assert "resuming" not in out


def test_it_begins_with_what_the_preset_begins_with(folder: Folder) -> None:
    (folder.path / "tuned.toml").write_text('init_from = "no-such-weights"\nrecipe = "classic"\n', encoding="utf-8")
    out = folder.run("train", "tuned.toml", *TINY, "--init_from=auto", status=2)
    assert "no-such-weights" in out


def test_damaged_checkpoints_are_an_error_and_not_a_new_beginning(folder: Folder) -> None:
    folder.train()
    for file in folder.path.glob("run/checkpoints/*/model.safetensors"):
        file.write_bytes(b"")
    assert "no checkpoint can be used" in folder.train("--init_from=auto", status=1)


def test_two_processes_begin_continue_and_end_together(folder: Folder) -> None:
    for words, said in (
        (["--max_iters=10"], "finished 10 iterations"),
        ([], "resuming at iteration 10"),
        ([], "nothing to train"),
    ):
        out = folder.process("train", *TINY, "--init_from=auto", *words, module=TORCHRUN)
        assert out.count(said) == 1
