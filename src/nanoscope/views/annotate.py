"""The log itself: each kind of line is explained where it first appears, and every slow step has its cause."""

from collections.abc import Iterable, Sequence

from nanoscope.analysis.findings import Analysis
from nanoscope.runs.formats import all_formats
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import Log
from nanoscope.views.terminal_page import Page
from nanoscope.words.efficiency import FALLS, NOT_YET
from nanoscope.words.lines import LineKind, explain_line, surrounding_kind
from nanoscope.words.sentences import sentence
from nanoscope.words.templates import Say


def print_annotated(lines: Iterable[tuple[int, str]], log: Log, analyses: Sequence[Analysis], page: Page) -> None:
    """Print the numbered, clean lines of `log`, each followed by its explanation if it has one."""
    reader = next((format() for format in all_formats() if format.name == log.format), None)
    slow = {(s.step, round(s.time_s, 4)): s for analysis in analyses for s in analysis.slow_steps}
    errors = {error.line for error in log.errors}
    mfu = [analysis.mfu for analysis in analyses if analysis.mfu is not None]
    said: set[Say] = set()
    explained: set[LineKind] = set()
    for number, line in lines:
        page.quote(line)
        kind = _kind(line, number, reader)
        if number in errors:
            kind = "error"
        if kind is not None and (kind not in explained or kind == "error"):
            explained.add(kind)
            _note(explain_line(kind, line, page.language), page, "cyan")
        run = reader.builder.current if kind == "step" and reader is not None else None
        if run is None or not run.steps:
            continue
        step, printed = run.steps.step[-1], run.steps.mfu_pct[-1]
        record = slow.get((step, round(run.steps.time_s[-1], 4)))
        if record is not None:
            _note(sentence(record, page.language), page, "yellow")
        for found in mfu:
            for words, is_here in ((FALLS, step == found.falls_at), (NOT_YET, found.begins_unmeasured and printed < 0)):
                if is_here and words not in said:
                    said.add(words)
                    _note(words.write(found, page.language), page, "cyan")


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


def _note(text: str, page: Page, style: str) -> None:
    # Right-to-left notes stand at the right edge, where no line of the log is above them to be pointed at.
    page.paragraph(text, style=style, indent=4, bullet="• " if page.language.right_to_left else "^ ")
