"""The time that is left: steps × mean step + the evaluations and checkpoints still to come."""

from typing import TYPE_CHECKING, Literal, NamedTuple

from nanoscope.estimates import multiples_between
from nanoscope.findings.declared import RunProgress
from nanoscope.findings.pace import measure_pace
from nanoscope.findings.progress import last_step_of, total_of
from nanoscope.findings.timing import Timing
from nanoscope.runs.run import Run

if TYPE_CHECKING:  # explaining a log needs no events
    from nanoscope.runs.events import Forecast
from nanoscope.findings.declared.base import Finding
from nanoscope.messages import Message, Said, joined, sentences

WORTH_SAYING = 0.1  # a smaller trend is not mentioned, nor is a naive estimate called wrong


class Scenario(Finding):
    """The time left if a step took `step_s`."""

    step_s: float
    remaining_s: float

    def text(self) -> Said:
        return Message(
            "{remaining_s:rough} at {step_s:duration} a step", remaining_s=self.remaining_s, step_s=self.step_s
        )


class Eta(Finding):
    """The time left: steps × mean step + the evaluations and checkpoints to come."""

    expected_s: float
    low_s: float
    high_s: float
    naive_s: float  # steps left × the last printed time
    steps_left: int
    step_s: float  # the mean used
    evals_left: int
    eval_each_s: float | None  # None: not visible in the log, or part of no printed time
    checkpoints_left: int
    checkpoint_each_s: float | None  # None: part of eval_each_s, or not visible
    scenarios: tuple[Scenario, ...]
    # 'forecast': none was seen, the run foresees their cost; 'likely': their cost is part of the first step's;
    # 'left_out': how often they come is unknown; 'none': invisible
    evaluations: Literal["known", "forecast", "likely", "left_out", "none"] = "none"
    printed_s: float | None = None  # the time left as the trainer itself prints it
    printed_disagrees: bool = False  # by more than both ranges
    unit: Literal["step", "epoch"] = "step"  # what the steps are

    def text(self) -> Said:
        if self.steps_left <= 0:
            return Message("Nothing is left to do: the run is complete.")
        return sentences(
            Message(
                "About {expected_s:duration} left ({range:durations}): {parts}.",
                range=(self.low_s, self.high_s),
                parts=self._parts(),
            ),
            self._evaluations(),
            bool(self.printed_s) and self._printed(),
        )

    def _parts(self) -> Message:
        if self.unit == "epoch":
            steps = Message("{n} epoch", "{n} epochs", n=self.steps_left)
        else:
            steps = Message("{n} step", "{n} steps", n=self.steps_left)
        evaluations = Message("{n} evaluation", "{n} evaluations", n=self.evals_left)
        checkpoints = Message("{n} checkpoint", "{n} checkpoints", n=self.checkpoints_left)
        counted = (steps, self.step_s), (evaluations, self.eval_each_s), (checkpoints, self.checkpoint_each_s)
        parts = (
            Message("{count} × {each:duration}", count=count, each=each)
            for count, each in counted
            if count.values["n"] and each
        )
        return joined(" + ", parts)

    def _evaluations(self) -> Said:
        if self.evaluations == "left_out":
            return Message(
                "Evaluations are not included, except in the upper end of the range: "
                "the log does not show how often they come."
            )
        if not self.evals_left:
            return None
        match self.evaluations:
            case "none":
                return Message("Evaluations are not included: the logged times don't cover them.")
            case "forecast":
                return Message(
                    "No evaluation has run yet: its cost is estimated from a short measurement before the first "
                    "iteration."
                )
            case "likely":
                return Message(
                    "What an evaluation costs is estimated from the first step, which also holds the start-up."
                )
            case "known":
                return None

    def _printed(self) -> Message:
        if self.printed_disagrees:
            return Message(
                "The trainer's own estimate is {printed_s:duration3}; the times in the log do not support it."
            )
        return Message("The trainer's own estimate is {printed_s:duration3}.")

    def naive(self) -> Message:
        """What the last printed time would make of it, and why that is wrong."""
        if self.naive_s > self.expected_s * (1 + WORTH_SAYING):
            return Message(
                "Last printed time × steps left would be {naive_s:duration3}: too much, because that line is slower "
                "than a normal step."
            )
        if self.naive_s >= self.expected_s * (1 - WORTH_SAYING):
            return Message("Last printed time × steps left gives about the same: {naive_s:duration3}.")
        between_steps = self.expected_s - self.steps_left * self.step_s
        if between_steps > (self.expected_s - self.naive_s) / 2:
            return Message(
                "Last printed time × steps left would be {naive_s:duration3}: too little, because it leaves out the "
                "evaluations and checkpoints to come."
            )
        return Message(
            "Last printed time × steps left would be {naive_s:duration3}: too little, because that line was faster "
            "than {step_s:duration}, the step time used above."
        )

    def other_step_times(self) -> Said:
        """What is left if a step took another time."""
        times = joined(" · ", (scenario.text() for scenario in self.scenarios))
        return Message("At other step times: {times}.", times=times) if times else None


