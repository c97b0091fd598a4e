"""Ctrl-C at any moment of the process, also while it starts and exits: one line, exit status 130, no traceback.

KeyboardInterrupt is right while a command works: files are closed and removed on its way up. It is wrong inside an
import, which may swallow it or print it, and in the interpreter's last moments, where nobody catches it.
"""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

INTERRUPTED = 130
_skip_hooks = False


def handle_interrupts() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt, except inside an import, where it ends the process at once."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where nohup or '&' ignores it
        signal.signal(signal.SIGINT, _interrupt)


def skip_exit_hooks() -> None:
    """Let the process end without the exit hooks of packages: one that waits for a server may wait for hours."""
    global _skip_hooks
    _skip_hooks = True


def exit_quietly(status: int) -> None:
    """From now on Ctrl-C ends the process at once with this status: its work is done, and all is said."""
    if _skip_hooks:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(status))


def _interrupt(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            with suppress(OSError):
                os.write(2, b"nanoscope: interrupted\n")
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt
