"""The child process of tuning.py: sets up a run as `train` does, then measures for as long as it is asked to."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nanoscope.config import build
from nanoscope.config_sources import Resolved
from nanoscope.hardware.probe import make_cpu_ready
from nanoscope.planning.tuning import Facts, Figures

if TYPE_CHECKING:
    from nanoscope.training.evaluate import Evaluator


def serve(questions: Iterator[Any]) -> Iterator[Facts | Figures]:
    """The first question has the settings, every other the seconds of a measurement."""
    given = next(questions)
    config = build(given)
    make_cpu_ready(config.device, config.dtype, training=True)  # before torch is imported

    import torch

    from nanoscope.hardware.memory import available_bytes
    from nanoscope.planning.measure import measure, peak_bytes
    from nanoscope.planning.request import with_shape_of_weights
    from nanoscope.planning.set_up import Workplace
    from nanoscope.training.pace import left_to_do

    left = left_to_do(config, 0)
    config = replace(with_shape_of_weights(Resolved(config, "", typed={}, given=given)), init_from="scratch")
    place = Workplace(config, config.dataset)
    parts = place.set_up(config)
    engine, model, next_batches = parts.engine, parts.engine.plain_model, parts.loader.next
    evaluator = place.evaluator(engine, config.eval_windows, "train", "val")
    began = time.perf_counter()
    engine.warm_up()
    compiled = engine.model is not model
    compile_seconds = time.perf_counter() - began if compiled else 0.0
    measure(engine, next_batches, 0.0)  # makes the optimizer's state
    used = {"batch_size": engine.micro_batch, "dtype": place.machine.choice.dtype, "compile": compiled}
    used |= {"threads": torch.get_num_threads(), "eval_batch_size": evaluator.batch}
    device = place.machine.device
    crowded = 2 * peak_bytes(device) > available_bytes(device)
    yield Facts(device.type, str(place.machine.choice.device_name), used, crowded)
    for seconds in questions:
        step = measure(engine, next_batches, seconds).step_seconds(config)
        evaluation = _evaluation_seconds(evaluator, model, seconds)
        yield Figures(step, evaluation, compile_seconds + left.step * step + left.eval * evaluation)


def _evaluation_seconds(evaluator: "Evaluator", model: Any, seconds: float) -> float:
    """Of a whole evaluation, from some seconds of it."""
    began, counts = time.perf_counter(), [0]

    def enough(done: int, total: int) -> bool:
        counts.append(done)
        return done > 0 and time.perf_counter() - began > seconds

    evaluator.evaluate(model, enough)
    return (time.perf_counter() - began) * evaluator.batches / counts[-1]
