"""`nanoscope watch`: all runs of a folder in the browser."""

from pathlib import Path

from nanoscope.cli.logs import check_folder
from nanoscope.errors import UsageError
from nanoscope.files import RUNS

DEFAULT_PORT = 8642
PORTS_TRIED = 20


def watch(
    folder: Path = RUNS,
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    token: str | None = None,
    notify: str | None = None,
    open: bool = False,
) -> None:
    """Serve a page that shows the runs of a folder live, and explains any log pasted into it.

    It only reads, at low priority, so that training is not slowed down. Stop it with Ctrl-C.

    For example:
      nanoscope watch
      nanoscope watch experiments --port 9000 --open
      nanoscope watch --host 0.0.0.0      for other machines; they need the token in the printed address
      ssh -L 8642:localhost:8642 gpu-box nanoscope watch      the safer way to watch another machine
      nanoscope watch --notify 'notify-send nanoscope'      a command when a run breaks, stalls or ends

    Parameters
    ----------
    folder
        The directory of the runs, or of one run.
    host
        The address to listen on. Any other than the default accepts remote connections, with a token.
    port
        The port; if the default is in use, the next free one. 0: any free port.
    token
        The token that remote browsers need (with --host); default: a random one.
    notify
        A command to run, or an http(s) address to post to, when a loss is not finite and when a run stalls, fails,
        stops or finishes. Both get JSON (on standard input, or as the body); the command also gets the variables
        NANOSCOPE_EVENT (nan, stalled, failed, stopped, finished), NANOSCOPE_RUN, NANOSCOPE_FOLDER, NANOSCOPE_STEP …
    open
        Open the page in your browser.
    """
    if not 0 <= port <= 65535:
        raise UsageError("--port={port}: a port is a number from 0 to 65535", port=port)
    check_folder(folder, "watch")
    from nanoscope.views.dashboard.serve import serve
    from nanoscope.words.language import choose_language

    serve(
        folder,
        host,
        port,
        PORTS_TRIED if port == DEFAULT_PORT else 1,
        token,
        choose_language().code,
        open,
        notify,
    )
