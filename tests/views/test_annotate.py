import io

from rich.console import Console

import example_logs
from nanoscope.findings.analyse import analyse
from nanoscope.runs.reader import read_stream
from nanoscope.runs.text import clean_lines
from nanoscope.views.annotate import print_annotated
from nanoscope.views.terminal_page import Page
from nanoscope.words.language import Language


def annotated(text: str, code: str = "en") -> str:
    log = read_stream(io.BytesIO(text.encode()), "-", keep_rows=True)
    out = io.StringIO()
    page = Page(Language(code), Console(file=out, width=200, highlight=False, markup=False))
    print_annotated(clean_lines(io.BytesIO(text.encode())), log, [analyse(run, log=log) for run in log.runs], page)
    return out.getvalue()


def test_every_line_of_the_log_is_there_in_order():
    text = example_logs.spiky()
    shown = [line for line in annotated(text).splitlines() if not line.startswith("    ")]
    assert shown == text.splitlines()


def test_each_kind_of_line_is_explained_where_it_first_appears_and_only_there():
    lines = annotated(example_logs.gpu()).splitlines()
    for kind, first in (
        ("Evaluation:", "step 0: train loss"),
        ("Checkpoint:", "saving checkpoint"),
        ("One training step:", "iter 0: loss"),
        ("Tokens per step:", "tokens per iteration will be"),
        ("The vocabulary:", "found vocab_size"),
        ("A setting given", "Overriding: device"),
    ):
        notes = [number for number, line in enumerate(lines) if line.strip().startswith(f"^ {kind}")]
        assert len(notes) == 1, kind
        assert lines[notes[0] - 1].startswith(first)


def test_only_the_fields_that_a_line_has_are_explained():
    note = annotated("iter 0: loss 4.2, time 33.22ms, mfu 11.07%\niter 10: loss 4.1, time 33.2ms, mfu 11.07%\n")
    assert "mfu:" in note
    assert "norm:" not in note


def test_every_slow_step_is_followed_by_its_cause():
    lines = annotated(example_logs.spiky()).splitlines()
    at_500 = next(number for number, line in enumerate(lines) if line.startswith("iter 500:"))
    assert lines[at_500 + 1] == "    ^ Slow: of these 5.99 s, 5.82 s are not training but evaluation + checkpoint."
    assert sum(line.startswith("    ^ Slow:") for line in lines) == 21


def test_the_line_that_ended_the_run_is_marked():
    text = example_logs.spiky() + "Traceback (most recent call last):\nRuntimeError: CUDA out of memory.\n"
    assert annotated(text).rstrip().endswith("RuntimeError: CUDA out of memory.\n    ^ This ended the run.")


def test_escape_sequences_in_the_log_are_not_passed_on():
    out = annotated("\x1b]0;owned\x07iter 0: loss 4.2, time 33ms, mfu 1.00%\x1b[2J\x9b31m \u202e\n")
    assert not any(character in out for character in "\x1b\x07\x9b\u202e")
    assert "iter 0: loss 4.2, time 33ms, mfu 1.00%" in out


def test_a_text_that_is_no_log_is_printed_as_it_is():
    assert annotated("hello\nworld\n") == "hello\nworld\n"


def test_explanations_come_in_the_language_asked_for():
    assert "इवैल्यूएशन:" in annotated(example_logs.spiky(), "hi")
    assert "التقييم:" in annotated(example_logs.spiky(), "ar")


def test_a_field_is_named_as_the_line_names_it():
    note = annotated("step 0: loss 4.2, dt: 33.22ms\nstep 1: loss 4.1, dt: 33.2ms\n")
    assert "dt: how long this step took" in note


def test_nothing_in_arabic_points_up_at_a_line_that_is_not_above_it():
    note = annotated(example_logs.spiky(), "ar")
    assert "•" in note
    assert "^" not in note


def test_the_first_placeholder_and_the_first_fall_of_the_mfu_are_explained_once_on_their_lines():
    lines = annotated(example_logs.WAITING + "iter 110: loss 7.0, time 3995.00ms, mfu -100.00%\n").splitlines()
    notes = [number for number, line in enumerate(lines) if "^ mfu -100.00% is a placeholder" in line]
    above = [[line for line in lines[:number] if line.startswith("iter")][-1] for number in notes]
    assert above == example_logs.WAITING.splitlines()[:1]

    before, _, after = annotated(example_logs.GPU_END).partition("iter 5000: ")
    assert "^ The printed MFU falls at evaluations (step 5000: from 11.09% to 9.99%)" in after
    assert "moving average" not in before
