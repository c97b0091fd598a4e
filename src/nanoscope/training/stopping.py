"""Signals: the first asks the run to stop after its current iteration, a second Ctrl-C ends it at once."""

import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class StopRequest:
    """Whether the run was asked to stop, and by which signal.

    After a stop, signals stay ignored until the process is over: a terminal that closes may hang up twice, and the
    second signal must not kill a process that has saved everything and is about to exit.
    """

    SAME_PRESS_SECONDS = 0.3

    def __init__(self, *, at_once: bool = True) -> None:
        self.signal: int | None = None
        self._at_once, self._first_at = at_once, 0.0
        self._before: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        return self.signal is not None

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
            self._before = {number: signal.signal(number, self._ask) for number in heeded}
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self.requested and kind is not KeyboardInterrupt else handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if not self.requested:
            self.signal, self._first_at = number, time.monotonic()
            if number == signal.SIGINT:
                hint = b" (Ctrl-C again quits at once)" if self._at_once else b""
                os.write(2, b"\nstopping after this iteration, and saving" + hint + b"\n")
            return
        # torchrun passes Ctrl-C on to processes that have received it from the terminal already.
        again = time.monotonic() - self._first_at > self.SAME_PRESS_SECONDS
        if number == signal.SIGINT and again and self._at_once:
            raise KeyboardInterrupt
