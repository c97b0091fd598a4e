"""`nanoscope report`: one or more runs as an HTML page."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from nanoscope.cli.logs import LogPath, check_logs, check_max_iters, warn
from nanoscope.errors import JobError, why
from nanoscope.messages import Message, on_terminal


def report(
    *logs: LogPath,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    max_iters: int | None = None,
    device: str | None = None,
) -> None:
    """Write an HTML page with charts, explanations and advice. It is self-contained: open it offline, send it by mail.

    Examples:

      nanoscope report runs/laptop

      nanoscope report laptop.log gpu.log -o both.html --lang ar

    Parameters
    ----------
    logs
        Directories of nanoscope runs, log files, or '-'; several are compared. A directory that contains runs stands
        for all of them.
    output
        The file to write; default: report.html in the run's directory, or in the current one for a log.
    max_iters
        Number of steps the run will take, if the log doesn't say.
    device
        What it ran on ('RTX 4070 Ti'), if the log doesn't say.
    """
    from nanoscope.findings.analyse import Options
    from nanoscope.runs.load_many import trained_runs
    from nanoscope.views.report import Source, describe, render
    from nanoscope.words.language import choose_language

    check_logs(logs, report)
    check_max_iters(max_iters)
    language = choose_language()
    sources = [Source(each.name, each.run, each.log) for each in trained_runs(logs, warn)]
    page = render(describe(sources, Options(max_iters, device), language.code))
    file = output or (Path(logs[0]) if len(logs) == 1 and Path(logs[0]).is_dir() else Path()) / "report.html"
    try:
        file.write_text(page, encoding="utf-8", newline="\n")
    except OSError as error:
        raise JobError(
            "Can't write {file}: {reason}\nChoose another file with -o FILE", file=file, reason=why(error)
        ) from None
    size, address = len(page.encode("utf-8")) / 1000, file.resolve().as_uri()
    text = Message("{file}: {size:.0f} kB. Open it in any browser: {address}", file=file, size=size, address=address)
    print(on_terminal(text))
