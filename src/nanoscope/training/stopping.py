"""Ctrl-C and its relatives: the first asks the run to stop after the step it is in, another Ctrl-C ends it at once."""

import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class StopRequest:
    """Whether somebody has asked the run to stop, and by which signal."""

    SAME_PRESS_SECONDS = 0.3

    def __init__(self, *, at_once: bool = True) -> None:
        self.signal: int | None = None
        self._at_once, self._first_at = at_once, 0.0
        self._before: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        return self.signal is not None

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until somebody asks; whether somebody did."""
        until = time.monotonic() + seconds
        while not self.requested and time.monotonic() < until:
            time.sleep(0.1)
        return self.requested

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            # What nohup or a shell's '&' has us ignore stays ignored.
            heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._asked) for number in heard}
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if not self.requested:
            self.signal, self._first_at = number, time.monotonic()
            if number == signal.SIGINT:
                hint = b" (Ctrl-C again quits at once)" if self._at_once else b""
                os.write(2, b"\nstopping after this iteration, and saving" + hint + b"\n")
            return
        # A terminal that closes may hang up twice, and torchrun passes one Ctrl-C on to processes that have had it.
        again = time.monotonic() - self._first_at > self.SAME_PRESS_SECONDS
        if number == signal.SIGINT and again and self._at_once:
            raise KeyboardInterrupt
