"""`nanoscope.compare`: why runs differ. The command prints the same."""

from collections.abc import Iterable
from functools import partial

from nanoscope.api.logs import Source, paths_of
from nanoscope.api.shown import Answer
from nanoscope.errors import UsageError
from nanoscope.findings.compare import Comparison, comparison_json
from nanoscope.findings.compare import compare as compare_runs
from nanoscope.runs.load_many import trained_runs
from nanoscope.views.compare import print_comparison
from nanoscope.words.language import choose_language


def compare(logs: Source | Iterable[Source], *, lang: str | None = None) -> Answer[Comparison]:
    """Compare runs at equal steps, and say what explains their difference.

    >>> print(nanoscope.compare(["runs/small", "runs/large"]))

    A folder that contains runs stands for all of them: `nanoscope.compare("runs")`. `found` has the findings.
    """
    given = paths_of(logs)
    language = choose_language(lang)
    notes: list[str] = []
    if not given:
        raise UsageError("There is nothing to compare: give the logs of two or more runs.")
    named = trained_runs(given, lambda text: notes.append(language.render(text)))
    if len(named) < 2:
        raise UsageError("{log} contains only one run. Give another log to compare it with.", log=given[0])
    same_log = len({each.path for each in named}) == 1
    found = compare_runs([each.run for each in named], [each.name for each in named], same_log=same_log)
    return Answer(found, notes, language, print_comparison, partial(comparison_json, found, given))
