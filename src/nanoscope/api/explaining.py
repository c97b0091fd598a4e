"""`nanoscope.explain`: the findings about a log, and the text about them. The command prints the same."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nanoscope.api.logs import Source, read
from nanoscope.api.shown import Shown
from nanoscope.findings.analyse import Analysis, Options, analyse, analyse_nothing, log_errors, main_run
from nanoscope.findings.declared import Advice, Finding, Verdict, notes_of
from nanoscope.runs.run import Log, Run, Traits
from nanoscope.views.terminal import print_report
from nanoscope.views.terminal_page import Page
from nanoscope.words.language import Language, choose_language
from nanoscope.words.sentences import sentence

if TYPE_CHECKING:
    from nanoscope.findings.known import Numbers
    from nanoscope.words.concepts import Taught


def explain(
    log: Source, *, lang: str | None = None, max_iters: int | None = None, device: str | None = None
) -> "Explanation":
    """Explain a training log: speed, slow steps, time left, learning, and what to do next.

    >>> explanation = nanoscope.explain("train.log")
    >>> [verdict.code for verdict in explanation.verdicts]
    >>> print(explanation)

    `log` is a file, the folder of a run, a `Run`, or the text of a log. `lang` is en, ar or hi; by default the language
    of your locale. `max_iters` (how many steps the run will take) and `device` ('RTX 4070 Ti') say what the log
    doesn't. In a notebook, the result shows itself.
    """
    return Explanation(read(log), choose_language(lang), Options(max_iters, device))


class Explanation(Shown):
    """What can be said about a log.

    `analyses` has the findings about each of its runs, `analysis` those about the one that is shown in full: the last,
    unless an earlier one went wrong.
    """

    def __init__(self, log: Log, language: Language, options: Options) -> None:
        self._log, self.language = log, language
        self.analyses: Sequence[Analysis] = tuple(analyse(run, options, log) for run in log.runs)
        if log.runs:
            shown = main_run(self.analyses)
            self._run, self.analysis = log.runs[shown], self.analyses[shown]
        else:
            self._run, self.analysis = Run(log.format, Traits()), analyse_nothing(log, options)

    @property
    def numbers(self) -> "Numbers":
        """The numbers of that run, with which concepts are explained."""
        from nanoscope.findings.known import known_numbers  # late: few ask for it

        return known_numbers(self._run, self.analysis)

    def concept(self, name: str) -> "Taught":
        """What a number means ('mfu', 'perplexity'), with those of that run: `summary`, `here`, `normal`, `mistake`."""
        from nanoscope.words.concepts import concept_named

        return concept_named(name).teach(self.numbers, self.language)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """How that run is doing: each verdict has a `code`, its numbers and its `confidence`."""
        return self.analysis.verdicts

    @property
    def advice(self) -> tuple[Advice, ...]:
        return self.analysis.advice

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings about that run, in reading order."""
        fields = (value if isinstance(value, tuple) else (value,) for value in vars(self.analysis).values())
        return tuple(finding for field in fields for finding in field if isinstance(finding, Finding))

    def sentence(self, finding: Finding) -> str:
        """A finding in words."""
        return sentence(finding, self.language)

    def json(self) -> dict[str, Any]:
        """The document of `nanoscope explain --json`."""
        from nanoscope.findings.schema import explain_json

        return explain_json(self._log, self.analyses)

    def print_to(self, page: Page) -> None:
        log = self._log
        details = log.runs[-1].details if log.runs else None
        notes = notes_of(details.notes) if details else ()
        print_report(log, self.analyses, log_errors(log.errors), page, notes)

    def __repr__(self) -> str:
        return f"<Explanation of {self._log.source}: {', '.join(verdict.code for verdict in self.verdicts)}>"
