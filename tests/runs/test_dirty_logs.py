# ruff: noqa: E501 (a log line is as long as it is)
"""What terminals, shells and people do to a log must not change what is read from it."""

import html
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
    "HTML entities": lambda lines: html.escape("".join(f"{line}\n'a' < b && c > d\n" for line in lines)),
    "lines wrapped at 40": lambda lines: "\n".join(line[i : i + 40] for line in lines for i in range(0, len(line), 40)),
    "lines wrapped at 30": lambda lines: "\n".join(line[i : i + 30] for line in lines for i in range(0, len(line), 30)),
}


@pytest.mark.parametrize("dirt", DIRT)
def test_a_log_reads_the_same_with(read, nanogpt_lines, dirt) -> None:
    assert facts(read(DIRT[dirt](nanogpt_lines))) == facts(read("\n".join(nanogpt_lines)))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "latin-1"])
def test_a_log_reads_the_same_encoded_as(read, nanogpt_lines, encoding) -> None:
    assert facts(read("\n".join(nanogpt_lines), encoding)) == facts(read("\n".join(nanogpt_lines)))


def test_a_truncated_last_line_is_left_out(read, nanogpt_lines) -> None:
    (run,) = read("\n".join(nanogpt_lines)[:-30]).runs

    assert run.last_step == 390


def test_a_missing_middle_does_not_split_the_run(read, nanogpt_lines) -> None:
    (run,) = read("\n".join([*nanogpt_lines[:12], "...", *nanogpt_lines[-12:]])).runs

    assert run.first_step == 0
    assert run.last_step == 400


def test_a_single_line_of_fifty_megabytes_can_be_read(read) -> None:
    log = read(b"step 1 loss " * 4_200_000)

    assert log.lines == 1


@pytest.mark.slow
def test_an_endless_progress_bar_keeps_its_records(read) -> None:
    bar = "\r 10%|#         | 1/9 [00:01<00:08]" * 60_000  # two megabytes without a newline
    log = read(f"{bar}\riter 0: loss 4.0, time 9.00ms\riter 1: loss 3.9, time 9.00ms\n")

    assert [list(run.steps.step) for run in log.runs] == [[0, 1]]


def test_lines_are_numbered_as_in_an_editor(read) -> None:
    log = read("a\r\nb\r1%|#  |\rc\r\nValueError: no such file\r\n")

    assert log.errors[0].line == 3


@pytest.mark.parametrize("nothing", [b"", b"\n\n\n", b"\x00\xff\xfe" * 1000, bytes(range(256)) * 50])
def test_no_run_is_found_in_a_file_that_is_not_a_log(read, nothing) -> None:
    log = read(nothing)

    assert log.format == "none"
    assert log.runs == []


PREFIXES = ["    ", "[rank0]: ", "0: ", "2031-05-06 07:08:09,123 - root - INFO - ", "[2031-05-06 07:08:09] ", "jj"]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_text_before_a_line_hides_neither_evaluations_nor_steps(read, prefix) -> None:
    build = [
        "validation loss: 9.5000",
        "step     0 | loss: 9.1 | lr 1e-4 | norm: 1.0 | dt: 400.00ms | tok/sec: 1000.00",
    ]
    llm_c = ["val loss 9.500000", "step    1/20 | loss 7.0 (+0.1z)| norm 1.0 (+0.1z)| lr 1e-4 | 100.00 ms | 9 tok/s"]
    log_txt = ["0 val 9.5000", "0 train 9.100000", "1 train 9.000000"]
    for lines in (build, llm_c, *([log_txt] if prefix != "jj" else [])):
        if prefix == "jj":
            lines = [lines[0], *(prefix + line for line in lines[1:])]
        else:
            lines = [prefix + line for line in lines]
        (run,) = read("\n".join(lines)).runs

        assert [e.val for e in run.evals] == [9.5]
        assert len(run.steps) >= 1


def dict_lines() -> list[str]:
    return [
        f"{{'loss': {3 - s / 100:.4f}, 'grad_norm': 1.{s}, 'learning_rate': {1e-5 - s * 1e-8:.4e}, 'num_tokens': {s * 4096}, 'epoch': 0.{s}}}"
        for s in range(10, 30)
    ]


def megatron_lines() -> list[str]:
    return [
        f" iteration {s:8d}/     600 | consumed samples:       186368 | elapsed time per iteration (ms): 500.0 | learning rate: 1.3E-05 |"
        f" lm loss: {3 - s / 100:.6E} | loss scale: 1.0 | grad norm: 0.227 | number of skipped iterations:   0 |"
        for s in range(10, 30)
    ]


def detector_lines() -> list[str]:
    return [
        f"Epoch: [0]  [{s}/60]  eta: 0:00:11  lr: 0.005000  loss: {3 - s / 100:.4f} (2.0)  loss_mask: 0.7 (0.7)  time: 0.5000  data: 0.0100"
        for s in range(10, 30)
    ]


@pytest.mark.parametrize("lines", [dict_lines, megatron_lines, detector_lines])
@pytest.mark.parametrize("width", [80, 61])
def test_lines_of_any_trainer_that_a_terminal_broke_are_joined(read, lines, width) -> None:
    whole = lines()
    broken = [line[i : i + width] for line in whole for i in range(0, len(line), width)]

    assert facts(read("\n".join(broken))) == facts(read("\n".join(whole)))


def test_lines_that_happen_to_be_equally_long_are_not_joined(read) -> None:
    text = "".join(
        f"[loss_scaler.py:183:update_scale] OVERFLOW! Rank 0 Skipping. Attempted loss scale: 65536, reducing to 32768\nsteps: {s} loss: 2.{s}\n"
        for s in range(10, 30)
    )

    assert list(read(text).runs[0].steps.step) == list(range(10, 30))


@pytest.mark.parametrize("lines", [dict_lines, megatron_lines, detector_lines])
@pytest.mark.parametrize("prefix", [prefix for prefix in PREFIXES if prefix not in ("0: ", "jj")])
def test_a_prefix_changes_nothing(read, lines, prefix) -> None:
    assert facts(read("\n".join(prefix + line for line in lines()))) == facts(read("\n".join(lines())))
