"""Which steps are slow, and why, from the evidence in the log.

A step is slow when it stands out of the run's own spread around its own slowly moving median (`estimates.is_slow`).
"""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import ne
from typing import Literal, NamedTuple

from nanoscope.estimates import ENOUGH, median, percentile, spread_indices
from nanoscope.findings.declared.base import Finding
from nanoscope.findings.numbers import between, common_gap, is_slow, robust_sigma
from nanoscope.messages import Message, Said, joined
from nanoscope.runs.run import Run

Cause = Literal["startup", "evaluation", "checkpoint", "resume", "periodic", "stall"]

CAUSES: dict[Cause, Message] = {
    "startup": Message("start-up"),
    "evaluation": Message("evaluation"),
    "checkpoint": Message("checkpoint"),
    "resume": Message("resuming"),
    "periodic": Message("regular extra work"),
    "stall": Message("unexplained"),
}


def named(causes: Iterable[Cause]) -> Message:
    """Several causes of one delay, each in a word or two."""
    return joined(" + ", (CAUSES[cause] for cause in causes))


class SlowRecord(Finding):
    """A printed time that stands out of the run's own spread."""

    step: int
    time_s: float
    extra_s: float
    causes: tuple[Cause, ...]

    def text(self) -> Said:
        if self.causes == ("stall",):
            return Message("Slow: {extra_s:duration} more than a normal step, and the log shows no cause.")
        return Message(
            "Slow: of these {time_s:duration}, {extra_s:duration} are not training but {causes}.",
            causes=named(self.causes),
        )


class SlowGroup(Finding):
    """All slow records with the same causes, and what they cost together."""

    causes: tuple[Cause, ...]
    count: int
    first_step: int
    period_steps: int | None  # the distance between them, if it is regular
    typical_s: float
    extra_total_s: float  # more than normal steps take, over the printed lines
    times_slower: float
    unit: Literal["step", "epoch"] = "step"  # what the step numbers count
    compiled: bool | None = False  # this is the first step, and the trainer compiles its model; None: it may
    inferred: bool = False  # the log leaves the evaluations out; only the distance of these steps shows them

    def text(self) -> Said:
        causes = named(self.causes)
        if self.unit == "epoch":
            return self._epochs(causes)
        if self.count == 1:
            return Message(
                "{causes}: step {first_step:plain} took {typical_s:duration} "
                "({times_slower:significant2}× a normal step).",
                causes=causes,
            )
        if (self.period_steps or 1) > 1:
            return Message(
                "{causes}: {n} slow step, every {period_steps:number} steps, {typical_s:duration} each "
                "({times_slower:significant2}× a normal step), "
                "{extra_total_s:duration} more than normal steps would take.",
                "{causes}: {n} slow steps, every {period_steps:number} steps, {typical_s:duration} each "
                "({times_slower:significant2}× a normal step), "
                "{extra_total_s:duration} more than normal steps would take.",
                n=self.count,
                causes=causes,
            )
        return Message(
            "{causes}: {n} slow step, {typical_s:duration} each ({times_slower:significant2}× a normal step), "
            "{extra_total_s:duration} more than normal steps would take.",
            "{causes}: {n} slow steps, {typical_s:duration} each ({times_slower:significant2}× a normal step), "
            "{extra_total_s:duration} more than normal steps would take.",
            n=self.count,
            causes=causes,
        )

    def _epochs(self, causes: Message) -> Message:
        if self.count == 1:
            return Message(
                "{causes}: epoch {first_step:plain} took {typical_s:duration} "
                "({times_slower:significant2}× a normal epoch).",
                causes=causes,
            )
        return Message(
            "{causes}: {n} slow epoch, {typical_s:duration} each ({times_slower:significant2}× a normal epoch), "
            "{extra_total_s:duration} more than normal epochs would take.",
            "{causes}: {n} slow epochs, {typical_s:duration} each ({times_slower:significant2}× a normal epoch), "
            "{extra_total_s:duration} more than normal epochs would take.",
            n=self.count,
            causes=causes,
        )

    def reason(self, causes: Collection[Cause]) -> Message:
        """What the trainer does in that time, for all of its causes or some."""
        if "startup" in causes:
            return self._once("evaluation" in causes)
        if "resume" in causes:
            return Message("After a restart the first step pays for start-up again.")
        if "evaluation" in causes:
            return self._evaluates("checkpoint" in causes)
        if "checkpoint" in causes:
            return Message("The model is written to disk before these lines.")
        if "periodic" in causes:
            return Message("They come at regular intervals: work that the trainer does now and then.")
        return Message(
            "The usual reasons are another program, the disk, heat, or a machine that went to sleep; the log does not "
            "show which."
        )

    def _once(self, evaluated: bool) -> Message:
        if not evaluated and self.compiled:
            return Message("This includes compiling the model, which happens once.")
        if not evaluated:
            return Message("This includes start-up, which happens once.")
        if self.compiled is None:
            return Message(
                "This holds the first evaluation and what happens only once: loading the first data, warming up the "
                "device, and compiling the model if that is on."
            )
        if self.compiled:
            return Message(
                "This holds the first evaluation and what happens only once: loading the first data, warming up the "
                "device, compiling the model."
            )
        return Message(
            "This holds the first evaluation and what happens only once: loading the first data, warming up the device."
        )

    def _evaluates(self, saved: bool) -> Message:
        if self.inferred:
            return Message(
                "The log leaves the evaluations out, but this trainer evaluates at such regular distances, and its "
                "printed times include the evaluation and the checkpoint."
            )
        if saved:
            return Message(
                "Before these lines the trainer measures the losses over many batches and writes the model to disk; "
                "the training step itself is as fast as any other."
            )
        return Message(
            "Before these lines the trainer measures the losses over many batches; "
            "the training step itself is as fast as any other."
        )


