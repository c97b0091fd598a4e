"""`nanoscope compare`: explain why runs differ."""

import sys
from json import dumps

from nanoscope.cli.logs import LogPath, check_logs, trained_runs
from nanoscope.errors import UsageError


def compare(*logs: LogPath, lang: str | None = None, json: bool = False) -> None:
    """Compare runs: at equal steps, tokens and time, and say what explains the difference.

    Examples:

      nanoscope compare laptop.log gpu.log

      nanoscope compare runs/small runs/large --json

      nanoscope compare runs

    Parameters
    ----------
    logs
        Log files or directories of nanoscope runs; a directory that contains runs stands for all of them. Or one log
        that contains several runs.
    lang
        en, ar or hi; default: the language of your locale.
    json
        Print the comparison as JSON (schema nanoscope.compare/2).
    """
    from nanoscope.analysis.compare import compare as compare_runs
    from nanoscope.words.language import choose_language

    check_logs(logs, compare)
    language = choose_language(lang)
    named = trained_runs(logs)
    if len(named) < 2:
        raise UsageError(f"{logs[0]} contains only one run. Give another log to compare it with.")
    same_log = len({each.path for each in named}) == 1
    comparison = compare_runs([each.run for each in named], [each.name for each in named], same_log=same_log)
    if json:
        from nanoscope.analysis.compare.document import comparison_json

        sys.stdout.write(dumps(comparison_json(comparison, logs), indent=1, allow_nan=False) + "\n")
        return

    from nanoscope.views.compare import print_comparison
    from nanoscope.views.terminal_page import Page

    print_comparison(comparison, Page(language))
