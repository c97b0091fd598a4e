"""Requests to stop: the first lets the run save what it has done, a second Ctrl-C ends it at once."""

import os
import signal
import threading
import time
from contextlib import suppress
from typing import Any

from nanoscope.messages import Message, on_terminal

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
BROKEN_PIPE = getattr(signal, "SIGPIPE", 13)


class StopRequest:
    """Whether the run was asked to stop, and by which signal.

    After a stop, signals stay ignored until the process is over: a terminal that closes may hang up twice, and the
    second signal must not kill a process that has saved everything and is about to exit.
    """

    SAME_PRESS_SECONDS = 0.3

    def __init__(self) -> None:
        self.signal: int | None = None
        self.at_once = True
        """Whether a second Ctrl-C ends the process. One of several would leave the others waiting."""
        self._first_at = 0.0
        self._before: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        return self.signal is not None

    @property
    def signal_name(self) -> str | None:
        return signal.Signals(self.signal).name if self.signal else None

    def wait(self, seconds: float) -> bool:
        """Wait until the time is over or a stop is requested. Returns whether it is."""
        until = time.monotonic() + seconds
        while not self.requested and time.monotonic() < until:
            time.sleep(0.1)
        return self.requested

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            # Signals that nohup or a shell's '&' ignores stay ignored.
            heeded = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._receive) for number in heeded}
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self.requested and kind is not KeyboardInterrupt else handler)

    def ask(self, number: int) -> None:
        """Ask the run to stop because of a signal, or of BROKEN_PIPE: nobody reads its output any more."""
        if not self.requested:
            self.signal, self._first_at = number, time.monotonic()

    def _receive(self, number: int, frame: object) -> None:
        # torchrun passes Ctrl-C on to processes that have received it from the terminal already.
        again = self.requested and time.monotonic() - self._first_at > self.SAME_PRESS_SECONDS
        if number == signal.SIGINT and again and self.at_once:
            raise KeyboardInterrupt
        if number == signal.SIGINT and not self.requested:
            how = Message("stopping; what was trained will be saved")
            if self.at_once:
                how = Message("{how} (Ctrl-C again quits at once)", how=how)
            with suppress(OSError):  # the terminal may be gone
                os.write(2, f"\n{on_terminal(how)}\n".encode())
        self.ask(number)
