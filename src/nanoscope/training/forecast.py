"""What a run is in for, before its first iteration: time, epochs, memory, and a warning where that is absurd.

Steps are extrapolated from the warm-up's short pass through the model, the optimizer from figures that other machines
had (benchmarks/LOG.md). That is right within a factor of two or so, which the range says, and enough to tell a minute
from a month. `Pace` compares it with the first iterations. Evaluations and samples are measured on a part of one, and
checkpoints by their size and the latest saves to the same disk, so that the first ETA includes them.
"""

import math
import time
from dataclasses import dataclass

import torch

from nanoscope.config import TrainConfig
from nanoscope.estimates import median
from nanoscope.generation.sampler import Sampling, generate
from nanoscope.hardware.memory import available_bytes, is_out_of_memory, release, training_bytes
from nanoscope.messages import Text
from nanoscope.model import LanguageModel, Modern
from nanoscope.runs.events import Forecast, Note
from nanoscope.training.agenda import SAMPLE_TOKENS
from nanoscope.training.engine import Engine, Pass, WarmUp
from nanoscope.training.evaluate import Evaluator
from nanoscope.training.save_time import checkpoint_bytes, save_seconds
from nanoscope.training.session import Session

OPTIMIZER_SECONDS = {"classic": 3e-9, "modern": 10e-9}  # per updated parameter, on two cores
EXTRA_SECONDS, EXTRA_TIMES = 0.1, 3  # to measure an evaluation, and a sample: until either is reached
FORWARD_SHARE = 1 / 3  # of a forward and backward pass
PROCESS_BYTES = 350_000_000  # Python and torch themselves

LONG_STEP, LONG_RUN, MANY_EPOCHS, MUCH_MEMORY = 180.0, 30 * 86400.0, 1.0, 0.9  # beyond these a warning is due
GOOD_STEP, GOOD_RUN, GOOD_EPOCHS, GOOD_MEMORY = 30.0, 86400.0, 0.1, 0.8  # what it suggests
SMALLER_MODEL = "--n_layer=6 --n_head=6 --n_embd=384 --block_size=256"


def look_ahead(session: Session, measured: WarmUp) -> list[Forecast | Note]:
    """The forecast of the rest of the run, and the warnings that it deserves."""
    outlook = Outlook.of(session, measured)
    evaluated = session.state.evaluated_at == session.state.step
    expected = session.books.pace.complete(forecast(session, measured, outlook), evaluated=evaluated)
    found = warnings(session.config, expected, outlook, session.engine.micro_batch, session.machine.processes.world)
    return [expected, *(Note(text=text, level="warning") for text in found)]


@dataclass(frozen=True)
class Outlook:
    """How time and memory grow with the sequences of an iteration and of a micro-batch."""

    seconds_per_sequence: float
    optimizer_seconds: float
    bytes_per_sequence: int
    model_bytes: int

    @classmethod
    def of(cls, session: Session, measured: WarmUp) -> "Outlook":
        model, on_cpu = session.engine.plain_model, session.machine.device.type == "cpu"
        parameters, logits = model.parameter_count(), 4 * session.config.block_size * model.config.vocab_size
        return cls(
            measured.fastest.seconds / measured.fastest.sequences / session.machine.processes.world,
            OPTIMIZER_SECONDS[session.config.recipe] * (parameters - _left_alone(model)) if on_cpu else 0.0,
            measured.saved_bytes + 2 * logits,  # their gradients exist beside everything that was saved
            training_bytes(parameters) + (PROCESS_BYTES if on_cpu else 0),
        )

    def step_seconds(self, sequences: int) -> float:
        return sequences * self.seconds_per_sequence + self.optimizer_seconds

    def memory_bytes(self, micro_batch: int) -> int:
        return self.model_bytes + micro_batch * self.bytes_per_sequence


def _left_alone(model: LanguageModel) -> int:
    """Parameters of which a step updates only the few rows that it read: n-gram embeddings with sparse gradients."""
    table = model.ngrams if isinstance(model, Modern) else None
    return table.table.numel() if table is not None and table.sparse else 0


def forecast(session: Session, measured: WarmUp, outlook: Outlook) -> Forecast:
    config, engine = session.config, session.engine
    epochs_per_step = config.tokens_per_step / len(session.dataset.split("train"))
    return Forecast(
        step=session.state.step,
        steps=config.max_iters - session.state.step,
        step_seconds=outlook.step_seconds(config.sequences_per_step),
        eval_seconds=evaluation_seconds(engine, session.evaluator, measured.fastest),
        checkpoint_seconds=save_seconds(checkpoint_bytes(engine.optimizer), session.folder.path),
        sample_seconds=sample_seconds(engine) if config.sample_interval else None,
        epochs_per_step=epochs_per_step,
        epochs=config.max_iters * epochs_per_step,
        memory_bytes=outlook.memory_bytes(session.engine.micro_batch),
        memory_available=available_bytes(session.machine.device),
    )


