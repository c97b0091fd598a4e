"""Measuring real steps of a configuration in a child process, so that nothing of a run or of this process changes.

The child (steps_child.py) sets up what `nanoscope train` sets up and stops after a few seconds. It may run out of
memory, crash or hang: that becomes a `StepTimes` with a `problem`. This file does not import torch.
"""

import dataclasses
import os
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import msgspec
import psutil

from nanoscope.config import TrainConfig, build
from nanoscope.errors import JobError, why
from nanoscope.hardware.probe import kill_tree
from nanoscope.messages import Text

CHILD = "nanoscope.planning.steps_child"
OUT_OF_MEMORY_SIGNALS = (signal.Signals["SIGKILL"].value,) if hasattr(signal, "SIGKILL") else ()


class Job(msgspec.Struct):
    """What the child is told: the first line of its standard input."""

    config: dict[str, object]
    data: str | None
    """The folder of a prepared dataset; None: random tokens."""
    vocab_size: int
    seconds: float
    folder: str
    """An empty one, for what a run writes."""
    save: bool
    halves: bool
    parent: int

    def train_config(self) -> TrainConfig:
        return build(dict(self.config))


class StepTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured. Seconds are those of each repetition, in order; bytes are of the device's memory."""

    problem: str = ""
    """Why there are no figures; '' if there are."""
    out_of_memory: bool = False

    device: str = ""
    device_name: str = ""
    dtype: str = ""
    compiled: bool = False
    threads: int = 0
    notes: list[str] = []
    """What does not work here and was replaced, as `train` says it."""
    peak_flops: float | None = None
    peak_source: str = ""
    parameters: int = 0
    flops_per_token: int = 0

    micro_batch: int = 0
    """Sequences of the micro-batches below: batch_size, or fewer if those would take too long."""
    first_seconds: list[float] = []
    """Forward and backward pass of the first micro-batch of an iteration."""
    later_seconds: list[float] = []
    """The same of the others, which add their gradients to the first one's."""
    half_seconds: list[float] = []
    """The same of micro-batches of half as many sequences (at least one), if asked for."""
    update_seconds: list[float] = []
    """Clipping, the optimizer, and what the loop does beside them."""
    data_seconds: list[float] = []
    """Waiting for the batches of an iteration."""
    eval_batch: int = 0
    """Sequences of the batches below: an evaluation's own, or fewer if those would take too long."""
    eval_seconds: list[float] = []
    """Of batches of an evaluation."""
    save_seconds: float | None = None
    checkpoint_bytes: int | None = None
    startup_seconds: float = 0.0
    """From the start of the process to the first iteration, with `warm_up_seconds`."""
    warm_up_seconds: float = 0.0
    """Of which compiling takes most, if it is compiled."""

    process_bytes: int = 0
    """Before there is a model."""
    model_bytes: int = 0
    """With the model, on top of that; the same for the next two."""
    trained_bytes: int = 0
    """After the first update: with the optimizer's state."""
    peak_bytes: int = 0
    """At most, so far: with gradients and activations of a micro-batch, and a batch of an evaluation."""

    @property
    def works(self) -> bool:
        return not self.problem

    def micro_seconds(self, sequences: int, *, first: bool = False) -> float:
        """A forward and backward pass over so many sequences, in proportion to those measured."""
        seconds = self.first_seconds if first or not self.later_seconds else self.later_seconds
        return median(seconds) * sequences / self.micro_batch

    def step_seconds(self, config: TrainConfig) -> float:
        """One iteration of this configuration, whose accumulation may be longer than what was measured."""
        first = self.micro_seconds(config.batch_size, first=True)
        others = (config.gradient_accumulation_steps - 1) * self.micro_seconds(config.batch_size)
        return first + others + median(self.update_seconds) + median(self.data_seconds)

    @property
    def eval_seconds_per_sequence(self) -> float:
        return median(self.eval_seconds) / self.eval_batch


def measure_steps(
    config: TrainConfig,
    *,
    vocab_size: int,
    data: Path | None = None,
    seconds: float = 5.0,
    save_in: Path | str | None = None,
    halves: bool = False,
    timeout: float | None = None,
) -> StepTimes:
    """Train for about `seconds` in a child process and return what was measured; nothing else remains of it.

    `vocab_size` and `data`: of the prepared dataset; without `data` the tokens are random. `save_in`: a folder on the
    disk of out_dir, to measure a checkpoint in a temporary folder there. `halves`: also micro-batches of half the size.
    A child that takes longer than `timeout`, by default ten minutes more than `seconds`, is killed.
    """
    settings = dataclasses.asdict(config) | {"init_from": "scratch", "overwrite": False}
    with ExitStack() as resources:
        folder = resources.enter_context(tempfile.TemporaryDirectory(prefix=".nanoscope-", dir=save_in))
        job = Job(
            settings, str(data) if data else None, vocab_size, seconds, folder, save_in is not None, halves, os.getpid()
        )
        # Files, not pipes: a compiler that the child leaves behind would keep pipes open.
        given, out, err = (resources.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(msgspec.json.encode(job))
        given.seek(0)
        try:
            child = psutil.Popen([sys.executable, "-m", CHILD], stdin=given, stdout=out, stderr=err)
        except OSError as error:
            raise JobError("can't start a process to measure steps in: {reason}", reason=why(error)) from None
        try:
            status = child.wait(seconds + 600.0 if timeout is None else timeout)
        except psutil.TimeoutExpired:
            return StepTimes(problem=Text("the steps take too long to measure"))
        finally:
            kill_tree(child)
        out.seek(0)
        err.seek(0)
        return _read(status, out.read(), err.read().decode("utf-8", "replace"))


def _read(status: int, out: bytes, err: str) -> StepTimes:
    """What the child has printed, or why it has not."""
    if status == 0:
        try:
            return msgspec.json.decode(out.strip().rpartition(b"\n")[2], type=StepTimes)
        except msgspec.DecodeError:
            return StepTimes(problem=Text("the measuring process printed no result"))
    problem, out_of_memory = problem_of_status(status, err)
    return StepTimes(problem=problem, out_of_memory=out_of_memory)


def problem_of_status(status: int, err: str) -> tuple[Text, bool]:
    """Why a child ended without an answer, and whether memory is the reason."""
    if -status in OUT_OF_MEMORY_SIGNALS:  # nobody else kills it
        return Text("it does not fit into memory: the system ended the process"), True
    if status < 0:
        return Text("it crashes the process: {how}", how=signal.Signals(-status).name), False
    last = next((line for line in reversed(err.splitlines()) if line.strip()), f"status {status}")
    return Text("measuring failed: {reason}", reason=last.strip()[:200]), False
