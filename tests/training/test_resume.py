"""Stopping and resuming: a resumed run equals the run that was never stopped."""

import signal
import subprocess
import sys

import pytest

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


def test_the_shape_of_the_model_cannot_be_changed_on_resume_and_both_values_are_named(folder: Folder) -> None:
    folder.train()
    out = folder.train("--init_from=resume", "--n_embd=64", "--block_size=8", status=2)
    assert "n_embd=64 was typed, the run was trained with n_embd=32" in out
    assert "block_size=8 was typed, the run was trained with block_size=16" in out


def test_a_preset_that_differs_from_the_run_is_reported_and_ignored(folder: Folder) -> None:
    folder.train()
    out = folder.run("train", "laptop", "--out_dir=run", "--init_from=resume", "--max_iters=25")
    assert "note: n_layer=4 is not used: the run has 2" in out
    assert max(folder.losses()) == 24


def test_resuming_where_nothing_was_saved_is_explained(folder: Folder) -> None:
    out = folder.train("--init_from=resume", status=2)
    assert "nothing to resume in run" in out


def test_a_finished_run_that_is_resumed_without_more_iterations_is_still_finished(folder: Folder) -> None:
    folder.train()
    out = folder.run("train", "run", "--init_from=resume")
    assert "finished 20 iterations" in out


def test_another_vocabulary_is_refused(folder: Folder) -> None:
    folder.train()
    (folder.path / "other.txt").write_text("αβγδεζηθικλμνξοπρστυφχψω" * 200 + "abcdefghij", encoding="utf-8")
    folder.run("prepare", "other.txt", "--out", "data/other", "--tokenizer", "char")
    out = folder.train("--init_from=resume", "--dataset=data/other", "--max_iters=30", status=2)
    assert "(char, a vocabulary of 19) than that of data/other (char, 34)" in out


def test_another_tokenizer_of_the_same_size_is_refused(folder: Folder) -> None:
    """The same numbers would mean other letters, and nothing would fail."""
    folder.train()
    text = (folder.path / "tiny.txt").read_text("utf-8")
    (folder.path / "other.txt").write_text(text.upper().replace(" ", "_"), encoding="utf-8")
    folder.run("prepare", "other.txt", "--out", "data/other", "--tokenizer", "char")
    out = folder.train("--init_from=resume", "--dataset=data/other", "--max_iters=30", status=2)
    assert "another tokenizer" in out


def test_other_data_in_the_same_tokens_is_noted(folder: Folder) -> None:
    folder.train()
    text = (folder.path / "tiny.txt").read_text("utf-8")
    (folder.path / "other.txt").write_text(text[::-1], encoding="utf-8")
    folder.run("prepare", "other.txt", "--out", "data/other", "--tokenizer", "char")
    out = folder.train("--init_from=resume", "--dataset=data/other", "--max_iters=30")
    assert "data/other is not what the run was trained on until now" in out
    assert max(folder.losses()) == 29


def test_settings_that_may_change_on_resume_change_and_are_reported(folder: Folder) -> None:
    folder.train()
    out = folder.run("train", "run", "--init_from=resume", "--max_iters=30", "--eval_interval=5", "--log_interval=2")
    assert "max_iters: 20 → 30" in out
    (resumed,) = folder.events(kind="resume")
    assert resumed["changed"] == {"max_iters": [20, 30], "eval_interval": [10, 5], "log_interval": [1, 2]}
    assert [step for step in folder.evaluations() if step > 20] == [25, 30]


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
