"""Measuring steps through the engine."""

from dataclasses import replace

import pytest
import torch

from nanoscope.config import TrainConfig
from nanoscope.data.loader import Batch
from nanoscope.hardware.device import DeviceConfig
from nanoscope.messages import joined
from nanoscope.model import build_model
from nanoscope.planning.measure import Timing, measure
from nanoscope.training.distributed import Processes
from nanoscope.training.engine import Engine
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


def test_a_step_is_its_micro_batches_and_its_update_however_few_were_measured() -> None:
    found = Timing(8, [0.1, 0.1, 7.0], [0.02], [0.001])
    config = replace(CONFIG, batch_size=8, gradient_accumulation_steps=4)
    assert found.step_seconds(config) == pytest.approx(0.001 + 4 * 0.1 + 0.02)


def test_at_least_one_step_is_measured_and_a_long_accumulation_is_cut() -> None:
    found = measure(engine_of(CONFIG), batches, 0.0)
    assert [len(each) for each in (found.passes, found.update, found.data)] == [2, 1, 1]


def test_with_time_all_micro_batches_of_a_step_are_measured() -> None:
    found = measure(engine_of(CONFIG), batches, 1.0)
    assert len(found.passes) > 3 * len(found.update)
    assert 0 < found.step_seconds(CONFIG) < 1


def test_only_whole_micro_batches_are_measured() -> None:
    found = measure(engine_of(CONFIG, micro_batch=3), batches, 0.0)
    assert found.micro_batch == 3
    assert len(found.passes) == 2
