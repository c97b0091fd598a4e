"""Whole runs in real processes."""

import itertools
import json
import os
import re
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from nanoscope.data.loader import Batch, BatchLoader
from nanoscope.interop.huggingface import TRANSPOSED
from nanoscope.model import GPT, ModelConfig
from nanoscope.training.checkpoint import CheckpointWriter
from nanoscope.training.evaluate import Evaluator
from nanoscope.training.phases import PhaseClock
from small_runs import TINY, Folder

ITERATION = re.compile(
    r"iter (\d+): loss \d\.\d{4}, time \d+\.\d\dms, mfu (n/a|\d+\.\d\d%), tok/s [\d.]+[kM]?, eta \d+s"
)
EVALUATION = re.compile(r"step (\d+): train loss \d\.\d{4}, val loss \d\.\d{4} ± \d\.\d{4}, eval \d+\.\d\ds")


def test_a_run_prints_nanogpt_shaped_lines_and_leaves_a_whole_folder(folder: Folder) -> None:
    out = folder.train()
    assert [int(m[1]) for m in map(ITERATION.fullmatch, out.splitlines()) if m] == list(range(20))
    assert [int(m[1]) for m in map(EVALUATION.fullmatch, out.splitlines()) if m] == [10, 20]
    assert re.search(r"^saving checkpoint to run/checkpoints/step-000010 \(\d+\.\d\ds\)$", out, re.MULTILINE)
    run = folder.path / "run"
    assert {path.name for path in run.iterdir()} == {
        "config.toml",
        "console.log",
        "events.jsonl",
        "checkpoints",
        "windows",
    }
    assert "iter 19: loss" in (run / "console.log").read_text("utf-8")
    config = tomllib.loads((run / "config.toml").read_text("utf-8"))
    assert (config["n_embd"], config["max_iters"], config["environment"]["device"]) == (32, 20, "cpu")
    assert folder.losses()[19] < folder.losses()[0] - 0.5


@pytest.mark.slow
def test_the_phases_add_up_to_the_wall_time_since_the_process_started(folder: Folder) -> None:
    began = time.perf_counter()
    folder.process(
        "train", *TINY, "--max_iters=200", "--log_interval=50", "--eval_interval=50", "--sample_interval=100"
    )
    outside = time.perf_counter() - began
    (end,) = folder.events(kind="end")
    phases = end["phases"]
    assert sum(phases.values()) == pytest.approx(end["wall_seconds"], rel=0.01)
    assert outside / 2 < end["wall_seconds"] <= outside  # the process's own start counts, its exit cannot
    assert all(phases[name] > 0 for name in ("startup", "data", "step", "eval", "checkpoint", "sample"))