STARTUP_SHARE = 0.25  # of a normal step, or of an evaluation where the first step holds one: less is no start-up
SEEN_SHARE, SEEN_SIGMAS = 0.08, 5.0  # over the usual time, for a step that is known to hold an evaluation or a save
FAR_SLOWER = 3.0  # times any other step: such are evaluations, where they come at the distances of evaluations
FEW = 5  # normal records: among fewer, nothing that is not explained can be called slow
WINDOWS_TICK_S = 1 / 64  # the default clock of Windows moves in steps of 15.6 ms
MOST_BLOCKS, ENOUGH_IN_BLOCK = 64, 1_000
JITTER_SHARE = 0.05  # more unexplained slow steps than this are the run's own spread

Place = Literal["same", "next"]


@dataclass(eq=False, repr=False)
class SlowRecords:
    """The slow records of a run, by index."""

    measured: Sequence[int]  # records that have a time
    evaluation_lands: Place | None = None  # where the time of an evaluation shows
    eval_interval: int | None = None  # set where the log leaves the evaluations out, and slow steps show where they are
    is_normal_known: bool = False  # False: every time is that of a step with an evaluation
    causes: dict[int, tuple[Cause, ...]] = field(default_factory=dict)
    extra_s: dict[int, float] = field(default_factory=dict)  # over the normal step there, for all steps of the record
    jittery: bool = False
    clock_resolution_s: float | None = None  # set where the spread of the times is only the clock's own steps


class _Found(NamedTuple):
    """What stands out of the run's own spread."""

    explained: dict[int, float]  # as a share of a normal step: enough to be slow where a cause is known
    unexplained: list[int]  # slow whatever the cause
    usual_shares: list[float]  # of plain records, around their level


