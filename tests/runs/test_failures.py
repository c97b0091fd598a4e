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
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n": "out_of_memory",
    "[CUDA ERROR] at file train.cu:265:\nout of memory\n": "out_of_memory",
    "[CUDA ERROR] at file train.cu:754:\nmisaligned address\n": "exception",
    "Traceback (most recent call last):\nFileNotFoundError: [Errno 2] No such file: 'train.bin'\n": "exception",
    "AssertionError\n": "exception",
    "Killed\n": "killed",
    "zsh: killed     python train.py\n": "killed",
    "Segmentation fault (core dumped)\n": "killed",
    "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2031-01-01T00:00:00 DUE TO TIME LIMIT ***\n": "killed",
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.batch.\n": "out_of_memory",
    "[rank1]:[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9)\nAborted (core dumped)\n": "exception",
    "Traceback (most recent call last):\nRuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that workers are out of shared memory.\n": "killed",
    "E0101 api.py:826] failed (exitcode: -9) local_rank: 0 (pid: 77) of binary: python\n": "killed",
    "[1]    4242 killed     python train.py\n": "killed",
    "The kernel appears to have died. It will restart automatically.\n": "killed",
    "[2031-01-01 00:00:00,000] [INFO] [launch.py:328:sigkill_handler] Main process received SIGINT, exiting\n": "interrupted",
    "terminate called after throwing an instance of 'c10::Error'\n": "exception",
    "libc++abi: terminating due to uncaught exception of type std::runtime_error: [METAL] failed: OutOfMemory\n": "out_of_memory",
    "thread 'main' panicked at src/main.rs:10:5:\n": "exception",
    "torch.distributed.DistBackendError: NCCL error in: x.cpp:1275, remote process exited\n": "exception",
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.\n": "out_of_memory",
    "train.py: error: unrecognized arguments: --lr\n": "exception",
    "python: can't open file 'train.py': [Errno 2] No such file or directory\n": "exception",
    "bash: torchrun: command not found\n": "exception",
    "FloatingPointError: Minimum loss scale reached (0.0001).\n": "exception",
    "Error: Token out of range at sample.cu:675\n": "exception",
    'Traceback (most recent call last):\n  File "x.py", line 3, in <module>\n    step()\n  File "y.py", line 9, in step\n': "exception",
    'Traceback (most recent call last):\n  File "x.py", line 3, in <module>\n    step()\nhub.utils.GatedRepo: ask for access\n': "exception",
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


WATCHDOG = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9) ran for 600060 milliseconds"


@pytest.mark.parametrize("rank", ["", "[rank5]:[E101 10:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 5] "])
@pytest.mark.parametrize(
    "record",
    [" {n}%|#         | {n}/300 [01:{n}<1:22:56,  2.88s/it, loss=2.{n}]", "step {n} loss 2.{n}"],
)
def test_a_collective_that_timed_out_is_found_behind_a_record(read, record, rank) -> None:
    log = read("\n".join(record.format(n=n) for n in range(20, 29)) + " " + rank + WATCHDOG + "\n")

    assert [(error.line, error.kind, error.message) for error in log.errors] == [(9, "exception", WATCHDOG)]


def test_a_kill_is_found_behind_the_bar_that_it_stopped(read) -> None:
    bars = "".join(f"\r {n}00/9000 [==>........] - ETA: 365s - loss: 2.1{n}" for n in range(20, 29))
    log = read("Epoch 1/1\n" + bars + "Killed\n")

    assert [error.kind for error in log.errors] == ["killed"]


def test_a_crash_before_training_is_reported(read) -> None:
    log = read("number of parameters: 10.65M\nValueError: vocab_size is missing\n")

    assert log.format == "none"
    assert [(e.line, e.kind) for e in log.errors] == [(2, "exception")]


def test_a_traceback_that_was_cut_says_where_it_happened(read) -> None:
    cut = 'Traceback (most recent call last):\n  File "main.py", line 3, in <module>\n    run()\n  File "loop.py", line 9, in run\n'

    assert [(error.line, error.message) for error in read(STEPS + cut).errors] == [
        (34, 'File "loop.py", line 9, in run')
    ]


def test_an_error_after_the_end_of_training_does_not_harm_the_run(read) -> None:
    log = read(STEPS + "Training complete.\n" + "step 9: x\nFileNotFoundError: prompt.txt\n")
    finished = read(
        "".join(
            f"step {s}/9 | loss 5.1 (+nanz)| norm 1.0 (+nanz)| lr 1e-4 | 36.1 ms | 9% bf16 MFU | 9 tok/s\n"
            for s in range(1, 10)
        )
        + "Error: Token out of range at sample.cu:7\n"
    )

    assert [error.kind for error in log.errors] == ["exception"]
    assert not finished.runs[0].failed
    assert finished.errors[0].message == "Error: Token out of range at sample.cu:7"


def test_the_first_of_several_errors_is_listed_first(read) -> None:
    traceback = 'Traceback (most recent call last):\n  File "x.py", line 3, in <module>\n    step()\n'
    log = read(STEPS + traceback + "ValueError: the cause\n" + traceback + "RuntimeError: what followed\n")

    assert log.errors[0].message == "ValueError: the cause"


def test_a_loss_scale_that_is_reduced_is_noted_at_its_step(read) -> None:
    overflow = "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768\n"
    (run,) = read(
        STEPS + overflow + "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 16384.0\n"
    ).runs

    assert list(run.series["loss_scale"].values) == [32768, 16384]
    assert list(run.series["loss_scale"].steps) == [29, 29]