def test_the_time_of_an_iteration_holds_neither_evaluation_nor_checkpoint(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(method: Callable[..., object]) -> Callable[..., object]:
        def slow(*args: object, **kwargs: object) -> object:
            time.sleep(1)
            return method(*args, **kwargs)

        return slow

    monkeypatch.setattr(Evaluator, "evaluate", slowly(Evaluator.evaluate))
    monkeypatch.setattr(CheckpointWriter, "save", slowly(CheckpointWriter.save))
    folder.train()
    (end,) = folder.events(kind="end")
    assert end["phases"]["eval"] >= 2
    assert end["phases"]["checkpoint"] >= 2
    seconds = [event["seconds"] for event in folder.events(kind="iter")]
    assert sum(seconds) == pytest.approx(end["phases"]["step"] + end["phases"]["data"], rel=0.02)


def test_a_seed_gives_the_same_run_twice_and_another_seed_another(folder: Folder) -> None:
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        folder.train(f"--out_dir={name}", f"--seed={seed}", "--dropout=0.2")
    assert folder.losses("one") == folder.losses("again")
    assert folder.weights(20, "one") == folder.weights(20, "again")
    assert folder.losses("one") != folder.losses("other")


def test_gradient_accumulation_is_the_same_as_a_larger_batch(folder: Folder) -> None:
    folder.train("--out_dir=large", "--batch_size=8", "--max_iters=5")
    folder.train("--out_dir=small", "--batch_size=2", "--gradient_accumulation_steps=4", "--max_iters=5")
    assert folder.losses("large") == pytest.approx(folder.losses("small"), rel=1e-4)


def test_a_loss_that_is_not_finite_stops_the_run_names_the_iteration_and_spares_the_checkpoint(folder: Folder) -> None:
    folder.train("--max_iters=10")
    saved = folder.weights(10)
    out = folder.train(
        "--init_from=resume", "--max_iters=30", "--learning_rate=1e30", "--decay_lr=False", "--grad_clip=0", status=1
    )
    (bad,) = folder.events(kind="non_finite")
    assert 10 < bad["step"] < 20
    assert f"the loss is not finite at iteration {bad['step']}" in out
    assert "step-000010, is intact" in out
    assert folder.weights(10) == saved
    assert folder.events(kind="end")[-1]["reason"] == "non_finite"


def test_patience_ends_a_run_that_no_longer_improves(folder: Folder) -> None:
    out = folder.train(
        "--max_iters=300", "--patience=2", "--learning_rate=1e-30", "--eval_interval=5", "--decay_lr=False"
    )
    (end,) = folder.events(kind="end")
    assert end["reason"] == "patience"
    assert end["step"] < 300
    assert "out of patience" in out


@pytest.mark.slow
def test_max_minutes_ends_a_run_with_everything_saved(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock strikes after 12 batches: a real minute would be over before the start-up of a busy machine."""
    batches = itertools.count()
    read, minutes = BatchLoader.next, 0

    def next_batch(self: BatchLoader) -> list[Batch]:
        nonlocal minutes
        minutes = int(next(batches) >= 12)
        return read(self)

    monkeypatch.setattr(BatchLoader, "next", next_batch)
    monkeypatch.setattr(PhaseClock, "wall_seconds", property(lambda self: 60.0 * minutes))
    out = folder.train("--max_minutes=1")
    (end,) = folder.events(kind="end")
    assert (end["reason"], end["step"]) == ("max_minutes", 13)
    assert folder.weights(13)
    assert "max_minutes is over" in out
    assert "nanoscope train run --init_from=resume" in out


def test_eval_only_evaluates_once_and_trains_nothing(folder: Folder) -> None:
    folder.train("--eval_only=True")
    assert len(folder.events(kind="eval")) == 1
    assert folder.events(kind="iter") == []
    assert list((folder.path / "run/checkpoints").iterdir()) == []


def test_without_always_save_only_improvements_and_the_end_are_saved(folder: Folder) -> None:
    folder.train("--always_save_checkpoint=False", "--eval_interval=5", "--learning_rate=1e-30", "--decay_lr=False")
    best = {e["step"] for e in folder.events(kind="eval") if e["best"]}
    saved = {e["step"] for e in folder.events(kind="checkpoint")}
    assert saved == (best - {0}) | {20}


def test_keep_checkpoints_bounds_what_a_run_leaves(folder: Folder) -> None:
    folder.train("--max_iters=60", "--eval_interval=10", "--keep_checkpoints=1")
    kept = {path.name for path in (folder.path / "run/checkpoints").glob("step-*")}
    best = (folder.path / "run/checkpoints/best").read_text("utf-8").strip()
    assert kept == {best, "step-000060"}


def test_samples_are_written_on_the_way_and_do_not_change_the_run(folder: Folder) -> None:
    folder.train("--out_dir=with", "--sample_interval=10", "--dropout=0.1")
    folder.train("--out_dir=without", "--dropout=0.1")
    assert len((folder.path / "with/samples/step-000010.txt").read_text("utf-8")) > 100
    assert folder.weights(20, "with") == folder.weights(20, "without")


def test_a_run_is_only_overwritten_on_request(folder: Folder) -> None:
    folder.train()
    saved = folder.weights(20)
    out = folder.train("--seed=5", status=2)
    assert "already holds a run" in out
    assert "--overwrite=True" in out
    assert folder.weights(20) == saved
    folder.train("--seed=5", "--overwrite=True")
    assert folder.weights(20) != saved


def test_overwriting_deletes_nothing_but_the_run(folder: Folder) -> None:
    folder.train()
    (folder.path / "run/notes.txt").write_text("mine", encoding="utf-8")
    folder.train("--overwrite=True")
    assert (folder.path / "run/notes.txt").read_text("utf-8") == "mine"


def test_without_out_dir_each_run_gets_a_folder_of_its_own_and_resume_finds_the_newest(folder: Folder) -> None:
    words = ["laptop", *(word for word in TINY if not word.startswith("--out_dir"))]
    folder.run("train", *words)
    folder.run("train", *words)
    assert {path.name for path in (folder.path / "runs").iterdir()} == {"laptop-tiny", "laptop-tiny-2"}
    out = folder.run("train", "laptop", "--dataset=data/tiny", "--init_from=resume", "--max_iters=25")
    assert "nanoscope 0.1.0: runs/laptop-tiny-2" in out
    assert "resuming at iteration 20" in out


@pytest.mark.slow
def test_gpt2_weights_are_a_beginning_too(folder: Folder) -> None:
    shape = ModelConfig(vocab_size=50257, block_size=32, n_layer=1, n_head=2, n_embd=8, bias=True)
    weights = {name.removeprefix("transformer."): tensor for name, tensor in GPT(shape).named_parameters()}
    layout = {name: w.t().contiguous() if name.endswith(TRANSPOSED) else w.detach() for name, w in weights.items()}
    (folder.path / "gpt2-small").mkdir()
    save_file(layout, folder.path / "gpt2-small/model.safetensors")
    described = {"n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 32, "vocab_size": 50257}
    (folder.path / "gpt2-small/config.json").write_text(json.dumps(described), encoding="utf-8")
    (folder.path / "data/ids").mkdir()
    for split in ("train", "val"):  # as nanoGPT prepares: GPT-2 ids and no meta.pkl
        (np.arange(3000) % 7).astype(np.uint16).tofile(folder.path / f"data/ids/{split}.bin")
    out = folder.run(
        "train", "finetune", "--init_from=gpt2-small", "--dataset=data/ids", "--block_size=16", "--out_dir=run",
        "--gradient_accumulation_steps=2", "--max_iters=10", "--eval_interval=5", "--device=cpu",
        "--learning_rate=1e-2",
    )  # fmt: skip
    assert "finished 10 iterations" in out
    config = tomllib.loads((folder.path / "run/config.toml").read_text("utf-8"))
    assert (config["n_layer"], config["n_embd"], config["bias"], config["dropout"]) == (1, 8, True, 0.1)
    assert folder.losses()[0] == pytest.approx(10.8, abs=0.3)
    assert folder.losses()[9] < folder.losses()[0] - 0.2
    assert "finished 12 iterations" in folder.run("train", "run", "--init_from=resume", "--max_iters=12")


@pytest.mark.slow
def test_compiled_training_gives_the_losses_of_eager_training(folder: Folder) -> None:
    small = ["--n_layer=1", "--max_iters=3"]  # g++ takes most of the time: a second for each kernel
    folder.train("--out_dir=eager", *small)
    out = folder.train("--out_dir=compiled", *small, "--compile=True")
    assert "training continues in eager mode" not in out
    assert folder.losses("compiled") == pytest.approx(folder.losses("eager"), rel=1e-3)
    (end,) = folder.events("compiled", "end")
    assert max(e["seconds"] for e in folder.events("compiled", "iter")) < end["phases"]["startup"]


@pytest.mark.slow
def test_a_compiler_that_fails_costs_one_line_and_not_the_run(folder: Folder) -> None:
    (folder.path / "sitecustomize.py").write_text(
        "import torch\n"
        "def broken(model, **options):\n"
        "    def call(*args): raise RuntimeError('no C++ compiler found')\n"
        "    return call\n"
        "torch.compile = broken\n",
        encoding="utf-8",
    )
    # A cache of its own: other tests must not find this compiler's failure there.
    path = os.pathsep.join([str(folder.path), os.environ.get("PYTHONPATH", "")])
    folder.extra = {"PYTHONPATH": path, "NANOSCOPE_CACHE": str(folder.path / "cache")}
    out = folder.process("train", *TINY, "--compile=True", "--max_iters=3")
    assert "note: torch.compile does not work here (no C++ compiler found); training continues in eager mode" in out
    assert len(folder.losses()) == 3
    assert folder.events(kind="start")[0]["compiled"] is False  # what was really used
    assert "compiled = false" in (folder.path / "run/config.toml").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_trains_close_to_single(folder: Folder, dtype: str) -> None:
    folder.train("--out_dir=single")
    folder.process("train", *TINY, "--out_dir=half", f"--dtype={dtype}")  # only a process of its own can be probed for
    assert folder.losses("half")[19] == pytest.approx(folder.losses("single")[19], abs=0.15)
    if dtype == "float16":
        state = json.loads((folder.path / "half/checkpoints/step-000020/state.json").read_text("utf-8"))
        assert state["scaler"]["scale"] > 1


def test_a_clock_that_is_set_back_and_forth_does_not_disturb_the_timing(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    jumps = itertools.cycle([0, 7_200, -86_400, 3_000_000])
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + next(jumps))
    monkeypatch.setattr(time, "time_ns", lambda: int(1e9 * (now + next(jumps))))
    folder.train()
    (end,) = folder.events(kind="end")
    assert sum(end["phases"].values()) == pytest.approx(end["wall_seconds"], rel=0.01)
    assert 0 < end["wall_seconds"] < 7_200
    assert all(0 < event["seconds"] < 60 for event in folder.events(kind="iter"))
    assert all(0 <= event["eta_seconds"] < 60 for event in folder.events(kind="iter"))


def test_the_last_lines_say_where_the_loss_stands_among_ngram_models(folder: Folder) -> None:
    out = folder.train()
    (start,), (end,) = folder.events(kind="start"), folder.events(kind="end")
    assert len(start["ladder"]["losses"]) == 9  # type: ignore[index]
    assert end["best_place"]["unit"] == "character"  # type: ignore[index]
    assert re.search(r"^best val loss .*\nthat is (better|worse|about as good) .*\(\d\.\d\d\)", out, re.MULTILINE)


def test_data_prepared_by_an_earlier_version_is_measured_by_the_first_run(folder: Folder) -> None:
    (folder.path / "data/tiny/ladder.json").unlink()
    assert "to beat: guessing" in folder.train()
    assert (folder.path / "data/tiny/ladder.json").is_file()


def test_data_that_cannot_be_measured_is_trained_on_all_the_same(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.path / "data/tiny/ladder.json").unlink()
    access = os.access
    data = (folder.path / "data/tiny").resolve()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).resolve() != data and access(path, mode))
    out = folder.train()
    assert "finished 20 iterations" in out


def test_a_run_uses_as_many_threads_as_it_is_told_and_leaves_torch_as_it_was(folder: Folder) -> None:
    before = torch.get_num_threads()
    assert ", 3 threads" in folder.train("--threads=3", "--max_iters=1")
    assert torch.get_num_threads() == before
