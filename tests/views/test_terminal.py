import io
import re
from datetime import datetime

import pytest
from rich.console import Console

import example_logs
from compared_runs import EXAMPLES
from nanoscope.findings.analyse import Options, analyse, log_errors
from nanoscope.findings.compare import compare
from nanoscope.findings.declared import LogError
from nanoscope.messages import LANGUAGES, RIGHT_TO_LEFT_MARK
from nanoscope.runs.reader import read_stream
from nanoscope.runs.run import Log
from nanoscope.views.compare import print_comparison
from nanoscope.views.terminal import print_eta, print_report
from nanoscope.views.terminal_page import Page, printable
from nanoscope.words.language import Language

SPEAKERS = {code: Language(code) for code in LANGUAGES}
RAW = re.compile(r"\bNone\b|\bnan\b|\binf\b|[{}]")
NOW = datetime(2026, 11, 15, 20, 0)


def page_of(width: int = 80, code: str = "en", **terminal: object) -> Page:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False, **terminal)  # type: ignore[arg-type]
    return Page(SPEAKERS[code], console)


def text_of(page: Page) -> str:
    assert isinstance(page.console.file, io.StringIO)
    return page.console.file.getvalue()


def read(text: str) -> Log:
    return read_stream(io.BytesIO(text.encode()), "train.log")


def report(text: str, width: int = 80, code: str = "en") -> str:
    log = read(text)
    page = page_of(width, code)
    print_report(log, [analyse(run, log=log) for run in log.runs], log_errors(log.errors), page)
    return text_of(page)


def on_one_line(text: str) -> str:
    return " ".join(text.split())


def without_charts(text: str) -> list[str]:
    return [line for line in text.splitlines() if "┤" not in line and line.strip()]


def test_the_verdict_comes_before_everything_else_but_the_name():
    lines = without_charts(report(example_logs.gpu()))
    assert lines[0].startswith("train.log: ")
    assert lines[1].startswith("Severe overfitting. ")


def test_the_turning_point_of_an_overfitting_run_is_given():
    text = on_one_line(report(example_logs.gpu()))
    assert "Validation loss was best at step 1750 (1.4697) and has risen to 1.7044 since" in text
    assert "What came after that, 65% of the run, did not help on new text." in text
    assert "Use the model from step 1750" in text


def test_four_lines_are_enough_to_see_overfitting_and_why_the_last_step_is_slow():
    text = on_one_line(report(example_logs.GPU_END))
    assert "Severe overfitting (likely). Validation loss 1.7044 is far above training loss 0.6224" in text
    assert "evaluation: step 5000 took 4.45 s (134× a normal step)." in text


def test_it_is_said_first_that_steps_with_an_evaluation_are_slow_and_what_their_times_hold():
    text = on_one_line(report(example_logs.QUOTED + example_logs.QUOTED_EVALUATIONS))
    assert text.startswith(
        "train.log: 16 lines, format nanogpt The slow steps are normal. The time printed at step 500 and 1000 is "
        "evaluation + checkpoint + training step. The time printed at step 0 is start-up + first evaluation + training "
        "step. The training step alone takes 168 ms, like all others."
    )
    assert "A normal step takes 168 ms" in text
    assert "step 0 took 12.5 s (75× a normal step). This holds the first evaluation and what happens only once" in text


@pytest.mark.parametrize(
    ("code", "title", "holds"),
    [
        ("ar", "الخطوات البطيئة أمر طبيعي", "هو التقييم + كتابة نقطة الحفظ + خطوة التدريب"),
        ("hi", "धीमे स्टेप सामान्य बात हैं", "इवैल्यूएशन + चेकपॉइंट + ट्रेनिंग स्टेप"),
    ],
)
def test_slow_steps_are_called_normal_first_in_every_language(code, title, holds):
    text = report(example_logs.QUOTED + example_logs.QUOTED_EVALUATIONS, code=code)
    first = on_one_line(text.split("\n\n")[1].replace(RIGHT_TO_LEFT_MARK, ""))
    assert first.startswith(title)
    assert holds in first


def test_where_only_steps_with_an_evaluation_are_shown_the_normal_step_is_unknown():
    text = on_one_line(report("".join(example_logs.LAPTOP_END.splitlines(keepends=True)[2:])))
    assert "How long a normal step takes is unknown: the log shows only steps with an evaluation" in text
    assert "Can't estimate the time remaining: the log shows only steps with an evaluation." in text
    assert "A normal step takes" not in text


def test_slow_steps_are_grouped_by_cause_with_what_each_group_costs():
    text = on_one_line(report(example_logs.spiky()))
    assert "A normal step takes 169 ms" in text
    assert "start-up + evaluation: step 0 took 12.5 s (74× a normal step)." in text
    assert re.search(
        r"evaluation \+ checkpoint: 20 slow steps, every 500 steps, 5.85 s each .{10,30}, "
        r"1 min 54 s more than normal steps would take",
        text,
    )
    assert "Raise eval_interval from 500 to" in text


def test_the_reason_of_a_cause_is_given_once():
    text = on_one_line(report(example_logs.gpu()))
    assert text.count("measures the losses over many batches") == 1


