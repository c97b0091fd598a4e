"""The log itself: each kind of line is explained where it first appears, and every slow step has its cause."""

from collections.abc import Iterable, Sequence

from nanoscope.analysis.findings import Analysis, SlowRecord
from nanoscope.runs.formats import all_formats
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import Log
from nanoscope.views.terminal_page import Page
from nanoscope.words.lines import LineKind, explain_line, surrounding_kind
from nanoscope.words.sentences import sentence


def print_annotated(lines: Iterable[tuple[int, str]], log: Log, analyses: Sequence[Analysis], page: Page) -> None:
    """Print the numbered, clean lines of `log`, each followed by its explanation if it has one."""
    reader = next((format() for format in all_formats() if format.name == log.format), None)
    slow = {(s.step, round(s.time_s, 4)): s for analysis in analyses for s in analysis.slow_steps}
    errors = {error.line for error in log.errors}
    explained: set[LineKind] = set()
    for number, line in lines:
        page.quote(line)
        kind = _kind(line, number, reader)
        if number in errors:
            kind = "error"
        if kind is not None and (kind not in explained or kind == "error"):
            explained.add(kind)
            _note(explain_line(kind, line, page.language), page, "cyan")
        if kind == "step" and reader is not None and slow:
            record = _slow_record(reader, slow)
            if record is not None:
                _note(sentence(record, page.language), page, "yellow")


def _kind(line: str, number: int, reader: Format | None) -> LineKind | None:
    if reader is not None:
        reader.builder.line = number
        match reader.read(line):
            case "step" | "iter":
                return "step"
            case "eval":
                return "eval"
            case "checkpoint":
                return "checkpoint"
    return surrounding_kind(line)


def _slow_record(reader: Format, slow: dict[tuple[int, float], SlowRecord]) -> SlowRecord | None:
    """The finding about the record that was just read."""
    run = reader.builder.current
    if run is None or not run.steps:
        return None
    return slow.get((run.steps.step[-1], round(run.steps.time_s[-1], 4)))


def _note(text: str, page: Page, style: str) -> None:
    # Right-to-left notes stand at the right edge, where no line of the log is above them to be pointed at.
    page.paragraph(text, style=style, indent=4, bullet="• " if page.language.right_to_left else "^ ")