def find_slow(run: Run, interval: int | None) -> SlowRecords:
    """Every slow record with its causes."""
    measured = finite_indices(run.steps.time_s)
    if not measured:
        return SlowRecords(measured)
    steps, lands = run.steps.step, _evaluation_lands(run, measured)
    eval_interval = _unprinted_evaluations(run, measured) if lands == "same" else None
    unprinted = [step for step in steps if step % eval_interval == 0] if eval_interval else run.evaluated_at
    saves = [c.step for c in run.checkpoints]
    if lands is None and (run.traits.evaluation_in is None or run.time_spans_steps):
        saved: Place | None = _lands(run, measured, saves) or "next"
    else:
        saved = lands
    # The records in which something besides training is known to happen.
    work: dict[Cause, set[int]] = {
        "startup": {measured[0]} if _is_opening(run, measured[0], interval) else set(),
        "resume": records_of(steps, run.resumed_at, "same"),
        "evaluation": records_of(steps, [*(e.step for e in run.evals), *unprinted], lands),
        "checkpoint": records_of(steps, saves, saved),
    }
    records = SlowRecords(measured, lands, eval_interval)
    in_times = work["evaluation"] | (work["checkpoint"] if lands is not None else set())
    plain = _plain(run, records, in_times, work["resume"] | work["startup"])
    if not plain:
        return records
    found = _stand_out(run, records, plain, in_times)
    causes = _known_causes(run, records, work, found)
    left = [index for index in found.unexplained if index not in causes]
    regular = _periodic([steps[index] for index in left], steps, interval or 1)
    stray = [index for index in left if steps[index] not in regular]
    records.jittery = len(stray) > max(3, JITTER_SHARE * len(measured))
    if records.jittery:  # such steps are this run's own spread; only what stands out even of that is a stall
        limit = 3 * percentile(found.usual_shares, 95)
        stray = [index for index in stray if found.explained.get(index, 0.0) > limit]
    causes |= {index: ("periodic",) for index in left if steps[index] in regular}
    records.causes = dict(sorted((causes | dict.fromkeys(stray, ("stall",))).items()))
    records.is_normal_known = True
    return records


def _plain(run: Run, records: SlowRecords, in_times: set[int], others: set[int]) -> Sequence[int]:
    """The records that show a normal step."""
    measured = records.measured
    plain = array("q", (index for index in measured if index not in in_times and index not in others))
    if plain:
        return plain
    if records.evaluation_lands == "same":  # such a trainer also evaluates before its first step
        return [index for index in measured if index not in in_times and run.steps.step[index] > 0]
    return measured[1:] if measured[0] in others and len(measured) > 1 else measured


def _stand_out(run: Run, records: SlowRecords, plain: Sequence[int], in_times: set[int]) -> _Found:
    times = run.steps.time_s
    baseline = Baseline(plain, [times[index] for index in plain])
    sample = [plain[i] for i in spread_indices(len(plain))]
    records.clock_resolution_s = run.clock_resolution_s or _tick([times[index] for index in sample])
    found = _Found({}, [], [times[index] / baseline.level(index) - 1 for index in sample])
    spread = robust_sigma(found.usual_shares)
    surely_normal_s = baseline.lowest * (1 + SEEN_SHARE)
    for index in records.measured:
        if times[index] <= surely_normal_s:
            continue
        level = baseline.level(index)
        share = times[index] / level - 1
        if share <= SEEN_SHARE:
            continue
        covered = steps_covered(run, index)
        noise = max(spread, baseline.sigma(index) / level, (records.clock_resolution_s or 0.0) / (2 * covered * level))
        records.extra_s[index] = (times[index] - level) * covered
        stands_out = index in in_times and share > SEEN_SIGMAS * noise
        if stands_out or is_slow(times[index], level, noise, explained=True):
            found.explained[index] = share
        if len(plain) >= FEW and is_slow(times[index], level, noise):
            found.unexplained.append(index)
    return found


