"""Whose folder it is: a new run removes, replaces and moves nothing that nanoscope has not provably written there."""

from pathlib import Path

import pytest

from small_runs import TINY, Folder

UNNAMED = ["train", "laptop", *(word for word in TINY if not word.startswith("--out_dir"))]
SHORT = "--max_iters=2"
THEIRS = [
    "checkpoints/epoch=3.ckpt", "checkpoints/step-000100/model.pt", "samples/photo.jpg", "windows/app.ico",
    "tensorboard/events.out.tfevents.1", "config.toml", "console.log", "events.jsonl", "trackers.json",
]  # fmt: skip
BESIDE = ["README.md", "wandb/run-1/files/media.bin", "report.html", "data/train.bin"]
MODES = {"new": [], "overwrite": ["--overwrite=True"], "auto": ["--init_from=auto"]}


def put(folder: Folder, *names: str) -> None:
    for name in names:
        file = folder.path / "run" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("precious\n", "utf-8")


def contents(folder: Folder, run: str = "run") -> dict[str, bytes]:
    root = folder.path / run
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("name", THEIRS)
def test_a_run_does_not_start_where_something_of_others_is_in_its_way(
    folder: Folder, name: str, mode: list[str]
) -> None:
    put(folder, name, *BESIDE)
    before = contents(folder)
    assert "run" in folder.train(SHORT, *mode, status=2)
    assert contents(folder) == before


def test_the_refusal_names_what_is_in_the_way_and_the_way_out(folder: Folder) -> None:
    put(folder, "checkpoints/epoch=3.ckpt", "config.toml")
    out = folder.train(SHORT, status=2)
    assert "run holds config.toml, checkpoints/epoch=3.ckpt, not known to be from a run of nanoscope" in out
    assert "--out_dir=ANOTHER" in out


def test_a_folder_with_other_files_is_used_and_they_stay(folder: Folder) -> None:
    put(folder, *BESIDE)
    (folder.path / "run/samples").mkdir()
    before = contents(folder)
    for words in ([], ["--overwrite=True"]):
        folder.train(SHORT, *words)
        assert before.items() <= contents(folder).items()


@pytest.mark.parametrize("name", ["checkpoints/epoch=3.ckpt", "checkpoints/step-000002/notes.txt", "samples/photo.jpg"])
def test_overwriting_a_run_does_not_start_with_the_files_of_others_in_it(folder: Folder, name: str) -> None:
    folder.train(SHORT)
    put(folder, name)
    before = contents(folder)
    assert f"run holds {name}, not known to be from a run of nanoscope" in folder.train(
        SHORT, "--overwrite=True", status=2
    )
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["checkpoints", "checkpoints/step-000002/model.safetensors", "console.log"])
def test_overwriting_follows_no_link_and_decides_before_it_removes_anything(folder: Folder, name: str) -> None:
    folder.train(SHORT)
    moved, linked = folder.path / "elsewhere", folder.path / "run" / name
    linked.rename(moved)
    linked.symlink_to(moved)
    before = contents(folder), sorted(moved.rglob("*"))
    assert f"run holds {name}, not known to be from a run of nanoscope" in folder.train(
        SHORT, "--overwrite=True", status=2
    )
    assert (contents(folder), sorted(moved.rglob("*"))) == before
    assert not (folder.path / "run/lock.json").exists()


def test_checkpoints_may_be_a_link_to_an_empty_folder_on_another_disk(folder: Folder) -> None:
    (folder.path / "disk").mkdir()
    (folder.path / "run").mkdir()
    (folder.path / "run/checkpoints").symlink_to(folder.path / "disk")
    folder.train(SHORT)
    assert (folder.path / "disk/last").is_file()


def test_overwriting_removes_all_that_the_run_wrote(folder: Folder) -> None:
    folder.train("--sample_interval=2", "--max_iters=4")
    (folder.path / "run/checkpoints/.step-000004.17.tmp").mkdir()
    (folder.path / "run/checkpoints/step-000004").rename(folder.path / "run/checkpoints/damaged-step-000004")
    folder.train(SHORT, "--overwrite=True", "--eval_interval=1000")
    assert len(folder.events(kind="start")) == 1
    assert set(contents(folder)) == {
        "config.toml", "console.log", "events.jsonl", "windows/last.bin", "windows/best.bin", "checkpoints/last",
        "checkpoints/best", *(f"checkpoints/step-000002/{name}" for name in
        ("model.safetensors", "optimizer.safetensors", "state.json", "tokenizer.json")),
    }  # fmt: skip


