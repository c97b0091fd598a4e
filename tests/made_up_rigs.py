"""Processes that only pretend to train: their figures are made up, and so is the time they take."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from nanoscope.config import TrainConfig
from nanoscope.planning.tuning_candidates import Facts, Kind
from nanoscope.planning.tuning_search import RigError

OPEN_SECONDS = 3.0

FACTS = Facts(
    device="cpu", device_name="a CPU, 4 threads", dtype="float32", compiled=False, threads=4,
    eval_batch=32, windows=640, compile_seconds=0.0, available_bytes=8_000_000_000, memory_bytes=600_000_000,
    sequence_bytes=10_000_000,
)  # fmt: skip


@dataclass
class Workshop:
    """A machine: how long an iteration and an evaluation take with some settings, and how noisy it is."""

    step: Callable[[TrainConfig], float] = lambda config: 0.1
    evaluation: Callable[[TrainConfig], float] = lambda config: 0.5
    memory: Callable[[TrainConfig], int] = lambda config: FACTS.memory_bytes
    noise: float = 0.005
    drift: float = 0.3
    """Every 20 s the machine gets slower by this share, or faster again."""
    between_processes: float = 0.0
    fails: Callable[[TrainConfig], str] = lambda config: ""
    seconds: float = 0.0
    opened: list[TrainConfig] = field(default_factory=list)
    open_now: int = 0
    most_open: int = 0
    measured: list[TrainConfig] = field(default_factory=list)
    random: Random = field(default_factory=lambda: Random(0))
    interrupt_at: float = float("inf")

    def now(self) -> float:
        return self.seconds

    def open(self, config: TrainConfig) -> "MadeUpRig":
        if problem := self.fails(config):
            raise RigError(problem)
        return MadeUpRig(self, config)


class MadeUpRig:
    def __init__(self, workshop: Workshop, config: TrainConfig) -> None:
        self.workshop, self.config = workshop, config
        compiled = config.compile is True
        self.facts = Facts(
            **{
                **vars(FACTS),
                "compiled": compiled,
                "compile_seconds": 20.0 if compiled else 0.0,
                "dtype": "float32" if config.dtype == "auto" else config.dtype,
                "memory_bytes": workshop.memory(config),
            }
        )
        self.memory_bytes = self.facts.memory_bytes
        self.luck = workshop.random.gauss(1, workshop.between_processes)
        workshop.seconds += OPEN_SECONDS + self.facts.compile_seconds
        workshop.opened.append(config)
        workshop.open_now += 1
        workshop.most_open = max(workshop.most_open, workshop.open_now)

    def measure(self, kind: Kind, seconds: float) -> float:
        shop = self.workshop
        each = (shop.step if kind == "step" else shop.evaluation)(self.config)
        shop.seconds += max(seconds, each / self.config.gradient_accumulation_steps if kind == "step" else 0.0)
        shop.measured.append(self.config)
        if shop.seconds > shop.interrupt_at:
            raise KeyboardInterrupt
        drift = 1 + shop.drift * ((shop.seconds // 20) % 2)
        return each * self.luck * drift * shop.random.gauss(1, shop.noise)

    def close(self) -> None:
        self.workshop.open_now -= 1