class Baseline:
    """Median and robust sigma of the values around a place, following slow drifts: blocks, joined by lines."""

    def __init__(self, places: Sequence[int], values: Sequence[float], at_least: int = 15) -> None:
        count = max(1, min(MOST_BLOCKS, len(values) // at_least))
        edges = list(pairwise(len(values) * edge // count for edge in range(count + 1)))
        samples = [[a + i for i in spread_indices(b - a, ENOUGH_IN_BLOCK)] for a, b in edges]
        self._middles = [(places[a] + places[b - 1]) / 2 for a, b in edges]
        self._medians = [median([values[i] for i in sample]) for sample in samples]
        self._sigmas = [robust_sigma([values[i] - self.level(places[i]) for i in sample]) for sample in samples]
        self.lowest = min(self._medians)

    def level(self, place: int) -> float:
        return between(place, self._middles, self._medians)

    def sigma(self, place: int) -> float:
        return between(place, self._middles, self._sigmas)


def _known_causes(
    run: Run, records: SlowRecords, work: dict[Cause, set[int]], found: _Found
) -> dict[int, tuple[Cause, ...]]:
    """The slow records that the log explains."""
    alone = work["checkpoint"] - work["evaluation"] - work["startup"]
    if records.evaluation_lands is None and 2 * sum(index in found.explained for index in alone) <= len(alone):
        work["checkpoint"] = set()  # its saves take no time that shows
    begins: Cause = "resume" if run.begins_with_resume else "startup"
    causes: dict[int, tuple[Cause, ...]] = {}
    for index, share in found.explained.items():
        happens = [cause for cause, where in work.items() if index in where]
        if "startup" in happens and (share <= STARTUP_SHARE or begins == "resume"):
            happens[:1] = ["resume"] if share > STARTUP_SHARE else []
        if happens:
            causes[index] = tuple(happens)
    opening = records.measured[0]
    opens = causes.get(opening, ())[:2] == ("startup", "evaluation")
    if opens and not _has_startup(run, causes, records.extra_s, opening):
        causes[opening] = causes[opening][1:]
    if causes.get(opening, ())[:1] in (("startup",), ("resume",)):  # compilation may take the first few steps
        for index in records.measured[1:10]:
            if index not in found.unexplained or index in causes:
                break
            causes[index] = causes[opening][:1]
    return causes


def finite_indices(values: Sequence[float]) -> Sequence[int]:
    """Where there is a finite number above zero; a mere range if everywhere (a long log has no memory to spare)."""
    if all(0 < value < math.inf for value in values):
        return range(len(values))
    return array("q", (index for index, value in enumerate(values) if 0 < value < math.inf))


def steps_covered(run: Run, index: int) -> int:
    """How many steps a record's time is the mean of."""
    if not run.time_spans_steps:
        return 1
    step = run.steps.step[index]
    if index == 0:
        return max(1, step) if step <= 100 else 1
    return max(1, step - run.steps.step[index - 1])


def _tick(values: list[float]) -> float | None:
    """The step of a coarse clock, if the times sit on its multiples."""
    ticks = [value / WINDOWS_TICK_S for value in values]
    if len(ticks) < 20 or median(ticks) > 10:
        return None
    on_tick = sum(tick > 0.5 and abs(tick - round(tick)) < 0.02 for tick in ticks)
    return WINDOWS_TICK_S if on_tick > 0.3 * len(ticks) else None


# --- which record holds what ---


def _evaluation_lands(run: Run, measured: Sequence[int]) -> Place | None:
    """Where the time of an evaluation shows: the 'same' record, the 'next', or nowhere (None)."""
    declared = run.traits.evaluation_in
    if declared is not None:
        return declared if declared in ("same", "next") else None
    return _lands(run, measured, [e.step for e in run.evals])


def _lands(run: Run, measured: Sequence[int], events: Sequence[int]) -> Place | None:
    """Where events show by the times alone."""
    times = run.steps.time_s
    typical = median([times[index] for index in measured])
    known = set(measured[1:])
    for place in ("same", "next"):
        found = [times[i] for i in records_of(run.steps.step, events, place) if i in known]
        if len(found) >= 2 and median(found) > 1.3 * typical and min(found) > 1.1 * typical:
            return place
    return None


def _unprinted_evaluations(run: Run, measured: Sequence[int]) -> int | None:
    """The distance of evaluations that the log leaves out, where the trainer's times hold them.

    Such a trainer evaluates at the multiples of one number, zero among them. Elsewhere steps are far faster.
    """
    is_quoted = any(map(ne, run.steps.loss, run.steps.loss))  # lines without their losses: others are left out, too
    if (run.evals and not is_quoted) or run.time_spans_steps:
        return None
    known = {step for step in (*run.evaluated_at, *(e.step for e in run.evals)) if step > 0}
    seconds = {run.steps.step[index]: run.steps.time_s[index] for index in measured[:ENOUGH]}
    later = sorted((time_s, step) for step, time_s in seconds.items() if step > 0)
    jumps = [(above / below, index) for index, ((below, _), (above, _)) in enumerate(pairwise(later), start=1)]
    if not jumps:
        return None
    jump, first_slow = max(jumps)
    slow = {step for _, step in later[first_slow:]} | known
    distance = math.gcd(*slow)
    are_enough = len(slow) > 1 or known or (is_quoted and 0 in seconds)
    are_regular = all(time_s >= later[first_slow][0] for step, time_s in seconds.items() if step % distance == 0)
    return distance if jump >= FAR_SLOWER and are_enough and are_regular else None


def records_of(steps: Sequence[int], events: Sequence[int], lands: Place | None) -> set[int]:
    """The records whose time holds events that happened at the given steps."""
    if lands is None:
        return set()
    if lands == "next":
        return {index for event in events if (index := bisect_right(steps, event)) < len(steps)}
    found = ((bisect_left(steps, event), event) for event in events)
    return {index for index, event in found if index < len(steps) and steps[index] == event}


def _is_opening(run: Run, index: int, interval: int | None) -> bool:
    """Whether a record is the run's first (a clock that is differenced has no time for the very first line)."""
    steps = run.steps.step
    at_start = steps[0] <= 1 or run.begins_with_resume or (run.time_spans_steps and steps[0] <= (interval or 1))
    return at_start and steps[index] <= steps[0] + 1


def _has_startup(run: Run, causes: dict[int, tuple[Cause, ...]], extra_s: dict[int, float], first: int) -> bool:
    """Whether a first step that holds an evaluation cost clearly more than the evaluations that came later."""
    later = [extra_s[index] for index, why in causes.items() if index != first and why[0] == "evaluation"]
    if later:
        return extra_s[first] > (1 + STARTUP_SHARE) * median(later)
    return compiles(run) is not False  # with nothing to compile, the evaluation is the likelier reason


def compiles(run: Run) -> bool | None:
    """Whether the trainer compiles its model before the first step; None if the log does not say."""
    said = run.config.get("compile")
    if isinstance(said, bool):
        return said
    return False if run.config.get("device") == "cpu" else None


def _periodic(slow: list[int], steps: Sequence[int], every: int) -> set[int]:
    """Which of the slow steps come back at a regular distance."""
    if len(slow) < 4:
        return set()
    period = common_gap(slow)
    if period and period > every:
        remainder = Counter(step % period for step in slow).most_common(1)[0][0]
        members = [step for step in slow if step % period == remainder]
        inside = steps[bisect_left(steps, members[0]) : bisect_right(steps, members[-1])]
        due = sum(step % period == remainder for step in inside)
        if len(members) >= max(4, 0.5 * len(slow), 0.7 * due):
            return set(members)
    # Not on a grid, but with the same distance again and again (data shards of equal size). A machine that was busy for
    # a while is one occasion, however many steps it slowed down, and three of them have equal distances by chance.
    occasions = [step for before, step in pairwise([-math.inf, *slow]) if step - before > 3 * every]
    if len(occasions) < 4:
        return set()
    best: set[int] = set()
    distances = {b - a for i, a in enumerate(slow[:40]) for b in slow[i + 1 : i + 7]}
    lines = (steps[-1] - steps[0]) / every
    for distance in sorted(d for d in distances if d > 3 * every)[:200]:
        slack = max(every, 0.02 * distance)
        if len(slow) * (2 * slack / every + 1) > 0.2 * lines:
            break  # so many slow steps have neighbours at any distance by mere chance
        earlier = {step for step in slow if _has_near(slow, step - distance, slack)}
        later = {step for step in slow if _has_near(slow, step + distance, slack)}
        if earlier & later and len(earlier | later) > len(best):
            best = earlier | later
    return best if len(best) >= 0.8 * len(slow) else set()


def _has_near(steps: list[int], wanted: int, slack: float) -> bool:
    right = bisect_left(steps, wanted - slack)
    return right < len(steps) and steps[right] <= wanted + slack
