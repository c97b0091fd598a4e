"""Ctrl-C and its relatives: the first asks the run to stop after the step it is in, the second stops it at once."""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class StopRequest:
    """Whether somebody has asked the run to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        return self.signal is not None

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
        if self.requested:
            raise KeyboardInterrupt
        self.signal = number
        if number == signal.SIGINT:
            os.write(2, b"\nstopping after this iteration, and saving (Ctrl-C again quits at once)\n")
