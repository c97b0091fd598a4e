"""`nanoscope compare`: why runs differ."""

import sys
from json import dumps
from pathlib import Path

from nanoscope.cli.logs import LogPath, check_logs
from nanoscope.errors import JobError, UsageError


def compare(*logs: LogPath, lang: str | None = None, json: bool = False) -> None:
    """Compare runs: at equal steps, tokens and time, and say what explains the difference.

    Examples:

      nanoscope compare laptop.log gpu.log

      nanoscope compare runs/small runs/large --json

    Parameters
    ----------
    logs
        Two or more log files or directories of nanoscope runs; or one log that holds several runs.
    lang
        en, ar or hi; the language of your locale unless given.
    json
        Print the comparison for programs (schema nanoscope.compare/1).
    """
    from nanoscope.analysis.compare import compare as compare_runs
    from nanoscope.runs.reader import read_log
    from nanoscope.runs.run import Run
    from nanoscope.words.language import choose_language

    check_logs(logs, compare)
    language = choose_language(lang)
    runs: list[Run] = []
    names: list[str] = []
    for path in logs:
        trained = [run for run in read_log(path).runs if run.steps or run.evals]
        if not trained:
            raise JobError(f"No training step was found in {path}: there is nothing to compare.")
        # Of several logs the last run each; a log alone is compared with itself, run by run.
        for number, run in enumerate(trained, start=1) if len(logs) == 1 else [(len(trained), trained[-1])]:
            runs.append(run)
            names.append(_name(path, logs) + (f"#{number}" if len(trained) > 1 else ""))
    if len(runs) < 2:
        raise UsageError(f"{logs[0]} holds one run only. Give another log to compare it with.")
    comparison = compare_runs(runs, names)
    if json:
        from nanoscope.analysis.schema import plain

        document = {"schema": "nanoscope.compare/1", "sources": list(logs), **plain(comparison)}
        del document["analyses"]  # `explain --json` has them
        sys.stdout.write(dumps(document, indent=1, allow_nan=False) + "\n")
        return

    from nanoscope.views.comparison import print_comparison
    from nanoscope.views.page import Page

    print_comparison(comparison, Page(language))


def _name(path: str, paths: tuple[str, ...]) -> str:
    """The file's name, or its whole path where names are the same."""
    name = Path(path).stem if Path(path).stem not in ("", "-") else path
    return name if sum(Path(other).stem == name for other in paths) == 1 else path
