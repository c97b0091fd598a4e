# ruff: noqa: E501 (a log line is as long as it is)
"""Which lines are errors, and which only look like it."""

import pytest

STEPS = "\n".join(f"iter {s}: loss 4.0000, time 100.00ms, mfu 5.00%" for s in range(30)) + "\n"

ENDINGS = {
    "Traceback (most recent call last):\n  File 'x.py', line 3\n    step()\nKeyboardInterrupt\n": "interrupted",
    "^C\n": "interrupted",
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n": "out_of_memory",
    "[rank0]: torch.OutOfMemoryError: CUDA out of memory.\n": "out_of_memory",
    "RuntimeError: MPS backend out of memory (MPS allocated: 9 GB)\n": "out_of_memory",
    "[CUDA ERROR] at file train.cu:265:\nout of memory\n": "out_of_memory",
    "[CUDA ERROR] at file train.cu:754:\nmisaligned address\n": "exception",
    "Traceback (most recent call last):\nFileNotFoundError: [Errno 2] No such file: 'train.bin'\n": "exception",
    "AssertionError\n": "exception",
    "Killed\n": "killed",
    "zsh: killed     python train.py\n": "killed",
    "Segmentation fault (core dumped)\n": "killed",
    "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2031-01-01T00:00:00 DUE TO TIME LIMIT ***\n": "killed",
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.batch.\n": "out_of_memory",
}


@pytest.mark.parametrize(("ending", "kind"), ENDINGS.items())
def test_the_kind_of_an_error_is_recognised(read, ending, kind) -> None:
    log = read(STEPS + ending)

    assert [error.kind for error in log.errors] == [kind]
    assert log.runs[0].failed


HARMLESS = [
    "/lib/x.py:43: UserWarning: `compute` was called before `update`, which may lead to errors",
    "2031-01-01 00:00:00: E external/cuda_dnn.cc:9342] Unable to register factory",
    "  [diag] ERROR: [Errno 2] No such file or directory: 'diagnostics.jsonl'",
    "wandb: ERROR could not upload; retrying",
    "FutureWarning: GradScaler is deprecated",
    "W0101 torch/distributed/elastic] Sending process 77 closing signal SIGTERM",
    "JULIET: My killed heart, what error hath thee interrupt?",
]


@pytest.mark.parametrize("line", HARMLESS)
def test_a_warning_is_not_an_error(read, line) -> None:
    assert read(STEPS + line + "\n" + STEPS.replace("iter ", "iter 1")).errors == []


def test_an_interruption_printed_several_times_is_one_error(read) -> None:
    traceback = "Traceback (most recent call last):\n  File 'x.py', line 1\nKeyboardInterrupt\n"
    again = "\nDuring handling of the above exception, another exception occurred:\n\n"
    log = read(STEPS + traceback + again + traceback + "^C\n")

    assert [error.kind for error in log.errors] == ["interrupted"]


def test_the_exception_of_every_rank_is_one_error(read) -> None:
    ranks = (
        "".join(f"[rank{r}]: ValueError: shapes differ\n" for r in range(4)) + "builtins.ValueError:   shapes differ\n"
    )
    log = read(STEPS + ranks + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n")

    assert [error.message for error in log.errors] == ["ValueError: shapes differ"]


def test_a_message_glued_to_a_cut_record_is_found(read) -> None:
    cut = "step 3/9 | loss 5.1 (+nanz)| norm 1.0 (+nanz)| lr 1e-4 | 36slurmstepd: error: *** JOB 7 CANCELLED DUE TO TIME LIMIT ***"
    whole = "".join(
        f"step {s}/9 | loss 5.1 (+nanz)| norm 1.0 (+nanz)| lr 1e-4 | 36.1 ms | 9% bf16 MFU | 9 tok/s\n" for s in (1, 2)
    )
    log = read(whole + cut)

    assert "TIME LIMIT" in log.errors[0].message
    assert log.errors[0].line == 3


def test_a_crash_before_training_is_reported(read) -> None:
    log = read("number of parameters: 10.65M\nValueError: vocab_size is missing\n")

    assert log.format == "none"
    assert [(e.line, e.kind) for e in log.errors] == [(2, "exception")]
