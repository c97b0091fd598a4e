"""When a checkpoint is due: save it, report it, and try again later if it could not be saved."""

import math
import time
from contextlib import suppress

from nanoscope.checkpoint_files import checkpoint_name
from nanoscope.files import write_atomically
from nanoscope.messages import Count, Text
from nanoscope.runs.events import Checkpoint, CheckpointFailed, CheckpointSaved, Note
from nanoscope.runs.windows import FOLDER, MOST_WINDOWS, encode_windows
from nanoscope.training.checkpoint import take_snapshot
from nanoscope.training.engine import Engine
from nanoscope.training.evaluate import Estimate, Evaluator
from nanoscope.training.run import Run
from nanoscope.training.stopping import StopRequest

LAST_TRIES = 20  # every 30 s: ten minutes to make room


def save(run: Run, engine: Engine, *, best: bool = False, retry: bool = True) -> bool:
    """Save the current state and report it. Returns whether it is saved.

    If not, training continues, and with `retry`, `retry_save` tries again from a copy.
    """
    if not run.processes.first:
        return True
    writer, seconds = run.checkpoints, run.checkpoints.RETRY_SECONDS
    writer.unsaved = None  # a newer state takes its place
    run.write_config(if_missing=True)
    with run.clock.phase("checkpoint") as timed:
        about = {"seed": run.config.seed, "dataset_fingerprint": run.start.dataset_fingerprint}
        about["evaluation"] = run.evaluation
        facts = {"scaler": engine.scaler.state_dict(), "run": about, "settings": run.settings}
        snapshot = take_snapshot(engine.plain_model, engine.optimizer, run.state, facts, run.tokenizer, best)
        failure = writer.save(snapshot)
    if failure is not None:
        with suppress(RuntimeError, MemoryError):  # no memory for a copy: the next save will have to do
            if retry:
                writer.unsaved, writer.retry_at = snapshot.copy(), time.monotonic() + seconds
                failure = Text("{failure}; trying again every {seconds:g} s", failure=failure, seconds=seconds)
        run.reporter.emit(CheckpointFailed(step=snapshot.step, message=failure))
        return False
    if snapshot.step > 0:  # before training there is no optimizer state, so that takes less
        run.pace.add("checkpoint", timed.seconds)
    path = f"{run.folder.checkpoints.name}/{checkpoint_name(snapshot.step)}"
    run.reporter.emit(Checkpoint(step=snapshot.step, path=path, seconds=timed.seconds, best=best))
    return True


def retry_save(run: Run, *, last_try: bool = False) -> None:
    """Try again to save what could not be saved. Called after every iteration; does something every 30 s.

    `last_try`: try at once, and forget it if that fails.
    """
    writer = run.checkpoints
    if writer.unsaved is None or (not last_try and time.monotonic() < writer.retry_at):
        return
    step = writer.unsaved.step
    with run.clock.phase("checkpoint"):
        failure = writer.save(writer.unsaved)
    writer.retry_at = time.monotonic() + writer.RETRY_SECONDS
    if failure is None:
        run.reporter.emit(CheckpointSaved(step=step))
    if failure is None or last_try:
        writer.unsaved = None


def save_at_the_end(run: Run, engine: Engine, stop: StopRequest) -> None:
    """Save the last checkpoint, which is what the run was for. If the disk is full, wait for room."""
    state, seconds = run.state, run.checkpoints.RETRY_SECONDS
    if run.checkpoints.saved_step == state.step:
        return
    for left in reversed(range(1 if stop.requested else LAST_TRIES)):
        if save(run, engine, best=state.best_step == state.step, retry=False) or not left:
            return
        text = Count(
            "trying again in {seconds:g} s, once (Ctrl-C gives up)",
            "trying again in {seconds:g} s, {n} times (Ctrl-C gives up)",
            left,
            seconds=seconds,
        )
        run.reporter.emit(Note(text=text))
        with run.clock.phase("checkpoint"):
            if stop.wait(seconds):
                return


def keep_window_losses(run: Run, evaluator: Evaluator, val: Estimate, best: bool) -> None:
    """Write windows/last.bin, and windows/best.bin if this evaluation is the best so far.

    Losses window by window let runs be compared more exactly than their means do.
    """
    if not run.processes.first or len(val.losses) > MOST_WINDOWS or not math.isfinite(val.loss):
        return
    numbers = [int(start) // evaluator.block_size for start in evaluator.starts["val"]]
    content = encode_windows(run.state.step, evaluator.block_size, numbers, val.losses)
    with suppress(OSError):  # a disk that is full is reported with the next checkpoint
        for name in ("last.bin", *(["best.bin"] if best else [])):
            write_atomically(run.folder.path / FOLDER / name, content)