class NoEta(Finding):
    """Why the time left cannot be estimated; `thousand_s` still tells how long 1,000 steps take."""

    reason: Literal["total_unknown", "no_times", "no_normal_step", "not_finite"]
    step_s: float | None
    evals_in_thousand: int = 0  # evaluations that come within 1,000 steps
    eval_each_s: float | None = None
    printed_s: float | None = None  # the time left as the trainer itself prints it

    @property
    def steps_s(self) -> float:
        return 1000 * (self.step_s or 0.0)

    @property
    def thousand_s(self) -> float:
        return self.steps_s + self.evals_in_thousand * (self.eval_each_s or 0.0)

    def text(self) -> Said:
        printed = self.printed_s and Message("The trainer's own estimate is {printed_s:duration3}.")
        return sentences(self._why(), printed or None, self._thousand())

    def _why(self) -> Message:
        match self.reason:
            case "total_unknown":
                return Message(
                    "Can't estimate the time remaining: the log doesn't say how many steps the run will take "
                    "({option}).",
                    option="--max_iters N",
                )
            case "no_normal_step":
                return Message("Can't estimate the time remaining: the log shows only steps with an evaluation.")
            case "no_times":
                return Message("Can't estimate the time remaining: the log has no step times.")
            case "not_finite":
                return Message("The time remaining is not estimated: the loss is not a number.")

    def _thousand(self) -> Said:
        if self.evals_in_thousand:
            return Message(
                "1,000 more steps take about {thousand_s:duration}: {steps_s:duration} of steps and {n} evaluation of "
                "{eval_each_s:duration}.",
                "1,000 more steps take about {thousand_s:duration}: {steps_s:duration} of steps and {n} evaluations of "
                "{eval_each_s:duration}.",
                n=self.evals_in_thousand,
            )
        return None if self.step_s is None else Message("1,000 more steps take about {thousand_s:duration}.")


COST_MAY_VARY = 0.1  # of an evaluation or a checkpoint
FORECAST_LOW, FORECAST_HIGH = 0.7, 1.5  # times what a run foresees for an evaluation that it has not done yet
OTHER_STEP_TIMES = 1 / 2, 1 / 5, 1 / 20  # of the present one, to show what a faster step would bring
INTERVALS = "eval_interval", "eval_every", "eval_steps", "val_every", "val_loss_every"

Known = Literal["known", "forecast", "likely", "left_out", "none"]


class Part(NamedTuple):
    """Steps, evaluations or checkpoints to come: how many, what each costs, and the range of all together."""

    number: int = 0
    each_s: float | None = None
    low_s: float = 0.0
    high_s: float = 0.0

    @property
    def expected_s(self) -> float:
        return self.number * (self.each_s or 0.0)


def _part(count: int, each_s: float, vary: float = COST_MAY_VARY) -> Part:
    return Part(count, each_s, (1 - vary) * count * each_s, (1 + vary) * count * each_s)


def analyse_eta(run: Run, progress: RunProgress, timing: Timing) -> Eta | NoEta:
    """The time left, or why there is none."""
    normal, last, total = timing.normal_step, progress.last_step, progress.total_steps
    printed = _printed(run, progress, timing.log_interval or 1)
    if normal is None:
        return NoEta("no_normal_step" if timing.no_normal_step else "no_times", None, printed_s=printed)
    if progress.finished:
        return Eta(0.0, 0.0, 0.0, 0.0, 0, normal.mean_s, 0, None, 0, None, ())
    left = progress.steps_left
    if total is None or left is None or last is None:
        return _total_unknown(run, timing, printed)
    ahead = left / max(1, run.steps.step[-1] - run.steps.step[0])
    pace = measure_pace(timing.steady_s, timing.steady_steps, ahead)
    known, evals = _evaluations_left(run, timing, last, last_step_of(run, total))
    steps = Part(left, pace.step_s, left * pace.low_s, left * pace.high_s)
    saves = _checkpoints_left(run, progress, timing, evals)
    parts = [steps, evals, saves]
    expected, low = sum(part.expected_s for part in parts), sum(part.low_s for part in parts)
    high = sum(part.high_s for part in parts) + _stalls_s(timing, ahead)
    if (share := _share_before_limit(run, progress, expected)) < 1:  # then the time is known, and what it holds is not
        expected, low, high = share * expected, share * low, share * expected
        steps, evals, saves = (part._replace(number=int(share * part.number)) for part in parts)
    return Eta(
        expected_s=expected,
        low_s=low,
        high_s=high,
        naive_s=steps.number * (timing.last_printed_s or pace.step_s),
        steps_left=steps.number,
        step_s=pace.step_s,
        evals_left=evals.number,
        eval_each_s=evals.each_s,
        checkpoints_left=saves.number,
        checkpoint_each_s=saves.each_s,
        scenarios=tuple(scenario(steps.number, float(f"{pace.step_s * x:.1g}")) for x in OTHER_STEP_TIMES),
        evaluations=known,
        printed_s=printed,
        printed_disagrees=printed is not None and not 0.9 * low <= printed <= 1.1 * high,  # it comes without a range
        unit=run.unit,
    )