def evaluation_seconds(engine: Engine, evaluator: Evaluator, measured: Pass) -> float:
    """The seconds of one evaluation in this process: some of its own windows are evaluated, as many as is quick."""
    each = FORWARD_SHARE * measured.seconds / measured.sequences
    at_once = min(evaluator.batch, len(evaluator.starts["val"]), int(EXTRA_SECONDS / each))
    passes: list[float] = []
    model, was_training = engine.plain_model, engine.plain_model.training
    model.eval()
    try:
        while at_once and sum(passes) < EXTRA_SECONDS and len(passes) < EXTRA_TIMES:
            passes.append(evaluator.seconds_of(model, at_once))
    except (RuntimeError, MemoryError) as error:  # an evaluation has a remedy, too
        if not is_out_of_memory(error):
            raise
        release(engine.machine.device)
    finally:
        model.train(was_training)
    return sum(evaluator.shares) * (median(passes) / at_once if passes else each)


def sample_seconds(engine: Engine) -> float:
    """The seconds of one sample: its first tokens are generated."""
    model, settings = engine.plain_model, Sampling(max_new_tokens=SAMPLE_TOKENS)
    prompt = torch.zeros(1, 1, dtype=torch.long, device=engine.machine.device)
    began, done, seconds = time.perf_counter(), 0, 0.0
    with engine.machine.sampling():
        for token in generate(model, prompt, settings, model.config.vocab_size):
            token.cpu()  # waits for it
            done, seconds = done + 1, time.perf_counter() - began
            if seconds > EXTRA_SECONDS:
                break
    return SAMPLE_TOKENS / done * seconds


def warnings(config: TrainConfig, expected: Forecast, outlook: Outlook, micro_batch: int, world: int = 1) -> list[Text]:
    """What is absurd about a forecast, each with the settings that make it sensible."""
    before, available = config.sequences_per_step, expected.memory_available or 0
    seconds, epochs = outlook.step_seconds(before), expected.epochs_per_step or 0.0
    too_large = outlook.memory_bytes(micro_batch) > MUCH_MEMORY * available
    too_long, too_often = seconds > LONG_STEP, epochs > MANY_EPOCHS

    fitting, sequences = micro_batch, before
    if too_large:
        fitting = min(fitting, int((GOOD_MEMORY * available - outlook.model_bytes) / outlook.bytes_per_sequence))
    if too_long:
        sequences = min(sequences, int((GOOD_STEP - outlook.optimizer_seconds) / outlook.seconds_per_sequence))
    if too_often:
        sequences = min(sequences, int(GOOD_EPOCHS * before / epochs))
    sequences = max(sequences, world)
    better_seconds, better_epochs = outlook.step_seconds(sequences), epochs * sequences / before
    hopeless = fitting < 1 or better_seconds > LONG_STEP
    if hopeless:
        advice = Text("use a smaller model, such as {flags}", flags=SMALLER_MODEL)
        if expected.step:
            advice = Text("start a new run with a smaller model, such as {flags}", flags=SMALLER_MODEL)
    else:
        batch_size = min(fitting, sequences)
        flags = f"--batch_size={batch_size} --gradient_accumulation_steps={math.ceil(sequences / batch_size)}"
        advice = Text("use {flags}", flags=flags)

    found = []
    if too_large:
        need = outlook.memory_bytes(micro_batch) / 1e9
        found.append(
            Text(
                "training needs about {need:.1f} of the {available:.1f} GB of memory; {advice}",
                need=need,
                available=available / 1e9,
                advice=advice,
            )
        )
    if not hopeless:
        advice = Text(
            "{advice} (about {seconds:duration}, {epochs:.2g} times the split)",
            advice=advice,
            seconds=better_seconds,
            epochs=better_epochs,
        )
    if too_long and too_often:
        found.append(
            Text(
                "an iteration takes about {seconds:duration} and reads the training split {epochs:.3g} times; {advice}",
                seconds=seconds,
                epochs=epochs,
                advice=advice,
            )
        )
    elif too_long:
        found.append(Text("an iteration takes about {seconds:duration}; {advice}", seconds=seconds, advice=advice))
    elif too_often:
        found.append(
            Text("an iteration reads the training split {epochs:.3g} times; {advice}", epochs=epochs, advice=advice)
        )
    if (expected.seconds or 0.0) > LONG_RUN and not hopeless:
        steps = max(int(GOOD_RUN / better_seconds), 1)
        found.append(
            Text(
                "the run takes about {seconds:duration}; use {flag} to end after about {shorter:duration}",
                seconds=expected.seconds,
                flag=f"--max_iters={expected.step + steps}",
                shorter=steps * better_seconds,
            )
        )
    return found