def test_a_first_step_with_an_evaluation_does_not_use_up_the_reason_of_the_later_ones():
    lines = ["step 0: train loss 4.2, val loss 4.2", "iter 0: loss 4.2, time 25250.00ms, mfu -100.00%"]
    lines += [f"iter {n}: loss {4 - n / 300:.4f}, time 52.{n % 7}0ms, mfu 1.70%" for n in range(10, 250, 10)]
    lines += ["step 250: train loss 3.2, val loss 3.3", "saving checkpoint to out"]
    lines += ["iter 250: loss 3.2, time 5120.00ms, mfu 1.60%", "iter 260: loss 3.2, time 52.00ms, mfu 1.60%"]
    text = on_one_line(report("\n".join(lines) + "\n"))
    assert text.index("start-up + evaluation: step 0 took 25.2 s") < text.index("evaluation + checkpoint: step 250")
    assert "the trainer measures the losses over many batches and writes the model to disk" in text


def test_the_report_of_a_normal_run_is_short():
    titles_and_axes = 4
    assert len(without_charts(report(example_logs.gpu()))) - titles_and_axes <= 35


def test_the_mfu_of_the_device_in_the_log_is_recomputed():
    text = on_one_line(report(example_logs.gpu()))
    assert "= MFU 11.1% × 312 TFLOP/s, the peak of A100, which the trainer assumes" in text
    source = "NVIDIA Ada whitepaper, FP32 accumulate: 7680 cores × 2 × 2.61 GHz"
    assert f"On NVIDIA GeForce RTX 4070 Ti (peak 80.2 TFLOPS, bfloat16; {source}) that is 43%" in text


def test_the_first_loss_is_compared_with_that_of_guessing():
    assert "ln(65) = 4.17" in report(example_logs.gpu())


def test_losses_and_slow_steps_are_drawn():
    text = report(example_logs.gpu())
    assert "loss (o validation)" in text
    assert "step time (x slow step), logarithmic" in text
    assert re.search(r"4.45 s ┤.*x", text)


def test_charts_are_side_by_side_if_there_is_room():
    narrow, wide = report(example_logs.gpu(), 80), report(example_logs.gpu(), 110)
    assert "loss (o validation)  " in wide.split("step time")[0].splitlines()[-1]
    assert wide.count("\n") < narrow.count("\n") - 5


def test_a_stream_that_cannot_write_braille_gets_no_charts():
    log = read(example_logs.gpu())
    file = io.TextIOWrapper(io.BytesIO(), encoding="cp1252", errors="replace")
    page = Page(SPEAKERS["en"], Console(file=file, width=80))
    print_report(log, [analyse(run, log=log) for run in log.runs], [], page)
    file.seek(0)
    assert "┤" not in file.read()


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize("width", [60, 80])
def test_no_line_is_wider_than_the_terminal(width, code):
    from rich.cells import cell_len

    two_runs = example_logs.gpu() + example_logs.laptop()
    for line in report(two_runs, width, code).splitlines():
        assert cell_len(line) <= width, line


def test_several_runs_are_listed_before_the_last_is_shown_in_full():
    text = report(example_logs.gpu() + example_logs.laptop())
    assert re.search(r"^1 +0–5000 +33.2 ms .*Severe overfitting", text, re.MULTILINE)
    assert text.index("Run 2 of 2") < text.index("Timing")


@pytest.mark.parametrize(
    ("ending", "shown"),
    [
        ("", "Run 2 of 2"),
        ("KeyboardInterrupt\n", "Run 2 of 2"),
        ("torch.OutOfMemoryError: CUDA out of memory.\n", "Run 1 of 2"),
        ("iter 2010: loss nan, time 116.00ms, mfu 1.00%\n", "Run 1 of 2"),
    ],
)
def test_the_run_shown_in_full_is_the_last_unless_only_an_earlier_one_went_wrong(ending, shown):
    unfinished = example_logs.laptop().partition("step 2000")[0]
    assert shown in report(unfinished + ending + example_logs.gpu())


def test_in_arabic_every_line_begins_from_the_right_and_tables_become_lists():
    text = report(example_logs.gpu() + example_logs.laptop(), code="ar")
    lines = [line for line in without_charts(text) if re.search("[\u0600-\u06ff]", line)]
    assert lines
    assert all(line.startswith(RIGHT_TO_LEFT_MARK) for line in lines)
    assert not re.search(r"^\S* *1 +0–5000 ", text, re.MULTILINE)


@pytest.mark.slow
def test_a_number_is_not_torn_from_its_unit():
    for width in range(40, 90):
        assert not re.search(r"\d\n\s*(?:ms|s|min|h)\b", report(example_logs.spiky(), width))


