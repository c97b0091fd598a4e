"""Arabic and Hindi on terminals: what is measured, what is broken over lines, and where a terminal can't show it."""

import io
import os
import unicodedata

import pytest
from rich.console import Console

import example_logs
from nanoscope.findings.analyse import analyse, log_errors
from nanoscope.messages import RIGHT_TO_LEFT_MARK
from nanoscope.runs.reader import read_stream
from nanoscope.views.terminal import print_report
from nanoscope.views.terminal_page import Page, columns, lacks_bidi
from nanoscope.words.language import END_ISOLATE, ISOLATE, Language


def page_of(code: str, width: int = 80, file: io.StringIO | None = None) -> Page:
    return Page(Language(code), Console(file=file or io.StringIO(), width=width, highlight=False, color_system=None))


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines_of(page: Page) -> list[str]:
    assert isinstance(page.console.file, io.StringIO)
    return page.console.file.getvalue().splitlines()


def report(code: str, width: int = 80, name: str = "train.log") -> list[str]:
    log = read_stream(io.BytesIO(example_logs.spiky().encode()), name)
    page = page_of(code, width)
    print_report(log, [analyse(run, log=log) for run in log.runs], log_errors(log.errors), page)
    return lines_of(page)


def drawn_columns(text: str) -> int:
    """As terminals draw it: only marks without a width of their own take no column."""
    return sum(unicodedata.category(c) not in ("Mn", "Me", "Cf") for c in text)


@pytest.mark.parametrize("text", ["की", "कि", "वैलिडेशन लॉस", "ज़्यादा", "معدّل التعلّم", "\u2068--max_iters\u2069", "abc"])
def test_a_text_is_as_wide_as_terminals_draw_it(text):
    assert columns(text) == drawn_columns(text)


@pytest.mark.parametrize("width", [40, 80])
def test_no_line_of_hindi_is_wider_than_the_terminal(width):
    lines = [line for line in report("hi", width) if "┤" not in line]
    assert any("लॉस" in line for line in lines)
    assert max(map(drawn_columns, lines)) <= width


def test_the_columns_of_a_hindi_table_are_aligned():
    page = page_of("hi")
    page.table(["रन", "समय", "नतीजा"], [["1", "3 मिनट", "की"], ["बारह", "12.5 सेकंड", "का"]], numeric=range(1, 2))
    lines = lines_of(page)
    starts = [drawn_columns(line[: line.index(last)]) for line, last in zip(lines, ["नतीजा", "की", "का"], strict=True)]
    assert len(set(starts)) == 1


@pytest.mark.parametrize("width", [40, 80])
def test_every_arabic_line_closes_the_isolates_that_it_opens(width):
    lines = report(
        "ar", width, "/data/runs/experiments/a rather long name of a folder/with/more/folders/in/it/train.log"
    )
    assert all(line.count(ISOLATE) == line.count(END_ISOLATE) for line in lines)


def test_an_option_with_its_value_stays_on_one_line_of_arabic():
    for width in range(40, 90):
        page = page_of("ar", width)
        page.paragraph("لا يمكن تقدير الوقت المتبقي: لا يذكر السجل عدد الخطوات المقرَّرة (\u2068--max_iters N\u2069).")
        assert any("--max_iters N" in line for line in lines_of(page))


@pytest.mark.parametrize("code", ["ar", "hi"])
def test_the_ticks_of_a_chart_have_the_units_of_the_language(code):
    ticks = [line.split("┤")[0] for line in report(code) if "┤" in line]
    assert not [tick for tick in ticks if tick.strip().endswith(" s")]
    assert len({drawn_columns(tick) for tick in ticks[6:]}) == 1


# --- terminals that show Arabic in the wrong order ---


@pytest.mark.parametrize(
    "environment",
    [
        {"WT_SESSION": "1"},
        {"TERM": "xterm-kitty"},
        {"TERM": "alacritty"},
        {"TERM_PROGRAM": "vscode"},
        {"TERM": "linux"},
    ],
)
def test_terminals_that_are_known_not_to_reorder_text_are_known(environment):
    assert lacks_bidi(environment)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"TERM": "xterm-256color"},
        {"TERM": "xterm-256color", "VTE_VERSION": "7200"},
        {"TERM_PROGRAM": "Apple_Terminal"},
        {"TERM": "linux", "TMUX": "/tmp/tmux"},
    ],
)
def test_a_terminal_that_may_well_reorder_text_is_trusted(environment):
    assert not lacks_bidi(environment)


@pytest.fixture
def _windows_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMUX", "STY", "VTE_VERSION", "KONSOLE_VERSION", "MLTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(os.environ, "WT_SESSION", "1")


@pytest.mark.usefixtures("_windows_terminal")
def test_where_arabic_cannot_be_read_the_report_is_offered():
    shown = lines_of(page_of("ar", file=Screen()))
    assert "nanoscope report LOG --lang ar" in " ".join(shown)
    assert shown[0].startswith(RIGHT_TO_LEFT_MARK)


@pytest.mark.usefixtures("_windows_terminal")
def test_a_pipe_and_the_other_languages_get_no_hint(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert lines_of(page_of("ar")) == []
    assert lines_of(page_of("hi", file=Screen())) == []
