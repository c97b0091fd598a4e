"""Keeps the losses of an evaluation window by window, so that runs can be compared more exactly than by their means."""

import math
from contextlib import suppress

from nanoscope.files import write_atomically
from nanoscope.runs.windows import FOLDER, MOST_WINDOWS, encode_windows
from nanoscope.training.evaluate import Estimate
from nanoscope.training.session import Session


def keep_window_losses(session: Session, val: Estimate, best: bool) -> None:
    """Write windows/last.bin, and windows/best.bin if this evaluation is the best so far."""
    if not session.machine.processes.first or len(val.losses) > MOST_WINDOWS or not math.isfinite(val.loss):
        return
    block_size = session.evaluator.block_size
    numbers = [int(start) // block_size for start in session.evaluator.starts["val"]]
    content = encode_windows(session.state.step, block_size, numbers, val.losses)
    with suppress(OSError):  # a disk that is full is reported with the next checkpoint
        for name in ("last.bin", *(["best.bin"] if best else [])):
            write_atomically(session.folder.path / FOLDER / name, content)
