"""What terminals, shells and people do to a log, and that it reads the same nevertheless."""

import re

import pytest


def facts(log) -> tuple:
    (run,) = log.runs
    return (
        log.format,
        list(run.steps.step),
        list(run.steps.loss),
        [(e.step, e.val) for e in run.evals],
        [c.step for c in run.checkpoints],
    )


def in_colour(line: str) -> str:
    return re.sub(r"(\d+\.?\d*)", "\x1b[1;36m\\1\x1b[0m", line)


DIRT = {
    "CRLF": lambda lines: "\r\n".join(lines),
    "carriage returns only": lambda lines: "\r".join(lines),
    "a byte order mark": lambda lines: "\ufeff" + "\n".join(lines),
    "colours inside numbers": lambda lines: "\n".join(map(in_colour, lines)),
    "a markdown fence": lambda lines: "```text\n" + "\n".join(lines) + "```",
    "markdown quotes": lambda lines: "".join(f"> {line}\n> \n" for line in lines),
    "logger prefixes": lambda lines: "\n".join(f"2031-05-06 07:08:09,123 - root - INFO - {line}" for line in lines),
    "every line twice": lambda lines: "".join(f"{line}\n{line}\n" for line in lines),
    "three ranks": lambda lines: "".join(f"[rank{rank}]: {line}\n" for line in lines for rank in range(3)),
    "typed keys": lambda lines: "\n".join(f"jj^[[A^[[B{line}" if i % 7 == 0 else line for i, line in enumerate(lines)),
    "blank lines": lambda lines: "\n\n\n".join(lines),
    "a progress bar between": lambda lines: "".join(f"\r 10%|#   | 1/9 [00:01<00:08]\r{line}\n" for line in lines),
    "lines wrapped at 40": lambda lines: "\n".join(line[i : i + 40] for line in lines for i in range(0, len(line), 40)),
    "lines wrapped at 30": lambda lines: "\n".join(line[i : i + 30] for line in lines for i in range(0, len(line), 30)),
}


@pytest.mark.parametrize("dirt", DIRT)
def test_the_same_facts_come_out_of_a_log_with(read, nanogpt_lines, dirt) -> None:
    assert facts(read(DIRT[dirt](nanogpt_lines))) == facts(read("\n".join(nanogpt_lines)))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "latin-1"])
def test_the_same_facts_come_out_of_a_log_encoded_as(read, nanogpt_lines, encoding) -> None:
    assert facts(read("\n".join(nanogpt_lines), encoding)) == facts(read("\n".join(nanogpt_lines)))


def test_a_last_line_that_is_cut_off_is_left_out(read, nanogpt_lines) -> None:
    (run,) = read("\n".join(nanogpt_lines)[:-30]).runs

    assert run.last_step == 390


def test_a_middle_that_is_left_out_does_not_split_the_run(read, nanogpt_lines) -> None:
    (run,) = read("\n".join([*nanogpt_lines[:12], "...", *nanogpt_lines[-12:]])).runs

    assert run.first_step == 0
    assert run.last_step == 400


def test_a_single_line_of_fifty_megabytes_is_answered(read) -> None:
    log = read(b"step 1 loss " * 4_200_000)

    assert log.lines == 1


def test_an_endless_progress_bar_keeps_its_records(read) -> None:
    bar = "\r 10%|#         | 1/9 [00:01<00:08]" * 60_000  # two megabytes without a newline
    log = read(f"{bar}\riter 0: loss 4.0, time 9.00ms\riter 1: loss 3.9, time 9.00ms\n")

    assert [list(run.steps.step) for run in log.runs] == [[0, 1]]


def test_line_numbers_are_those_of_an_editor(read) -> None:
    log = read("a\r\nb\r1%|#  |\rc\r\nValueError: no such file\r\n")

    assert log.errors[0].line == 3


@pytest.mark.parametrize("nothing", [b"", b"\n\n\n", b"\x00\xff\xfe" * 1000, bytes(range(256)) * 50])
def test_nothing_is_found_where_nothing_is(read, nothing) -> None:
    log = read(nothing)

    assert log.format == "none"
    assert log.runs == []
