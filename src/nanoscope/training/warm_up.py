"""Before the first iteration: compile, run once, and measure what one pass through the model takes.

What is slow only once belongs to start-up, not to iteration 0. Nothing here changes the weights or the optimizer, and
dropout is seeded anew by every iteration, so a run is the same with and without it.
"""

import math
import time
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from nanoscope.estimates import median
from nanoscope.generation.sampler import Sampling, generate
from nanoscope.hardware.memory import SequenceTooLargeError, is_out_of_memory, release
from nanoscope.training.agenda import SAMPLE_TOKENS
from nanoscope.training.evaluate import Evaluator
from nanoscope.training.learner import Learner

AT_PEAK_SECONDS = 0.02  # for a pass that only measures, at the device's peak; it really takes a few times that
EXTRA_SECONDS, EXTRA_TIMES = 0.1, 3  # to measure an evaluation, and a sample: until either is reached
SLOW_TIMES = 10  # as long as at the peak: that is mostly setting up, or a busy machine, so the pass is repeated


@dataclass(frozen=True)
class Pass:
    """One forward and backward pass."""

    sequences: int
    forward_seconds: float
    seconds: float


@dataclass(frozen=True)
class WarmUp:
    fastest: Pass
    saved_bytes: int
    """What a forward pass over one sequence keeps for the backward pass, before compiling."""
    micro_batch: int
    """As many sequences as were asked for, or fewer if there is not enough memory for as many."""
    compile_problem: str | None = None
    """Why compiling failed, if it did; then training is eager."""


def warm_up(learner: Learner, micro_batch: int) -> WarmUp:
    saved = SavedBytes(learner.plain_model)
    try:
        with torch.autograd.graph.saved_tensors_hooks(saved.count, lambda tensor: tensor):
            first = _run(learner, learner.plain_model, 1)
    except (RuntimeError, MemoryError) as error:
        raise SequenceTooLargeError() if is_out_of_memory(error) else error from None
    problem = None
    if learner.machine.choice.compile:
        micro_batch, problem = _compile(learner, micro_batch)
    fastest = _measure(learner, first, micro_batch)
    learner.zero_grad()
    return WarmUp(fastest, saved.bytes, micro_batch, problem)


class SavedBytes:
    """Adds up the tensors that a forward pass keeps, each storage once and parameters not at all."""

    def __init__(self, model: nn.Module) -> None:
        self.bytes = 0
        self._seen = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def count(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._seen:
            self._seen.add(storage.data_ptr())
            self.bytes += storage.nbytes()
        return tensor


def _compile(learner: Learner, micro_batch: int) -> tuple[int, str | None]:
    """Compile for micro-batches of that size, or of the largest half of it that fits. Or why that does not work."""
    compiled, sequences = cast(nn.Module, torch.compile(learner.plain_model, dynamic=False)), micro_batch
    while True:
        try:
            _run(learner, compiled, sequences)
            learner.model = compiled
            return sequences, None
        except Exception as error:  # whatever stops the compiler doesn't stop eager mode
            if sequences == 1 or not is_out_of_memory(error):
                problem = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
                return micro_batch, problem
        sequences //= 2  # here, not above: the exception holds on to tensors
        learner.zero_grad()
        release(learner.machine.device)


def _measure(learner: Learner, first: Pass, micro_batch: int) -> Pass:
    """The fastest of a few more passes, if they are short: the first one also set things up."""
    machine, config = learner.machine, learner.config
    at_peak = learner.flops_per_token * config.block_size / (machine.peak[0] or math.inf) * machine.processes.world
    sequences = min(micro_batch, int(AT_PEAK_SECONDS / at_peak)) if at_peak else 1
    if learner.model is not learner.plain_model:  # compiled for whole micro-batches
        sequences = micro_batch
    repeats = 2 if sequences else int(first.seconds > SLOW_TIMES * at_peak)
    try:
        passes = [_run(learner, learner.model, max(sequences, 1)) for _ in range(repeats)] or [first]
    except (RuntimeError, MemoryError) as error:  # training has a remedy for too little memory, and will use it
        if not is_out_of_memory(error):
            raise
        passes = [first]
        release(machine.device)
    return min(passes, key=lambda each: each.seconds)


def _run(learner: Learner, model: nn.Module, sequences: int) -> Pass:
    device, size = learner.machine.device, (sequences, learner.config.block_size)
    tokens = torch.randint(learner.plain_model.config.vocab_size, size, generator=torch.Generator().manual_seed(0))
    tokens = tokens.to(device)
    learner.machine.synchronize()
    began = time.perf_counter()
    with learner.machine.autocast():
        loss = model(tokens, tokens)
    learner.machine.synchronize()
    forward = time.perf_counter() - began
    loss.backward()
    learner.machine.synchronize()
    return Pass(sequences, forward, time.perf_counter() - began)


def evaluation_seconds(learner: Learner, evaluator: Evaluator, measured: Pass) -> float:
    """Of one evaluation in this process: some of its own windows are evaluated, as many at once as is quick."""
    each = measured.forward_seconds / measured.sequences
    at_once = min(evaluator.batch, len(evaluator.starts["val"]), int(EXTRA_SECONDS / each))
    passes: list[float] = []
    model, was_training = learner.plain_model, learner.plain_model.training
    model.eval()
    try:
        while at_once and sum(passes) < EXTRA_SECONDS and len(passes) < EXTRA_TIMES:
            passes.append(evaluator.seconds_of(model, at_once))
    except (RuntimeError, MemoryError) as error:  # an evaluation has a remedy, too
        if not is_out_of_memory(error):
            raise
        release(learner.machine.device)
    finally:
        model.train(was_training)
    return sum(evaluator.shares) * (median(passes) / at_once if passes else each)


def sample_seconds(learner: Learner) -> float:
    """Of one sample: its first tokens are generated."""
    model, settings = learner.plain_model, Sampling(max_new_tokens=SAMPLE_TOKENS)
    prompt = torch.zeros(1, 1, dtype=torch.long, device=learner.machine.device)
    began, done, seconds = time.perf_counter(), 0, 0.0
    with learner.machine.sampling():
        for token in generate(model, prompt, settings, model.config.vocab_size):
            token.cpu()  # waits for it
            done, seconds = done + 1, time.perf_counter() - began
            if seconds > EXTRA_SECONDS:
                break
    return SAMPLE_TOKENS / done * seconds
