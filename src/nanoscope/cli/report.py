"""`nanoscope report`: a run, or several, as one page to look at and to send."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from nanoscope.cli.logs import LogPath, check_logs, check_max_iters, trained_runs
from nanoscope.errors import JobError


def report(
    *logs: LogPath,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    lang: str | None = None,
    max_iters: int | None = None,
    device: str | None = None,
) -> None:
    """Write one HTML page with charts, explanations and advice; it needs no network and can be sent by mail.

    Examples:

      nanoscope report runs/laptop

      nanoscope report laptop.log gpu.log -o both.html --lang ar

    Parameters
    ----------
    logs
        Directories of nanoscope runs, log files, or '-'; several are compared.
    output
        The file to write; unless given, report.html in the run's directory, or here for a log.
    lang
        en, ar or hi, in which the page opens (it holds all three); the language of your locale unless given.
    max_iters
        Steps the run is to have, if the log does not say.
    device
        What it ran on ('RTX 4070 Ti'), if the log does not say.
    """
    from nanoscope.analysis.analyse import Options
    from nanoscope.runs.folder import RunFolderFacts, read_folder
    from nanoscope.views.report import Source, describe, render
    from nanoscope.words.language import choose_language

    check_logs(logs, report)
    check_max_iters(max_iters)
    language = choose_language(lang)
    named = trained_runs(logs)
    # A folder's facts are those of the last run in it.
    last = {each.path: each.run for each in named}
    sources = [
        Source(name, run, log, read_folder(path) if run is last[path] else RunFolderFacts())
        for name, path, run, log in named
    ]
    page = render(describe(sources, Options(max_iters, device), language.code))
    file = output or (Path(logs[0]) if len(logs) == 1 and Path(logs[0]).is_dir() else Path()) / "report.html"
    try:
        file.write_text(page, encoding="utf-8", newline="\n")
    except OSError as error:
        raise JobError(
            f"{file} cannot be written: {error.strerror or error}\nChoose another file with -o FILE"
        ) from None
    print(f"{file}: {len(page.encode('utf-8')) / 1000:.0f} kB. Open it in any browser: {file.resolve().as_uri()}")
