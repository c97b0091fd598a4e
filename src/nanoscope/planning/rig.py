"""A process that is set up as `train` would be, and measures when it is asked to: for `plan` and `tune`.

This is the parent's side, which imports no torch; the child's is `serve` in measure.py.
"""

from typing import Any

import msgspec

from nanoscope.child import Child
from nanoscope.config import TrainConfig
from nanoscope.hardware.probe import make_cpu_ready

TIMEOUT_SECONDS = 600.0


class Job(msgspec.Struct):
    """What the child is set up for."""

    config: TrainConfig
    data: str
    """The folder of a prepared dataset; '': random tokens of a vocabulary of `vocab_size`."""
    vocab_size: int
    limit_seconds: float
    """Of a micro-batch: longer ones are measured with fewer sequences. 0: no limit."""


class Facts(msgspec.Struct, frozen=True):
    """What a process says about itself once it is ready to train."""

    device: str
    """Its kind: cpu, cuda or mps."""
    device_name: str
    used: dict[str, Any]
    """What it really uses: batch_size, dtype, compile, threads, eval_batch_size."""
    startup: float = 0.0
    """Seconds until it was ready."""
    crowded: bool = False
    """Whether there is too little memory for a second one."""


class Figures(msgspec.Struct, frozen=True):
    """Times are in seconds."""

    step: float
    window: float
    """Of an evaluation."""
    run: float
    """All iterations and evaluations, and compiling."""
    steps: int = 0
    """How many were measured."""
    micro_batch: int = 1
    """Sequences of each micro-batch that was measured."""
    peak_bytes: int = 0
    """The most memory of the device that the process had; of a CPU, its own."""


class Rig(Child):
    """The parent's side of the process."""

    def __init__(
        self, config: TrainConfig, data: str | None = None, vocab_size: int = 0, limit_seconds: float = 0.0
    ) -> None:
        make_cpu_ready(config.device, config.dtype, training=True)  # the child has its environment from here
        super().__init__("nanoscope.planning.measure:serve")
        job = Job(config, config.dataset if data is None else data, vocab_size, limit_seconds)
        try:
            self.facts = self.ask(job, Facts, timeout=TIMEOUT_SECONDS)
        except BaseException:
            self.close()
            raise

    def measure(self, seconds: float) -> Figures:
        return self.ask(seconds, Figures, timeout=TIMEOUT_SECONDS)
