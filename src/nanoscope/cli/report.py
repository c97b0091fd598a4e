"""`nanoscope report`: one or more runs as an HTML page."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from nanoscope.cli.logs import PathOrStdin, Steps, logs_named, warn
from nanoscope.messages import Message, on_terminal


def report(
    *logs: PathOrStdin,
    out: Annotated[Path | None, Parameter(name=("--out", "-o"))] = None,
    max_iters: Steps = None,
    device: str | None = None,
) -> None:
    """Write an HTML page with charts, explanations and advice. It is self-contained: open it offline, send it by mail.

    For example:
      nanoscope report runs/laptop
      nanoscope report laptop.log gpu.log -o both.html --lang ar

    Parameters
    ----------
    logs
        Directories of nanoscope runs, log files, or '-'; several are compared. A directory that contains runs stands
        for all of them. Default: standard input if something is piped in, else the latest run.
    out
        The file to write; default: report.html in the run's directory, or in the current one for a log.
    max_iters
        Number of steps the run will take, if the log doesn't say.
    device
        What it ran on ('RTX 4070 Ti'), if the log doesn't say.
    """
    from nanoscope.api.reporting import report as write_report

    file = write_report(*logs_named(logs), out=out, max_iters=max_iters, device=device, warn=warn)
    size, address = file.stat().st_size / 1000, file.resolve().as_uri()
    text = Message("{file}: {size:.0f} kB. Open it in any browser: {address}", file=file, size=size, address=address)
    print(on_terminal(text))
