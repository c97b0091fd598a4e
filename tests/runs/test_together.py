"""Several files of one run, read as one log."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nanoscope.errors import JobError
from nanoscope.runs.together import read_together

WriteLog = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> WriteLog:
    """Write a log of these steps; return its path."""

    def write_log(name: str, steps: range, head: str = "", tail: str = "") -> str:
        lines = [f"iter {step}: loss {4 - step / 1000:.4f}, time 100.00ms, mfu 3.00%\n" for step in steps]
        (tmp_path / name).write_text("".join([head, *lines, tail]), "utf-8")
        return str(tmp_path / name)

    return write_log


def test_a_rotated_log_is_one_run_whatever_the_order_of_its_files(write: WriteLog) -> None:
    paths = [write("log", range(400, 600, 10)), write("log.1", range(200, 400, 10)), write("log.2", range(0, 200, 10))]
    log = read_together(paths)
    (run,) = log.runs

    assert list(run.steps.step) == list(range(0, 600, 10))
    assert (log.lines, log.source) == (60, " + ".join(reversed(paths)))


def test_a_continuation_replaces_the_steps_that_it_repeats(write: WriteLog) -> None:
    first = write("a.log", range(0, 300, 10), tail="KeyboardInterrupt\n")
    second = write("b.log", range(250, 500, 10), head="Resuming training from out\n")
    (run,) = read_together([first, second]).runs

    assert list(run.steps.step) == list(range(0, 500, 10))
    assert run.resumed_at == [250]


def test_lines_are_counted_through_all_files(write: WriteLog) -> None:
    second = write("b.log", range(100, 200, 10), tail="RuntimeError: CUDA out of memory.\n")
    log = read_together([write("a.log", range(0, 100, 10)), second])

    assert [error.line for error in log.errors] == [21]


def test_two_runs_that_both_begin_at_zero_are_refused(write: WriteLog) -> None:
    with pytest.raises(JobError, match=r"b\.log does not seem to continue .*a\.log"):
        read_together([write("a.log", range(0, 100, 10)), write("b.log", range(0, 200, 10))])


def test_a_setting_at_the_head_of_the_first_file_holds_for_all(write: WriteLog) -> None:
    first = write("a.log", range(0, 100, 10), head="max_iters = 400\n")
    (run,) = read_together([first, write("b.log", range(100, 200, 10))]).runs

    assert run.config["max_iters"] == 400


def test_runs_with_different_totals_are_refused(tmp_path: Path) -> None:
    for name, steps, total in (("a.log", range(0, 100, 10), 400), ("b.log", range(100, 200, 10), 900)):
        text = "".join(f"step {step}/{total} loss={4 - step / 1000:.4f} dt=0.1s\n" for step in steps)
        (tmp_path / name).write_text(text, "utf-8")

    with pytest.raises(JobError, match="does not seem to continue"):
        read_together([str(tmp_path / "a.log"), str(tmp_path / "b.log")])


def test_what_is_no_log_file_is_refused(write: WriteLog, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="no log file"):
        read_together([write("a.log", range(0, 100, 10)), str(tmp_path)])