def scenario(steps_left: int, step_s: float) -> Scenario:
    """The time left if a step took `step_s`."""
    return Scenario(step_s, step_s * steps_left)


def _total_unknown(run: Run, timing: Timing, printed: float | None) -> NoEta:
    """How long 1,000 steps take is still known."""
    if run.unit != "step":
        return NoEta("total_unknown", None, printed_s=printed)
    step_s = measure_pace(timing.steady_s, timing.steady_steps, 1.0).step_s
    evals = multiples_between(0, 1000, timing.eval_interval) if timing.eval_cost_s else 0
    return NoEta("total_unknown", step_s, evals, timing.eval_cost_s if evals else None, printed)


def _evaluations_left(run: Run, timing: Timing, last: int, end: int) -> tuple[Known, Part]:
    cost, first, interval = timing.eval_cost_s, timing.first_extra_s, timing.eval_interval
    forecast, every = _forecast(run), timing.eval_interval or _set_interval(run, last)
    if not timing.evaluations and forecast is not None and forecast.eval_seconds and every:
        count, each = multiples_between(last, end, every) + (end % every > 0), forecast.eval_seconds
        return "forecast", Part(count, each, FORECAST_LOW * count * each, FORECAST_HIGH * count * each)
    if not timing.evaluations or (cost is None and first is None):
        return "none", Part(multiples_between(last, end, interval))
    if every is None:  # how often they come is not known: their cost is only in the upper end of the range
        often = multiples_between(last, end, _next_round(max(last, 1)))
        return "left_out", Part(high_s=often * (cost if cost is not None else first or 0.0))
    count = multiples_between(last, end, every)
    final = 1 if run.traits.evaluates_last and end % every else 0
    if cost is None:  # of the first step's extra time, an unknown part was start-up
        each = (first or 0.0) / 2
        return "likely", Part(count + final, each, 0.0, (count + final) * 2 * each)
    every_one = _part(count + final, cost, COST_MAY_VARY if timing.evaluations > 2 else 2 * COST_MAY_VARY)
    # The last one is a habit of the trainer, which the log need not show.
    return "known", every_one._replace(low_s=every_one.low_s * count / max(count + final, 1))


def _forecast(run: Run) -> "Forecast | None":
    return run.details.forecast if run.details else None


def _set_interval(run: Run, last: int) -> int | None:
    """The interval that the settings give, or the one in the trainer's script, if the log does not refute it."""
    for value in map(run.config.get, INTERVALS):
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    usual = run.traits.evaluates_every
    if usual is None or not run.evals or run.evals[-1].step % usual:
        return None
    return usual if last < run.evals[-1].step + usual else None


def _next_round(step: int) -> int:
    """The next of 10, 20, 50, 100, … after a step: evaluations that have not come by now may come from there on."""
    size = 10
    while size <= step:
        size *= 10
    return next(size // share for share in (5, 2, 1) if size // share > step)


def _checkpoints_left(run: Run, progress: RunProgress, timing: Timing, evals: Part) -> Part:
    """Checkpoints to come whose cost is not already in the evaluations'."""
    cost, forecast = timing.checkpoint_cost_s, _forecast(run)
    alone = {c.step for c in run.checkpoints} - {e.step for e in run.evals}
    # The one that an interrupted run writes last does not come again.
    steps = [c.step for c in run.checkpoints if c.step and not (run.failed and c.step == progress.last_step)]
    if cost is not None and steps and (alone or any(c.seconds is not None for c in run.checkpoints)):
        done = steps[-1] - steps[0]
        every = done / (len(steps) - 1) if len(steps) > 1 and done > 0 else steps[-1]
        return _part(int((progress.steps_left or 0) // every), cost)
    if forecast is not None and forecast.checkpoint_seconds and not any(e.step for e in run.evals):
        return _part(evals.number, forecast.checkpoint_seconds)  # early on most evaluations are saved
    return Part()


def _stalls_s(timing: Timing, ahead: float) -> float:
    """What stalls may add if they go on as before. One or two are no habit; of more, the lines show only a part."""
    stalls = [slow.extra_s for slow in timing.slow_steps if slow.causes == ("stall",)]
    if len(stalls) > 2 and timing.steady_steps is None:
        return sum(stalls) * ahead * (timing.log_interval or 1)
    return sum(stalls) * min(1.0, ahead)


def _share_before_limit(run: Run, progress: RunProgress, expected: float) -> float:
    """How much of the rest comes before max_minutes are over. The trainer's own estimate knows when that is."""
    minutes, own = run.config.get("max_minutes"), run.series.get("eta_s")
    limited = isinstance(minutes, int | float) and minutes > 0 and not run.failed
    return own.values[-1] / expected if limited and own and progress.total_steps == total_of(run) else 1.0


def _printed(run: Run, progress: RunProgress, log_interval: int) -> float | None:
    """The time left that another trainer printed with its last lines, if it is the time to the same end."""
    series = run.series.get("eta_s")
    if series is None or not series.values or run.details or progress.total_steps != total_of(run):
        return None
    return series.values[-1] if series.steps[-1] >= run.steps.step[-1] - 2 * log_interval else None
