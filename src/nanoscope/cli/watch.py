"""`nanoscope watch`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from nanoscope.errors import JobError, UsageError

USUAL_PORT = 8642
PORTS_TRIED = 20


def watch(
    folder: Annotated[Path | None, Parameter(show_default=False)] = None,
    *,
    host: str = "127.0.0.1",
    port: int = USUAL_PORT,
    token: str | None = None,
    lang: str | None = None,
    open: bool = False,
) -> None:
    """Serve a page that shows the runs of a folder as they grow, and explains any log pasted into it.

    It only reads, at low priority, so that training comes first. Ctrl-C ends it.

    Examples:

      nanoscope watch

      nanoscope watch experiments --port 9000 --open

      nanoscope watch --host 0.0.0.0      for other machines; they need the token that is printed

      ssh -L 8642:localhost:8642 gpu-box nanoscope watch      the safer way to look at another machine

    Parameters
    ----------
    folder
        Where the runs are, or one run's directory; runs unless given.
    host
        The address to serve at. Any but this machine's own needs a token.
    port
        The port; if the usual one is taken, the next that is free. 0: any.
    token
        What a browser must know when --host is given; made up unless given.
    lang
        en, ar or hi, in which the page opens; the language of your locale unless given.
    open
        Open the page in your browser.
    """
    from nanoscope.words.language import choose_language

    language = choose_language(lang)
    if not 0 <= port <= 65535:
        raise UsageError(f"--port={port}: ports go from 0 to 65535")
    if folder is not None and folder.is_file():
        raise UsageError(f"{folder} is a file: watch takes a directory.\nFor a log: nanoscope explain {folder}")
    if folder is not None and not folder.is_dir():
        raise JobError(f"There is no directory {folder}.\nGive the one where your runs are: nanoscope watch DIR")
    try:
        from nanoscope.views.dashboard.serve import serve
    except ModuleNotFoundError as error:
        raise JobError(f"The page needs the package {error.name}.\nInstall it: pip install 'nanoscope[web]'") from None
    serve(folder or Path("runs"), host, port, PORTS_TRIED if port == USUAL_PORT else 1, token, language.code, open)
