"""Measuring steps through the engine."""

from dataclasses import dataclass, field, replace

import pytest
import torch

from nanoscope.config import TrainConfig
from nanoscope.data.loader import Batch
from nanoscope.hardware.device import DeviceConfig
from nanoscope.messages import joined
from nanoscope.model import build_model
from nanoscope.planning.measure import measure
from nanoscope.training.distributed import Processes
from nanoscope.training.engine import Engine, Step
from nanoscope.training.initial_model import new_shape
from nanoscope.training.machine import Machine

CONFIG = TrainConfig(
    recipe="classic", n_layer=1, n_head=1, n_embd=8, block_size=8, batch_size=4, gradient_accumulation_steps=6
)


def engine_of(config: TrainConfig, micro_batch: int = 0) -> Engine:
    machine = Machine(DeviceConfig("cpu", "CPU", "float32", False, joined(", ", ())), Processes())
    return Engine(config, build_model(new_shape(config, 20)), machine, micro_batch)


def batches() -> list[Batch]:
    tokens = torch.zeros(4, 8, dtype=torch.int64)
    return 6 * [(tokens, tokens)]


@dataclass
class MadeUpEngine:
    """Every pass takes 0.1 s, but for one; every update 0.02 s."""

    config: TrainConfig
    micro_batch: int
    steps: list[int] = field(default_factory=list)

    def step(self, parts: list[Batch], step: int, rate: float, timed: bool) -> Step:
        self.steps.append(len(parts))
        passes = [7.0, 0.1, 0.1][: len(parts)] if step == 1 else [0.1] * len(parts)
        return Step(1.0, 1.0, 0.0, True, 0.02, passes)


def test_a_step_is_its_micro_batches_and_its_update_however_few_were_measured() -> None:
    engine = MadeUpEngine(replace(CONFIG, batch_size=4, gradient_accumulation_steps=6), 4)
    seconds, steps = measure(engine, batches, 0.05)  # type: ignore[arg-type]
    assert seconds == pytest.approx(6 * 0.1 + 0.02, abs=0.05)
    assert steps > 2
    assert set(engine.steps) == {2}


def test_at_least_one_step_is_measured() -> None:
    seconds, steps = measure(engine_of(CONFIG), batches, 0.0)
    assert steps == 1
    assert 0 < seconds < 1


def test_only_whole_micro_batches_are_measured() -> None:
    engine = MadeUpEngine(CONFIG, 3)
    measure(engine, batches, 0.0)  # type: ignore[arg-type]
    assert engine.steps == [2]
