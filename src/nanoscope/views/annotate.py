"""The log itself: each kind of line is explained where it first appears, and every slow step has its cause."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from nanoscope.findings.analyse import Analysis
from nanoscope.findings.mfu import PLACEHOLDER
from nanoscope.findings.slow import SlowRecord
from nanoscope.runs.run import Log
from nanoscope.views.terminal_page import Page
from nanoscope.words.lines import LineKind, explain_line, surrounding_kind
from nanoscope.words.sentences import sentence


def print_annotated(lines: Iterable[tuple[int, str]], log: Log, analyses: Sequence[Analysis], page: Page) -> None:
    """Print the numbered, clean lines of `log`, each followed by its explanation if it has one."""
    slow: dict[int, list[SlowRecord]] = defaultdict(list)
    for analysis in analyses:
        for record in analysis.slow_steps:
            slow[record.step].append(record)
    errors = {error.line for error in log.errors}
    said: set[str] = set()
    explained: set[LineKind] = set()
    for number, line in lines:
        page.quote(line)
        known, step, printed = log.shown.get(number, (None, None, None))
        kind = "error" if number in errors else known or surrounding_kind(line)
        if kind is not None and (kind not in explained or kind == "error"):
            explained.add(kind)
            _note(explain_line(kind, line, page.language), page, "cyan")
        if kind != "step" or step is None:
            continue
        if slow[step]:
            _note(sentence(slow[step].pop(0), page.language), page, "yellow")
        for found in (analysis.mfu for analysis in analyses if analysis.mfu is not None):
            fell = found.fell is not None and step == found.fell[0]
            unmeasured = found.begins_unmeasured and printed is not None and printed < 0
            for about in [found.falls()] * fell + [PLACEHOLDER] * unmeasured:
                text = page.language.render(about, found)
                if text not in said:
                    said.add(text)
                    _note(text, page, "cyan")


def _note(text: str, page: Page, style: str) -> None:
    # Right-to-left notes stand at the right edge, where no line of the log is above them to be pointed at.
    page.paragraph(text, style=style, indent=4, bullet="• " if page.language.right_to_left else "^ ")
