"""How far a run is, and whether it is over."""

from itertools import pairwise

from nanoscope.estimates import spread_indices
from nanoscope.findings.declared import RunProgress
from nanoscope.runs.run import OWN_FORMAT, Run

WHOLE = 0.03  # how near to a whole number a ratio must be
LEAST_TOKENS = 64  # a 'total batch size' below it counts sequences
WHOLE_MODEL_TRAINERS = {
    "nanogpt", "build-nanogpt", "nanochat", "llm.c", "modded-nanogpt", "mingpt", "makemore", OWN_FORMAT,
}  # fmt: skip
# Training tokens of the texts that nanoGPT prepares itself, as its scripts print them.
WELL_KNOWN_DATA = {"shakespeare_char": 1_003_854, "shakespeare": 301_966}


def analyse_progress(run: Run, max_iters: int | None, log_interval: int | None) -> RunProgress:
    """Total, steps left and end of a run, from what the person or the log says."""
    total = max_iters if max_iters is not None else total_of(run)
    # The last evaluation or checkpoint may come after the last printed step.
    told = [*run.steps.step[-1:], *(e.step for e in run.evals[-1:]), *(c.step for c in run.checkpoints[-1:])]
    last = max(told, default=None)
    finished = _finished(run, total, last, log_interval, extended=_extends(run, max_iters))
    left = None
    unclear = any(doubt.name == "finished" for doubt in run.doubts)
    if finished:
        left = 0
    elif unclear:
        finished = None  # a line says so, and the counter contradicts it
    elif total is not None and run.last_step is not None and run.last_step > total:
        pass  # that total counts something else
    elif total is not None and last is not None:
        left = max(0, last_step_of(run, total) - last)
    tokens_per_step = tokens_in_step(run)
    # A printed step is over; an evaluation comes before the step of its number.
    done = max(last, run.last_step + 1 if run.last_step is not None else 0) if last is not None else None
    seen = _tokens_seen(run, done, tokens_per_step) if tokens_per_step and done else None
    data, parameters = train_tokens(run), trained_parameters(run)
    return RunProgress(
        last_step=last,
        total_steps=total,
        steps_left=left,
        finished=finished,
        tokens_per_step=tokens_per_step,
        tokens_seen=seen,
        passes_over_data=seen / data if seen and data else None,
        tokens_per_parameter=seen / parameters if seen and parameters else None,
        unit=run.unit,
    )


def _tokens_seen(run: Run, done: int, tokens_per_step: int) -> int:
    """Tokens of `done` steps. A resume may have changed the batch."""
    batches = run.details.batches if run.details else []
    firsts = [0, *(first for first, _ in batches[1:]), done]
    spans = zip(pairwise(firsts), batches, strict=True) if batches else [((0, done), (0, tokens_per_step))]
    return sum(max(0, min(end, done) - first) * tokens for (first, end), (_, tokens) in spans)


def trained_parameters(run: Run) -> int | None:
    """Parameters of the model, where the trainer trains all of them: others may print those of an adapter."""
    said = run.config.get("parameters")
    return said if isinstance(said, int) and said > 0 and run.format in WHOLE_MODEL_TRAINERS else None


def train_tokens(run: Run) -> int | None:
    """Tokens of the training data: said, or known by the data's name."""
    said = run.config.get("train_tokens")
    if isinstance(said, int) and said > 0:
        return said
    return WELL_KNOWN_DATA.get(str(run.config.get("dataset", "")))


def last_step_of(run: Run, total: int) -> int:
    """The number of the last step of `total`, as this format counts."""
    counts_from_zero = run.traits.last_is_total_minus_one
    if counts_from_zero is None:
        counts_from_zero = run.first_step == 0 and (run.last_step or 0) < total
    return total - 1 if counts_from_zero else total


def tokens_in_step(run: Run) -> int | None:
    """Tokens that one step trains on: as set, or as the speed shows where only one device's batch is set."""
    settings = set_tokens_in_step(run)
    if settings and _is_said(run):
        return settings
    speed = tokens_from_speed(run)
    if settings and speed:
        devices = round(speed / settings)  # or micro-batches, of which the log says nothing
        if devices > 1 and abs(speed / (devices * settings) - 1) < WHOLE:
            return speed
    return settings or speed


def _is_said(run: Run) -> bool:
    return bool(run.config.get("tokens_per_step") or run.config.get("total_batch_size"))


def set_tokens_in_step(run: Run) -> int | None:
    """Tokens that one step trains on: said, or computed from batch, block and accumulation."""
    said = run.config.get("tokens_per_step") or run.config.get("total_batch_size")
    if isinstance(said, int):
        return said if said >= LEAST_TOKENS else None
    sizes = [run.config.get(key) for key in ("batch_size", "block_size")]
    if all(isinstance(size, int) for size in sizes):
        accumulation = run.config.get("gradient_accumulation_steps", 1)
        product = int(accumulation) if isinstance(accumulation, int) else 1
        for size in sizes:
            product *= int(size or 0)
        return product or None
    return None


def tokens_from_speed(run: Run) -> int | None:
    """Tokens a step = tokens a second × seconds, where both are printed."""
    speeds, times = run.steps.tok_s, run.steps.time_s
    pairs = [(speeds[index], times[index]) for index in spread_indices(len(times))]
    products = sorted(speed * time for speed, time in pairs if 0 < speed < float("inf") and 0 < time < float("inf"))
    if not products or run.time_spans_steps or run.tok_s_per_device:
        return None
    middle = products[len(products) // 2]
    consistent = sum(abs(p - middle) < 0.01 * middle for p in products) > 0.8 * len(products)
    return round(middle) if consistent else None


def total_of(run: Run) -> int | None:
    """The number of steps that the log itself says the run will take."""
    if run.total_steps is not None:
        return run.total_steps
    for key in run.traits.total_keys:
        value = run.config.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return int(value)
    return None


def _extends(run: Run, max_iters: int | None) -> bool:
    """Whether somebody asks about more steps than the run was set to take."""
    return max_iters is not None and max_iters > (total_of(run) or 0)


def _finished(
    run: Run, total: int | None, last: int | None, log_interval: int | None, *, extended: bool
) -> bool | None:
    if last is None:
        return False if run.failed else None
    if run.said_finished and not extended:
        return True
    if total is not None and run.last_step is not None and run.last_step > total:
        return None
    if total is not None:
        end = last_step_of(run, total)
        evaluated_last = bool(run.evals) and run.evals[-1].step >= end
        if last >= end or evaluated_last:
            return True
        # The last line of a run that prints every k-th step may come up to k−1 steps before its end.
        next_line = last + (log_interval or 1)
        return next_line > end and not run.failed
    if run.failed:
        return False
    return True if _evaluated_off_the_grid(run, last) else None


def _evaluated_off_the_grid(run: Run, last: int) -> bool:
    """A trainer that evaluates at every multiple and once more at the end has said that this was the end."""
    steps = [e.step for e in run.evals]
    if len(steps) < 3 or steps[-1] < last:
        return False
    gaps = {b - a for a, b in pairwise(steps[:-1])}
    return len(gaps) == 1 and 0 < steps[-1] - steps[-2] < min(gaps)
