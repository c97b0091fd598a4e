"""Where the time goes, and how much of it is left."""

from collections.abc import Collection, Iterable
from typing import Literal

from nanoscope.findings.declared.base import Finding, Verdict
from nanoscope.messages import Message, Phrases, Plural, Said, Verbatim
from nanoscope.runs.run import TimeSource
from nanoscope.units import short_duration

Cause = Literal["startup", "evaluation", "checkpoint", "resume", "periodic", "stall"]

WORTH_SAYING = 0.1  # a smaller trend is not mentioned, nor is a naive estimate called wrong
FEW = 5  # steps say little about their spread
MINUTE_S = 60

CAUSES: dict[Cause, Message] = {
    "startup": Message("start-up"),
    "evaluation": Message("evaluation"),
    "checkpoint": Message("checkpoint"),
    "resume": Message("resuming"),
    "periodic": Message("regular extra work"),
    "stall": Message("unexplained"),
}
SOURCES: dict[TimeSource, Message] = {
    "cumulative": Message("The log prints a running total; step times are its differences."),
    "timestamps": Message("The log prints no step times; these come from its timestamps."),
    "progress_bar": Message("The log prints no step times; these come from its progress bar."),
}


def named(causes: Iterable[Cause]) -> Phrases:
    """Several causes of one delay, each in a word or two."""
    return Phrases(*(CAUSES[cause] for cause in causes), separator=" + ")


def _written(seconds: float) -> str:
    """A time as exactly as it is shown: three digits, and from a minute on whole seconds."""
    return f"{seconds:.3g}" if seconds < MINUTE_S else short_duration(seconds)


class NormalStep(Finding):
    """The time of steps that carry no start-up, evaluation or checkpoint."""

    typical_s: float
    low_s: float  # 5th percentile
    high_s: float  # 95th percentile
    mean_s: float
    steps: int
    trend_share: float | None  # change of the typical time from the first third to the last
    first_third_s: float | None
    last_third_s: float | None
    jittery: bool  # many steps are far above the typical one, without a cause in the log
    clock_resolution_s: float | None  # set if the spread is only the clock's own steps
    includes_evaluation: bool | None  # whether printed times include the evaluation; None: unknown
    source: TimeSource
    throughput_tok_s: float | None
    tok_s_per_device: bool = False  # the throughput is one device's
    unit: Literal["step", "epoch"] = "step"  # what the times are those of

    def text(self) -> Said:
        return Phrases(
            self._typical(),
            self._throughput(),
            self.clock_resolution_s is not None
            and self._shows_a_range()
            and Message("The spread is only that of its clock, which ticks every {clock_resolution_s:duration}."),
            self.jittery and Message("Many steps are far slower, and the log shows no cause."),
            self.trend_share is not None
            and self.trend_share < -WORTH_SAYING
            and Message("Steps have become {share:percent} faster since the beginning.", share=-self.trend_share),
            SOURCES.get(self.source),
            self.includes_evaluation is False and Message("Printed times leave the evaluations out."),
        )

    def _typical(self) -> Message:
        ends = self.low_s, self.high_s
        if self.unit == "epoch":
            return Message("An epoch takes {typical_s:duration} (nine in ten take {range:durations}).", range=ends)
        if self.steps < FEW:
            return Message("A normal step takes {typical_s:duration}, going by the few that the log shows.")
        if self._looks_constant():
            return Message("A normal step takes {typical_s:duration}, with hardly any spread.")
        return Message("A normal step takes {typical_s:duration} (nine in ten take {range:durations}).", range=ends)

    def _looks_constant(self) -> bool:
        return _written(self.low_s) == _written(self.high_s)

    def _shows_a_range(self) -> bool:
        return (self.unit == "epoch" or self.steps >= FEW) and not self._looks_constant()

    def _throughput(self) -> Said:
        if not self.throughput_tok_s:
            return None
        if self.tok_s_per_device:
            return Message("That is {throughput_tok_s:large} tokens/s on each device.")
        return Message("That is {throughput_tok_s:large} tokens/s.")


