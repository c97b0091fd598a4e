"""Stopping and resuming: a resumed run equals the run that was never stopped."""

import json
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from nanoscope.checkpoint_files import state_checksum
from nanoscope.training.evaluate import Evaluator
from small_runs import TINY, Folder

pytestmark = pytest.mark.slow

SETTINGS = {
    "plain": [],
    "dropout": ["--dropout=0.2"],
    "dropout of n-grams": ["--ngram_dropout=0.5"],
    "classic": ["--recipe=classic", "--dropout=0.2"],
    "no tables, token shift": ["--ngrams=1", "--token_shift=3"],
    "epochs and accumulation": ["--order=epochs", "--gradient_accumulation_steps=3", "--batch_size=2", "--dropout=0.1"],
}


def settings(folder: Folder, run: str = "run") -> dict[str, Any]:
    """What config.toml says."""
    return tomllib.loads((folder.path / run / "config.toml").read_text("utf-8"))


def contents(folder: Folder, run: str = "run") -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (folder.path / run).rglob("*") if path.is_file()}


def change_best(file: Path, loss: float) -> None:
    state = json.loads(file.read_text("utf-8"))
    state["progress"]["best_val_loss"] = loss
    file.write_text(json.dumps({**state, "checksum": state_checksum(state)}), encoding="utf-8")


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_sixty_steps_and_thirty_plus_thirty_are_the_same_bit_for_bit(folder: Folder, settings: list[str]) -> None:
    common = ["--max_iters=60", "--lr_decay_iters=60", "--eval_interval=15", *settings]
    folder.train("--out_dir=whole", *common)
    folder.train("--out_dir=parts", *common, "--max_iters=30")
    out = folder.run("train", "parts", "--init_from=resume", "--max_iters=60")
    assert "resuming at iteration 30" in out
    assert folder.losses("parts") == folder.losses("whole")
    assert folder.evaluations("parts") == folder.evaluations("whole")
    assert folder.weights(60, "parts") == folder.weights(60, "whole")
    whole, parts = ((folder.path / run / "checkpoints/step-000060/optimizer.safetensors") for run in ("whole", "parts"))
    assert whole.read_bytes() == parts.read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_saves_and_prints_how_to_resume(folder: Folder, number: signal.Signals) -> None:
    folder.train("--out_dir=whole", "--max_iters=400", "--eval_interval=100")
    words = ["--max_iters=400", "--eval_interval=100"]
    status, out = folder.interrupt_after("iter 150:", *words, number=number)
    assert status == 128 + number
    assert f"by {number.name}" in out
    assert "saved; resume with: nanoscope train run --init_from=resume" in out
    stopped_at = folder.events(kind="end")[-1]["step"]
    assert 150 < stopped_at < 400
    folder.run("train", "run", "--init_from=resume")
    assert folder.losses() == folder.losses("whole")
    assert folder.weights(400) == folder.weights(400, "whole")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_a_signal_during_a_long_evaluation_does_not_wait_for_its_end(folder: Folder) -> None:
    status, out = folder.interrupt_after("iter 9:", "--eval_iters=full", "--block_size=4", "--max_iters=100000")
    assert status == 130
    assert "saved; resume with" in out


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_a_closed_pipe_ends_the_run_with_everything_saved(folder: Folder) -> None:
    process = folder.start("train", *TINY, "--max_iters=100000")
    assert process.stdout is not None
    while not process.stdout.readline().startswith("iter 20:"):
        pass
    process.stdout.close()
    assert process.wait(timeout=120) == 128 + signal.SIGPIPE
    end = folder.events(kind="end")[-1]
    assert (end["reason"], end["signal"]) == ("interrupted", "SIGPIPE")
    assert folder.weights(end["step"])
    assert process.stderr.read() == ""  # type: ignore[union-attr]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_a_pipe_for_output_and_errors_that_closes_ends_the_run_with_everything_saved(folder: Folder) -> None:
    command = [sys.executable, "-m", "nanoscope", "train", *TINY, "--max_iters=100000"]
    process = subprocess.Popen(
        command, cwd=folder.path, env=folder.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    while not process.stdout.readline().startswith(b"iter 20:"):
        pass
    process.stdout.close()
    assert process.wait(timeout=120) == 128 + signal.SIGPIPE
    assert folder.weights(folder.events(kind="end")[-1]["step"])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no nohup")
def test_a_run_under_nohup_survives_the_terminal(folder: Folder) -> None:
    code = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, sys.executable, "-m", "nanoscope", "train", *TINY, "--max_iters=300"]
    process = subprocess.Popen(command, cwd=folder.path, env=folder.environment, text=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("iter 20:"):
        pass
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert folder.events(kind="end")[-1]["reason"] == "finished"


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_killed_run_resumes_from_its_last_checkpoint_as_if_nothing_had_happened(folder: Folder) -> None:
    folder.train("--out_dir=whole", "--max_iters=200", "--dropout=0.1")
    folder.interrupt_after("iter 37:", "--max_iters=200", "--dropout=0.1", number=signal.SIGKILL)
    out = folder.train("--init_from=resume", "--max_iters=200")
    assert "resuming at iteration" in out
    assert folder.losses() == folder.losses("whole")
    assert folder.weights(200) == folder.weights(200, "whole")


def test_resuming_where_nothing_was_saved_is_explained(folder: Folder) -> None:
    out = folder.train("--init_from=resume", status=2)
    assert "nothing to resume in run" in out


def test_a_finished_run_that_is_resumed_without_more_iterations_stays_as_it_is(folder: Folder) -> None:
    folder.train()
    before = contents(folder)
    out = folder.run("train", "run", "--init_from=resume")
    assert "run has finished its 20 iterations: nothing to train" in out
    assert "nanoscope train run --init_from=resume --max_iters=40" in out
    assert contents(folder) == before


def test_a_run_that_was_killed_before_it_could_say_that_it_has_finished_says_so_when_it_is_resumed(
    folder: Folder,
) -> None:
    folder.train()
    file, saved = folder.path / "run/events.jsonl", folder.weights(20)
    file.write_text("".join(file.read_text("utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8")
    assert folder.events()[-1]["event"] == "checkpoint"
    assert "finished 20 iterations" in folder.run("train", "run", "--init_from=resume")
    assert folder.events()[-1]["reason"] == "finished"
    assert folder.weights(20) == saved


def test_a_max_iters_that_the_run_is_past_changes_nothing(folder: Folder) -> None:
    folder.train()
    before = contents(folder)
    out = folder.run("train", "run", "--init_from=resume", "--max_iters=15")
    assert "run has finished its 20 iterations: nothing to train" in out
    assert contents(folder) == before


def test_the_last_evaluation_is_made_up_for_if_the_run_was_stopped_during_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "evaluate", lambda *args, **kwargs: None)  # as if it was abandoned
        folder.train()
    assert folder.evaluations() == {}
    out = folder.run("train", "run", "--init_from=resume")
    assert list(folder.evaluations()) == [20]
    assert "finished 20 iterations" in out


def test_another_vocabulary_is_refused(folder: Folder) -> None:
    folder.train()
    (folder.path / "other.txt").write_text("αβγδεζηθικλμνξοπρστυφχψω" * 200 + "abcdefghij", encoding="utf-8")
    folder.run("prepare", "other.txt", "--out", "data/other", "--tokenizer", "char")
    out = folder.train("--init_from=resume", "--dataset=data/other", "--max_iters=30", status=2)
    assert "data/other has another tokenizer than the run" in out


def test_another_tokenizer_of_the_same_size_is_refused(folder: Folder) -> None:
    """The same numbers would mean other letters, and nothing would fail."""
    folder.train()
    text = (folder.path / "tiny.txt").read_text("utf-8")
    (folder.path / "other.txt").write_text(text.upper().replace(" ", "_"), encoding="utf-8")
    folder.run("prepare", "other.txt", "--out", "data/other", "--tokenizer", "char")
    out = folder.train("--init_from=resume", "--dataset=data/other", "--max_iters=30", status=2)
    assert "another tokenizer" in out


def test_the_settings_of_this_machine_hold_for_the_session(folder: Folder) -> None:
    folder.train("--device=auto")
    folder.run("train", "run", "--init_from=resume", "--max_iters=25", "--device=cpu", "--dtype=float32")
    saved = settings(folder)
    assert (saved["device"], saved["dtype"]) == ("auto", "auto")


def test_an_evaluation_of_a_run_is_printed_and_leaves_the_run_as_it_was(folder: Folder) -> None:
    folder.train()
    before = contents(folder)
    words = ["--eval_only=True", "--eval_iters=10", "--max_minutes=5"]
    out = folder.run("train", "run", "--init_from=resume", *words)
    (line,) = [line for line in out.splitlines() if line.startswith("step 20: train loss")]
    assert line not in (folder.path / "run/console.log").read_text("utf-8")  # other windows, another loss
    assert "evaluated at iteration 20 without training" in out
    assert contents(folder) == before
    assert "finished 24 iterations" in folder.run("train", "run", "--init_from=resume", "--max_iters=24")


def test_a_run_that_was_stopped_between_two_evaluations_can_be_evaluated(folder: Folder) -> None:
    folder.train("--max_iters=13")
    out = folder.run("train", "run", "--init_from=resume", "--eval_only=True", "--max_iters=100", "--eval_interval=50")
    assert "step 13: train loss" in out


def test_eval_only_and_max_minutes_of_an_old_configuration_are_ignored(folder: Folder) -> None:
    folder.train()
    file = folder.path / "run/config.toml"
    file.write_text("eval_only = true\nmax_minutes = 1e-9\n" + file.read_text("utf-8"), encoding="utf-8")
    out = folder.run("train", "run", "--init_from=resume", "--max_iters=25")
    assert "finished 25 iterations" in out
    assert not {"eval_only", "max_minutes"} & settings(folder).keys()


def test_a_changed_evaluation_measures_the_model_again_and_calls_that_the_best_so_far(folder: Folder) -> None:
    folder.train("--eval_iters=1", "--batch_size=1")
    (old,) = [e["val_loss"] for e in folder.events(kind="eval") if e["step"] == 20]
    # A rate that spoils the model: the best stays where it was.
    words = ["--eval_iters=full", "--max_iters=40", "--learning_rate=1", "--matrix_lr=1"]
    out = folder.run("train", "run", "--init_from=resume", *words)
    assert "evaluations now use other windows or other data: the best val loss so far" in out
    (new,) = [e["val_loss"] for e in folder.events(kind="eval") if e["step"] == 20][1:]
    assert new != old
    end = folder.events(kind="end")[-1]
    assert (end["best_step"], end["best_val_loss"]) == (20, pytest.approx(new, rel=1e-4))
    assert (folder.path / "run/checkpoints/best").read_text("utf-8").strip() == "step-000020"
    assert folder.weights(20)


def test_after_a_changed_evaluation_the_best_checkpoint_follows_the_new_losses(folder: Folder) -> None:
    """A lucky loss on few windows doesn't stay the best for ever."""
    folder.train("--eval_iters=2")
    for state in folder.path.glob("run/checkpoints/step-*/state.json"):
        change_best(state, 0.01)
    folder.run("train", "run", "--init_from=resume", "--eval_iters=full", "--max_iters=40")
    end = folder.events(kind="end")[-1]
    assert end["best_step"] == 40
    assert (folder.path / "run/checkpoints/best").read_text("utf-8").strip() == "step-000040"


def test_the_same_windows_in_other_words_are_the_same_evaluation(folder: Folder) -> None:
    folder.train("--eval_iters=4", "--batch_size=4")
    out = folder.run(
        "train", "run", "--init_from=resume", "--batch_size=8", "--eval_iters=2", "--max_iters=25"
    )  # fmt: skip
    assert "no longer counts" not in out


def test_an_interrupted_run_keeps_its_patience(folder: Folder) -> None:
    """Stopping and resuming must not give a run more evaluations than it would have had."""
    stuck = ["--learning_rate=1e-30", "--decay_lr=False", "--matrix_lr=1e-30", "--table_lr=1e-30", "--eval_interval=5"]
    folder.train("--out_dir=whole", *stuck, "--patience=4", "--max_iters=100")
    folder.train("--out_dir=parts", *stuck, "--patience=4", "--max_iters=15")
    folder.run("train", "parts", "--init_from=resume", "--max_iters=100")
    assert [folder.events(run, "end")[-1]["step"] for run in ("whole", "parts")] == [25, 25]


@pytest.mark.parametrize("order", ["random", "epochs"])
def test_another_split_of_the_same_tokens_is_the_same_run(folder: Folder, order: str) -> None:
    common = ["--batch_size=4", f"--order={order}", "--lr_decay_iters=30"]
    folder.train("--out_dir=whole", *common, "--max_iters=30")
    folder.train(*common)
    words = ["--batch_size=2", "--gradient_accumulation_steps=2", "--max_iters=30"]
    out = folder.run("train", "run", "--init_from=resume", *words)
    assert "batch_size: 4 → 2" in out
    assert "tokens_per_step" not in out
    assert folder.losses() == pytest.approx(folder.losses("whole"), rel=1e-3)  # the same sequences, rounding apart


def test_more_tokens_per_iteration_are_allowed_and_reported(folder: Folder) -> None:
    folder.train()
    out = folder.run("train", "run", "--init_from=resume", "--batch_size=8", "--max_iters=25")
    assert "tokens_per_step: 64 → 128" in out


def test_a_run_goes_on_in_the_dtype_that_was_chosen_for_it_on_a_cpu(folder: Folder) -> None:
    """Also where another one would be chosen today: an earlier version, or a probe on a busy machine, chose float32."""
    folder.train("--max_iters=4")
    file = folder.path / "run" / "config.toml"
    chosen = settings(folder)["environment"]["cpu_dtype"]
    file.write_text(file.read_text("utf-8").replace(f'cpu_dtype = "{chosen}"', 'cpu_dtype = "float32"'), "utf-8")
    folder.run("train", "run", "--init_from=resume", "--max_iters=6")
    assert folder.events(kind="start")[-1]["dtype"] == "float32"
    assert settings(folder)["environment"]["cpu_dtype"] == "float32"


def test_a_dtype_typed_for_one_session_is_not_the_one_that_the_run_goes_on_in(folder: Folder) -> None:
    folder.train("--max_iters=4")
    chosen = settings(folder)["environment"]["cpu_dtype"]
    other = "float32" if chosen == "bfloat16" else "bfloat16"
    folder.run("train", "run", "--init_from=resume", "--max_iters=6", f"--dtype={other}")
    assert settings(folder)["environment"]["cpu_dtype"] == chosen
    folder.run("train", "run", "--init_from=resume", "--max_iters=8")
    assert folder.events(kind="start")[-1]["dtype"] == chosen
