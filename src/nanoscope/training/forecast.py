"""What a run will take, said before its first iteration: time, epochs, memory; and warnings where that is absurd.

`Pace` forecasts the run from the seconds of each phase. Before anything is trained, these come from the warm-up's short
pass and figures of other machines (benchmarks/LOG.md): right within a factor of two or so, which the range says, and
enough to tell a minute from a month.
"""

import math
from collections.abc import Iterator

from nanoscope.config import TrainConfig
from nanoscope.messages import Message
from nanoscope.runs.events import Forecast
from nanoscope.training.engine import Engine, WarmUp
from nanoscope.training.evaluate import Evaluator
from nanoscope.training.memory import Memory, checkpoint_bytes

SAMPLE_TOKENS = 200  # of a sample that a run writes
OPTIMIZER_SECONDS = {"classic": 3e-9, "modern": 10e-9}  # per updated parameter, on two cores
SAVE_SECONDS, SAVED_PER_SECOND = 0.006, 300e6  # bytes written, synced and hashed, on a virtual machine's disk
FORWARD_SHARE = 1 / 3  # of a forward and backward pass

LONG_STEP, LONG_RUN = 180.0, 30 * 86400.0  # beyond these a warning is due, and beyond an epoch per iteration
GOOD_STEP, GOOD_RUN, GOOD_EPOCHS = 30.0, 86400.0, 0.1  # what it suggests
SMALLER_MODEL = "--n_layer=6 --n_head=6 --n_embd=384 --block_size=256"


def first_seconds(engine: Engine, evaluator: Evaluator, measured: WarmUp) -> dict[str, float | None]:
    """The expected seconds of each phase, before the first iteration."""
    config, world = engine.config, engine.processes.world
    each = measured.seconds / world
    update = OPTIMIZER_SECONDS[config.recipe] * measured.updated if engine.device.type == "cpu" else 0.0
    return {
        "step": config.sequences_per_step * each + update,
        "eval": evaluator.windows * FORWARD_SHARE * each * world,
        "checkpoint": save_seconds(checkpoint_bytes(engine.optimizer)),
    }


def save_seconds(size: int) -> float:
    return SAVE_SECONDS + size / SAVED_PER_SECOND


def warnings(
    config: TrainConfig, expected: Forecast, memory: Memory | None = None, micro_batch: int = 0, world: int = 1
) -> Iterator[Message]:
    """Warnings about a forecast that is absurd, each with the settings that make it sensible."""
    before, available = config.sequences_per_step, expected.memory_available or 0
    seconds, epochs = expected.step_seconds or 0.0, expected.epochs_per_step or 0.0
    # Of all sequences of an iteration, as many as keep it short and don't read the text again and again.
    share = min(GOOD_STEP / seconds if seconds > LONG_STEP else 1.0, GOOD_EPOCHS / epochs if epochs > 1 else 1.0)
    sequences = max(int(share * before), world)
    better = seconds * sequences / before
    too_large = memory is not None and not memory.fits(micro_batch, available)
    fitting = memory.largest(available) if memory and too_large else config.batch_size
    needs_smaller_model = fitting < 1 or better > LONG_STEP
    if needs_smaller_model:
        advice = Message("use a smaller model, such as {flags}", flags=SMALLER_MODEL)
    else:
        batch_size = min(fitting, sequences, micro_batch or config.batch_size)
        flags = f"--batch_size={batch_size} --gradient_accumulation_steps={math.ceil(sequences / batch_size)}"
        advice = Message("use {flags}", flags=flags)
    if memory and too_large:
        yield Message(
            "training needs about {need:.1f} of the {available:.1f} GB of memory; {advice}",
            need=memory.total(micro_batch) / 1e9,
            available=available / 1e9,
            advice=advice,
        )
    if share < 1:
        yield Message(
            "an iteration takes about {seconds:compact} and reads the training split {epochs:.3g} times; {advice}",
            seconds=seconds,
            epochs=epochs,
            advice=advice,
        )
    if (expected.seconds or 0.0) > LONG_RUN and not needs_smaller_model:
        steps = max(int(GOOD_RUN / better), 1)
        yield Message(
            "the run takes about {seconds:compact}; use {flag} to end after about {shorter:compact}",
            seconds=expected.seconds,
            flag=f"--max_iters={expected.step + steps}",
            shorter=steps * better,
        )