def delete_checkpoints(run: Path) -> None:
    for file in sorted((run / "checkpoints").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    (run / "checkpoints").rmdir()


@pytest.mark.parametrize("words", [[], ["--init_from=auto"]], ids=["new", "auto"])
def test_a_finished_run_whose_checkpoints_were_deleted_keeps_its_folder(folder: Folder, words: list[str]) -> None:
    folder.run(*UNNAMED, SHORT)
    delete_checkpoints(folder.path / "runs/laptop-tiny")
    before = contents(folder, "runs/laptop-tiny")
    assert "nanoscope 0.1.0: runs/laptop-tiny-2" in folder.run(*UNNAMED, SHORT, *words)
    assert contents(folder, "runs/laptop-tiny") == before
    out = folder.train(SHORT, *words, "--out_dir=runs/laptop-tiny", status=2)
    assert "already holds a run" in out
    assert contents(folder, "runs/laptop-tiny") == before


def stop_before_the_first_checkpoint(folder: Folder) -> None:
    """As a kill leaves it."""
    folder.train(SHORT)
    delete_checkpoints(folder.path / "run")
    events = folder.path / "run/events.jsonl"
    lines = [line for line in events.read_text("utf-8").splitlines() if '"event":"checkpoint"' not in line]
    events.write_text("\n".join(lines[:-1]) + "\n", "utf-8")


def test_a_run_that_had_saved_nothing_is_not_overwritten_unasked_but_a_restarted_job_begins_it_again(
    folder: Folder,
) -> None:
    stop_before_the_first_checkpoint(folder)
    log = (folder.path / "run/events.jsonl").read_bytes()
    assert "already holds a run" in folder.train(SHORT, status=2)
    folder.train("--init_from=auto")
    assert (folder.path / "run/events.jsonl").read_bytes().startswith(log)
    folder.train("--out_dir=whole")
    assert folder.weights(20) == folder.weights(20, "whole")


def test_a_run_that_failed_before_its_first_iteration_leaves_its_folder_to_the_next(folder: Folder) -> None:
    folder.train(SHORT)
    delete_checkpoints(folder.path / "run")
    events = folder.path / "run/events.jsonl"
    events.write_text(events.read_text("utf-8").splitlines()[0] + "\n", "utf-8")
    folder.train(SHORT)
    assert len(folder.events(kind="start")) == 2


@pytest.mark.parametrize("name", ["events.jsonl", "console.log"])
def test_a_log_that_cannot_be_opened_is_one_message(folder: Folder, name: str) -> None:
    folder.train(SHORT)
    (folder.path / "run" / name).unlink()
    (folder.path / "run" / name).mkdir()
    out = folder.run("train", "run", "--init_from=resume", "--max_iters=4", status=1)
    assert f"run/{name} cannot be written: Is a directory" in out
    assert not (folder.path / "run/lock.json").exists()


def test_starting_a_preset_again_mentions_the_run_that_was_stopped(folder: Folder) -> None:
    process = folder.start(*UNNAMED, "--max_iters=100000", "--eval_interval=7")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("iter 8:"):
            process.terminate()
    process.communicate(timeout=120)
    last = (folder.path / "runs/laptop-tiny/checkpoints/last").read_text("utf-8").strip().removeprefix("step-")
    said = f"note: runs/laptop-tiny was stopped at iteration {int(last)} of 100000; to resume it: "
    command = "nanoscope train runs/laptop-tiny --init_from=resume"
    assert folder.run(*UNNAMED, SHORT).count(said + command) == 1
    assert said in folder.run(*UNNAMED, SHORT)  # also beside a run that has finished
    assert "was stopped at" not in folder.train(SHORT)
    folder.run(*command.split()[1:], f"--max_iters={int(last) + 1}")
    assert "was stopped at" not in folder.run(*UNNAMED, SHORT)