def test_colour_is_for_terminals_only_and_never_with_no_color(monkeypatch):
    log = read(example_logs.gpu())
    analyses = [analyse(run, log=log) for run in log.runs]
    outputs = {}
    for name, terminal in (("pipe", False), ("terminal", True), ("no_color", True)):
        monkeypatch.delenv("NO_COLOR", raising=False)
        if name == "no_color":
            monkeypatch.setenv("NO_COLOR", "1")
        page = page_of(force_terminal=terminal, color_system="standard" if terminal else None)
        print_report(log, analyses, [], page)
        outputs[name] = text_of(page)
    assert "\x1b" not in outputs["pipe"]
    assert "\x1b[1;31mSevere overfitting" in outputs["terminal"]
    assert not re.search(r"\x1b\[[\d;]*3\d", outputs["no_color"])


def test_a_log_without_training_still_has_its_errors_reported():
    text = on_one_line(report("loading data\nTraceback (most recent call last):\nRuntimeError: CUDA out of memory\n"))
    assert "No training in this log." in text
    assert "Line 3: memory ran out. RuntimeError: CUDA out of memory" in text


def test_an_empty_log_is_called_empty():
    assert "It is empty." in report("")


def test_escape_sequences_of_a_log_never_reach_the_terminal():
    page = page_of()
    error = LogError(3, "exception", "Boom \x1b[31m\x1b]0;title\x07 \u202egnol")
    print_report(Log("evil\x1b[2J.log", "none", [], [], 3), [], [error], page)
    assert not re.search("[\x1b\x07\u202e]", text_of(page))


def test_printable_keeps_every_ordinary_text():
    assert printable("loss 1.2\tप्रगति العربية ±") == "loss 1.2\tप्रगति العربية ±"


def test_the_eta_is_one_short_answer():
    log = read(example_logs.WAITING)
    page = page_of()
    print_eta(analyse(log.runs[0], Options(max_iters=6000), log), page, NOW)
    lines = text_of(page).splitlines()
    assert lines[0].startswith("About 6 h 33 min left (")
    assert "6 h 32 min 51 s" in on_one_line(text_of(page))
    assert "done at about Mon 02:32" in on_one_line(text_of(page))
    assert len(lines) < 9


def test_a_run_whose_loss_is_not_a_number_is_not_worth_waiting_for():
    text = "".join(f"iter {n}: loss {4 - n / 10 if n < 9 else 'nan'}, time 100.00ms, mfu 1.00%\n" for n in range(30))
    log = read(text)
    page = page_of()
    print_eta(analyse(log.runs[0], Options(max_iters=1000), log), page, NOW)
    assert "The time remaining is not estimated" in on_one_line(text_of(page))


def compared(code: str = "en", names: tuple[str, str] = ("laptop", "gpu")) -> str:
    page = page_of(110, code)
    runs = [read(example_logs.laptop()).runs[0], read(example_logs.gpu()).runs[0]]
    print_comparison(compare(runs, names), page)
    return text_of(page)


def test_a_comparison_names_the_settings_that_differ_and_what_went_wrong_in_each_run():
    text = on_one_line(compared())
    assert "Several settings differ: n_layer, n_head, n_embd, batch_size, block_size" in text
    assert "Severe overfitting" in text.split("Side by side")[1]


def test_the_ends_of_two_logs_have_no_step_to_be_compared_at():
    page = page_of()
    runs = [read(end).runs[0] for end in (example_logs.GPU_END, example_logs.LAPTOP_END)]
    print_comparison(compare(runs, ("gpu", "laptop")), page)
    text = on_one_line(text_of(page))
    assert "above the best" not in text
    assert re.search(r"gpu .* 5000 .* Severe overfitting", text)


def test_a_comparison_says_who_leads_first():
    assert on_one_line(compared()).startswith("Best validation loss: gpu (1.4697). Fastest step: gpu (33.2 ms).")


def test_runs_are_listed_one_below_the_other_the_best_first():
    page = page_of()
    print_comparison(compare(EXAMPLES["a sweep"], list("abcde")), page)
    text = text_of(page)
    table = text.split("Side by side")[1].split("why")[1].splitlines()
    assert [line.split()[0] for line in table if re.match("[a-e] ", line)] == list("decba")
    assert text.count("learning_rate=0.0") == 5  # in a terminal of 80 columns, too
    assert "Settings that differ" not in text


def test_repeats_have_no_best():
    page = page_of()
    print_comparison(compare(EXAMPLES["repeats"], list("abcdefghijklmnopqrst")), page)
    text = on_one_line(text_of(page))
    assert "20 repeats with other seeds (validation loss at step 400): 2.109 ± 0.059" in text
    assert "Best" not in text


def test_runs_of_one_log_are_told_together():
    log = read(example_logs.laptop() + example_logs.laptop())
    page = page_of()
    print_report(log, [analyse(run, log=log) for run in log.runs], [], page)
    assert "2 runs are identical to the digit" in on_one_line(text_of(page))


def test_settings_that_differ_are_listed():
    assert re.search(r"n_embd +128 +384", compared())


def test_runs_with_long_names_are_lettered():
    names = "a-very-long-name-of-a-run" * 2, "another-very-long-name" * 2
    text = compared(names=names)
    assert text.startswith(f"A: {names[0]}\nB: {names[1]}\n")
    assert re.search(r"\nB +1\.\d+", text)
