"""`nanoscope.compare`: why runs differ. The command prints the same."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from nanoscope.api.shown import Shown
from nanoscope.api.sources import Source
from nanoscope.errors import UsageError
from nanoscope.findings.compare import Comparison as ComparedRuns
from nanoscope.findings.compare import compare as compare_runs
from nanoscope.findings.compare import comparison_json
from nanoscope.findings.declared import Finding
from nanoscope.runs.load_many import Warn, trained_runs
from nanoscope.views.compare import print_comparison
from nanoscope.views.terminal_page import Page
from nanoscope.words.language import Language, choose_language


def compare(logs: Source | Iterable[Source], *, lang: str | None = None) -> "Comparison":
    """Compare runs at equal steps, and say what explains their difference.

    >>> print(nanoscope.compare(["runs/small", "runs/large"]))

    A folder that contains runs stands for all of them: `nanoscope.compare("runs")`.
    """
    given = [logs] if isinstance(logs, str | os.PathLike) else logs
    return Comparison([os.fspath(log) for log in given], choose_language(lang))


class Comparison(Shown):
    """Several runs side by side. `found` has the findings; `skipped` says which runs of a folder were left out."""

    def __init__(self, logs: Sequence[str], language: Language, warn: Warn | None = None) -> None:
        self._logs, self.language = logs, language
        self.skipped: list[str] = []
        if not logs:
            raise UsageError("There is nothing to compare: give the logs of two or more runs.")
        named = trained_runs(logs, warn or (lambda text: self.skipped.append(str(text).splitlines()[0])))
        if len(named) < 2:
            raise UsageError("{log} contains only one run. Give another log to compare it with.", log=logs[0])
        same_log = len({each.path for each in named}) == 1
        self.found: ComparedRuns = compare_runs(
            [each.run for each in named], [each.name for each in named], same_log=same_log
        )

    @property
    def names(self) -> tuple[str, ...]:
        return self.found.names

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What explains the difference, and what doesn't."""
        return self.found.findings

    def json(self) -> dict[str, Any]:
        """The document of `nanoscope compare --json`."""
        return comparison_json(self.found, self._logs)

    def print_to(self, page: Page) -> None:
        print_comparison(self.found, page)

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.names)}>"
