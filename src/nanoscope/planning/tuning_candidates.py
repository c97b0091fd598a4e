"""What can be changed about how a run is carried out, and is worth trying on this machine. Changes nothing it learns.

A direction is a list of settings that are tried one after another for as long as each is faster than the one before.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from nanoscope.config import TrainConfig
from nanoscope.hardware.probe import ProbeResult
from nanoscope.messages import Text

Settings = dict[str, Any]
Kind = Literal["step", "eval"]

MARGIN = 0.02  # of the run's time: less is not worth a change
DTYPE_MARGIN = 0.05  # 16 bits round differently: that must be worth more
COMPILE_SECONDS = 20.0  # what compiling takes about, before it is measured
MOST_SAVED_BY_COMPILING = 0.4  # of a step, to tell whether trying it can pay at all
FACTOR = 1.6  # between the micro-batches that are tried: halves, or what comes near
SPARE_MEMORY = 0.1


@dataclass(frozen=True)
class Facts:
    """What a trial says about itself once it is ready to train."""

    device: str
    """Its kind: cpu, cuda or mps."""
    device_name: str
    dtype: str
    compiled: bool
    threads: int
    """Whether its threads sleep while they wait for each other."""
    eval_batch: int
    windows: int
    """Of an evaluation, both splits together."""
    compile_seconds: float
    """Before the first iteration; 0 if it is not compiled."""
    available_bytes: int
    """What one such process can have in total."""
    memory_bytes: int
    sequence_bytes: int
    """What each further sequence of a micro-batch adds."""
    note: str = ""
    """What does not work here and was replaced."""


@dataclass(frozen=True)
class Direction:
    steps: list[Settings]
    kind: Kind = "step"
    margin: float = MARGIN


@dataclass(frozen=True)
class Skipped:
    settings: Settings
    reason: Text


@dataclass
class Candidates:
    directions: list[Direction] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


@dataclass(frozen=True)
class Length:
    """The parts of a run that settings can make shorter."""

    steps: int
    evaluations: int

    @classmethod
    def of(cls, config: TrainConfig) -> "Length":
        from nanoscope.estimates import multiples_between

        last, every = config.max_iters, config.eval_interval
        first = int(config.recipe == "classic" or config.init_from != "scratch")  # modern isn't evaluated untrained
        return cls(last, first + multiples_between(0, last, every) + (last % every > 0))

    def seconds(self, step: float, evaluation: float, start: float = 0.0) -> float:
        return start + self.steps * step + self.evaluations * evaluation


def candidates(
    config: TrainConfig,
    facts: Facts,
    fixed: Iterable[str],
    step_seconds: float,
    eval_seconds: float,
    *,
    logical_cores: int,
    memory_bytes: int,
    sixteen_bits: ProbeResult | None,
) -> Candidates:
    """What to try, the most promising first. `fixed` settings were typed by the user, who wants them as they are.

    `memory_bytes` is what the run can have; `sixteen_bits` what the probe of bfloat16 found, on a CPU.
    """
    found, fixed = Candidates(), set(fixed)
    if facts.device == "cpu":
        _threads(found, facts, fixed, logical_cores)
    _splits(found, config, facts, fixed, memory_bytes)
    _dtype(found, facts, fixed, sixteen_bits)
    _compile(found, config, facts, fixed, step_seconds)
    _eval_batch(found, config, facts, fixed, step_seconds, eval_seconds)
    return found


def _threads(found: Candidates, facts: Facts, fixed: set[str], cores: int) -> None:
    if "threads" not in fixed:
        fewer = [{"threads": count} for count in _halves(facts.threads)]
        more = [{"threads": cores}] if facts.threads < cores else []
        found.directions += [Direction(steps) for steps in (fewer, more) if steps]


def _halves(count: int) -> list[int]:
    halves = []
    while (count := count // 2) >= 1:
        halves.append(count)
    return halves


def _splits(found: Candidates, config: TrainConfig, facts: Facts, fixed: set[str], memory_bytes: int) -> None:
    if fixed & {"batch_size", "gradient_accumulation_steps", "eval_iters"}:
        return
    sizes = possible_micro_batches(config)
    larger = _spaced((size for size in sizes if size > config.batch_size), config.batch_size)
    fitting = [size for size in larger if _memory(config, facts, size) <= (1 - SPARE_MEMORY) * memory_bytes]
    smaller = _spaced((size for size in reversed(sizes) if size < config.batch_size), config.batch_size)
    # A GPU is idle between small kernels; a CPU's caches are full long before its cores are idle.
    order = (smaller, fitting) if facts.device == "cpu" else (fitting, smaller)
    found.directions += [Direction([split(config, size) for size in each]) for each in order if each]
    if len(fitting) < len(larger):
        too_large = larger[len(fitting)]
        found.skipped.append(
            Skipped(
                split(config, too_large),
                Text(
                    "it leaves less than a tenth of the memory: {need:.1f} of {available:.1f} GB",
                    need=_memory(config, facts, too_large) / 1e9,
                    available=memory_bytes / 1e9,
                ),
            )
        )


def possible_micro_batches(config: TrainConfig) -> list[int]:
    """Those that leave the sequences of an iteration as they are, and the windows of an evaluation."""
    sequences, windows = config.sequences_per_step, _windows(config)
    return [size for size in range(1, sequences + 1) if sequences % size == 0 and (windows or 0) % size == 0]


def split(config: TrainConfig, size: int) -> Settings:
    """The settings that train the same sequences in micro-batches of this size, and evaluate the same windows."""
    settings: Settings = {"batch_size": size, "gradient_accumulation_steps": config.sequences_per_step // size}
    windows = _windows(config)  # nanoGPT counts them in batches, so their number follows
    return settings | ({"eval_iters": windows // size} if windows is not None else {})


def _windows(config: TrainConfig) -> int | None:
    return None if config.eval_iters == "full" else config.eval_iters * config.batch_size


def _spaced(sizes: Iterable[int], last: int) -> list[int]:
    """Of sizes that grow or shrink from the last one, those that differ enough from the one before."""
    kept: list[int] = []
    for size in sizes:
        if not 1 / FACTOR < size / last < FACTOR:
            kept.append(size)
            last = size
    return kept


def _memory(config: TrainConfig, facts: Facts, size: int) -> float:
    return facts.memory_bytes + (size - config.batch_size) * facts.sequence_bytes


def _dtype(found: Candidates, facts: Facts, fixed: set[str], probed: ProbeResult | None) -> None:
    if "dtype" in fixed or probed is None:
        return
    if facts.dtype == "bfloat16":  # chosen by itself, as its matmuls are fast here; the rest of a step may not be
        found.directions.append(Direction([{"dtype": "float32"}]))
        return
    settings: Settings = {"dtype": "bfloat16"}
    if not probed.works:
        reason = Text("it does not work on this CPU: {problem}", problem=probed.problem)
    elif (times := probed.times_float32 or 1.0) >= 1.0:
        reason = Text("a matmul takes {times:.1f} times as long as in float32 on this CPU", times=times)
    else:
        found.directions.append(Direction([settings], margin=DTYPE_MARGIN))
        return
    found.skipped.append(Skipped(settings, reason))


def _compile(found: Candidates, config: TrainConfig, facts: Facts, fixed: set[str], step_seconds: float) -> None:
    if "compile" in fixed:
        return
    settings: Settings = {"compile": not facts.compiled}
    saved_at_best = MOST_SAVED_BY_COMPILING * config.max_iters * step_seconds
    if not facts.compiled and saved_at_best < COMPILE_SECONDS:
        reason = Text("too few iterations to repay compiling")
        found.skipped.append(Skipped(settings, reason))
    else:
        found.directions.append(Direction([settings]))


def _eval_batch(
    found: Candidates, config: TrainConfig, facts: Facts, fixed: set[str], step_seconds: float, eval_seconds: float
) -> None:
    if "eval_batch_size" in fixed:
        return
    length, most = Length.of(config), max(facts.windows // 2, 1)  # of one split
    share = 1 - length.seconds(step_seconds, 0.0) / length.seconds(step_seconds, eval_seconds)
    larger = [size for size in (2 * facts.eval_batch, 4 * facts.eval_batch) if size <= most]
    smaller = _halves(facts.eval_batch)[:2]
    directions = [Direction([{"eval_batch_size": size} for size in each], "eval") for each in (larger, smaller) if each]
    if share >= 2 * MARGIN:
        found.directions += directions
    elif directions:
        reason = Text("evaluations take {share:.1%} of the run", share=share)
        found.skipped.append(Skipped(directions[0].steps[0], reason))