class NoNormalStep(Finding):
    """Every printed time is that of a step with an evaluation; `step` is the last one."""

    step: int
    time_s: float

    TEXT = Message(
        "How long a normal step takes is unknown: the log shows only steps with an evaluation, and "
        "their times include it (step {step:plain}: {time_s:duration})."
    )


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
            return Plural(
                "{causes}: {n} slow step, every {period_steps} steps, {typical_s:duration} each "
                "({times_slower:significant2}× a normal step), "
                "{extra_total_s:duration} more than normal steps would take.",
                "{causes}: {n} slow steps, every {period_steps} steps, {typical_s:duration} each "
                "({times_slower:significant2}× a normal step), "
                "{extra_total_s:duration} more than normal steps would take.",
                self.count,
                causes=causes,
            )
        return Plural(
            "{causes}: {n} slow step, {typical_s:duration} each ({times_slower:significant2}× a normal step), "
            "{extra_total_s:duration} more than normal steps would take.",
            "{causes}: {n} slow steps, {typical_s:duration} each ({times_slower:significant2}× a normal step), "
            "{extra_total_s:duration} more than normal steps would take.",
            self.count,
            causes=causes,
        )

    def _epochs(self, causes: Phrases) -> Message:
        if self.count == 1:
            return Message(
                "{causes}: epoch {first_step:plain} took {typical_s:duration} "
                "({times_slower:significant2}× a normal epoch).",
                causes=causes,
            )
        return Plural(
            "{causes}: {n} slow epoch, {typical_s:duration} each ({times_slower:significant2}× a normal epoch), "
            "{extra_total_s:duration} more than normal epochs would take.",
            "{causes}: {n} slow epochs, {typical_s:duration} each ({times_slower:significant2}× a normal epoch), "
            "{extra_total_s:duration} more than normal epochs would take.",
            self.count,
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


class PhaseCost(Finding):
    """The total cost of a phase, including what no line shows; `share` is of the run's time so far."""

    phase: Literal["evaluation", "checkpoint", "startup", "sample"]
    count: int
    each_s: float
    total_s: float
    share: float
    with_evaluation: bool = False  # the start-up holds an evaluation, and no later one tells the two apart

    def text(self) -> Said:
        match self.phase:
            case "evaluation":
                return Plural(
                    "{n} evaluation took {total_s:duration}, {share:percent} of the time so far.",
                    "{n} evaluations of {each_s:duration}: {total_s:duration}, {share:percent} of the time so far.",
                    self.count,
                )
            case "checkpoint":
                return Plural(
                    "{n} checkpoint took {total_s:duration}, {share:percent} of the time so far.",
                    "{n} checkpoints of {each_s:duration}: {total_s:duration}, {share:percent} of the time so far.",
                    self.count,
                )
            case "sample":
                return Plural(
                    "{n} sample took {total_s:duration}, {share:percent} of the time so far.",
                    "{n} samples of {each_s:duration}: {total_s:duration}, {share:percent} of the time so far.",
                    self.count,
                )
            case "startup" if self.with_evaluation:
                return Message(
                    "Start-up and the first evaluation together: {total_s:duration}, {share:percent} of the time so "
                    "far."
                )
            case "startup":
                return Message("Start-up: {total_s:duration}, {share:percent} of the time so far.")


class HiddenEvaluations(Finding):
    """Evaluations whose cost no printed line shows, because log_interval does not divide eval_interval."""

    hidden: int
    count: int
    log_interval: int
    eval_interval: int

    def text(self) -> Said:
        return Plural(
            "Of {count} evaluations, {n} cannot be seen in the times: {log_interval} does not divide {eval_interval}, "
            "so its step is not printed. It costs as much as the others.",
            "Of {count} evaluations, {n} cannot be seen in the times: {log_interval} does not divide {eval_interval}, "
            "so their steps are not printed. They cost as much as the others.",
            self.hidden,
            log_interval=Verbatim("log_interval={log_interval:plain}"),
            eval_interval=Verbatim("eval_interval={eval_interval:plain}"),
        )


class SlowStepsNormal(Verdict, tone="good"):
    """All slow steps are explained by what the trainer does besides training, evaluations among it."""

    steps: tuple[int, ...]  # with an evaluation, but for the first
    saves: Literal["always", "perhaps", "never"]  # whether a checkpoint is part of the times of those steps
    first_step: int | None  # with an evaluation and the start-up
    typical_s: float  # of a normal step

    def title(self) -> Message:
        one = len(self.steps) + (self.first_step is not None) == 1
        return Message("The slow step is normal") if one else Message("The slow steps are normal")

    def text(self) -> Said:
        return Phrases(
            bool(self.steps) and self._steps(),
            self.first_step is not None
            and Message("The time printed at step {first_step:plain} is start-up + first evaluation + training step."),
            Message("The training step alone takes {typical_s:duration}, like all others."),
        )

    def _steps(self) -> Message:
        match self.saves:
            case "always":
                return Message("The time printed at step {steps:steps} is evaluation + checkpoint + training step.")
            case "perhaps":
                return Message(
                    "The time printed at step {steps:steps} is evaluation + training step, and checkpoint where one is "
                    "written."
                )
            case "never":
                return Message("The time printed at step {steps:steps} is evaluation + training step.")


class SlowingDown(Verdict):
    """Steps take longer at the end than at the beginning, and nothing in the log says that they do more."""

    first_third_s: float
    last_third_s: float
    share: float
    since_step: int | None = None  # set where the change was sudden
    unit: Literal["step", "epoch"] = "step"

    TITLE = Message("Slowing down")

    def text(self) -> Said:
        if self.unit == "epoch":
            return Message(
                "Epochs take {last_third_s:duration} by now, {share:percent} longer than at the beginning "
                "({first_third_s:duration}). The log does not show why."
            )
        if self.since_step is not None:
            return Message(
                "Since about step {since_step:plain} steps take {last_third_s:duration}, {share:percent} longer than "
                "before ({first_third_s:duration}). The change was sudden: each step may do more work, or something "
                "else may use the machine."
            )
        if self.confidence == "hint":
            return Message(
                "Steps seem to take longer by now: {last_third_s:duration}, at the beginning {first_third_s:duration} "
                "({share:percent} more). There are too few of them, or they vary too much, to be sure."
            )
        return Message(
            "Steps take {last_third_s:duration} by now, {share:percent} longer than at the beginning "
            "({first_third_s:duration}). The log does not show why."
        )


class WaitingForData(Verdict):
    """A noticeable part of a step is spent waiting for its data."""

    data_s: float
    step_s: float  # with the waiting
    share: float
    records: int

    TITLE = Message("Waiting for data")
    TEXT = Message("{share:percent} of each step is spent waiting for data: {data_s:duration} of {step_s:duration}.")


class MemoryGrowth(Verdict):
    """Memory grows steadily, beyond what the first steps need."""

    first_gb: float
    last_gb: float
    first_step: int
    last_step: int
    share: float

    TITLE = Message("Memory keeps growing")
    TEXT = Message(
        "Memory grew from {first_gb:number2} GB at step {first_step:plain} to {last_gb:number2} GB at "
        "step {last_step:plain}, by {share:percent}, and has not levelled off."
    )


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
        return Phrases(
            Message(
                "About {expected_s:duration} left ({range:durations}): {parts}.",
                range=(self.low_s, self.high_s),
                parts=self._parts(),
            ),
            self._evaluations(),
            bool(self.printed_s) and self._printed(),
        )

    def _parts(self) -> Phrases:
        if self.unit == "epoch":
            steps = Plural("{n} epoch", "{n} epochs", self.steps_left)
        else:
            steps = Plural("{n} step", "{n} steps", self.steps_left)
        evaluations = Plural("{n} evaluation", "{n} evaluations", self.evals_left)
        checkpoints = Plural("{n} checkpoint", "{n} checkpoints", self.checkpoints_left)
        counted = (steps, self.step_s), (evaluations, self.eval_each_s), (checkpoints, self.checkpoint_each_s)
        parts = (
            Message("{count} × {each:duration}", count=count, each=each) for count, each in counted if count.n and each
        )
        return Phrases(*parts, separator=" + ")

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
        times = Phrases(*(scenario.text() for scenario in self.scenarios), separator=" · ")
        return Message("At other step times: {times}.", times=times) if times else None


class NoEta(Finding):
    """Why the time left cannot be estimated; `thousand_s` still tells how long 1,000 steps take."""

    reason: Literal["total_unknown", "no_times", "no_normal_step", "not_finite"]
    step_s: float | None
    evals_in_thousand: int = 0  # evaluations that come within 1,000 steps
    eval_each_s: float | None = None

    @property
    def steps_s(self) -> float:
        return 1000 * (self.step_s or 0.0)

    @property
    def thousand_s(self) -> float:
        return self.steps_s + self.evals_in_thousand * (self.eval_each_s or 0.0)

    def text(self) -> Said:
        return Phrases(self._why(), self._thousand())

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
            return Plural(
                "1,000 more steps take about {thousand_s:duration}: {steps_s:duration} of steps and {n} evaluation of "
                "{eval_each_s:duration}.",
                "1,000 more steps take about {thousand_s:duration}: {steps_s:duration} of steps and {n} evaluations of "
                "{eval_each_s:duration}.",
                self.evals_in_thousand,
            )
        return None if self.step_s is None else Message("1,000 more steps take about {thousand_s:duration}.")
