"""Where the time goes, and how much of it is left."""

from operator import attrgetter
from typing import Any

from nanoscope.analysis import findings as f
from nanoscope.words.language import Language
from nanoscope.words.templates import By, Each, First, Joined, Plural, Say, Sentences, Verbatim, Words, has, known

WORTH_SAYING = 0.1  # a smaller trend is not mentioned, nor is a naive estimate called wrong
FEW = 5  # steps say little about their spread
ENGLISH = Language("en")


def _low_to_high(finding: Any) -> tuple[float, float]:
    return finding.low_s, finding.high_s


def _looks_constant(step: f.NormalStep) -> bool:
    return ENGLISH.duration(step.low_s) == ENGLISH.duration(step.high_s)


def _shows_a_range(step: f.NormalStep) -> bool:
    return (step.unit == "epoch" or step.steps >= FEW) and not _looks_constant(step)


def _is_faster(step: f.NormalStep) -> bool:
    return step.trend_share is not None and step.trend_share < -WORTH_SAYING


def _leaves_out_most(eta: f.Eta) -> bool:
    between = eta.expected_s - eta.steps_left * eta.step_s
    return between > (eta.expected_s - eta.naive_s) / 2


def _part(count: str, seconds_each: str, counted: Words) -> Say:
    return Say("{count} × {each:duration}", has(count, seconds_each), count=counted, each=attrgetter(seconds_each))


# fmt: off
CAUSES: dict[f.Cause, Words] = {
    "startup": Say("start-up"),
    "evaluation": Say("evaluation"),
    "checkpoint": Say("checkpoint"),
    "resume": Say("resuming"),
    "periodic": Say("regular extra work"),
    "stall": Say("unexplained"),
}
_CAUSES = Each("causes", CAUSES, " + ")

# What the trainer does in that time. The conditions look at the causes alone; 'compile' or 'no compile' is there if the
# log says so, 'inferred' if it leaves the evaluations out.
REASONS = First(
    Say("This holds the first evaluation and what happens only once: loading the first data, warming up the device, "
        "compiling the model.", lambda c: {"startup", "evaluation", "compile"} <= {*c}),
    Say("This holds the first evaluation and what happens only once: loading the first data, warming up the device.",
        lambda c: {"startup", "evaluation", "no compile"} <= {*c}),
    Say("This holds the first evaluation and what happens only once: loading the first data, warming up the device, "
        "and compiling the model if that is on.", lambda c: {"startup", "evaluation"} <= {*c}),
    Say("This includes compiling the model, which happens once.", lambda c: "startup" in c and "compile" in c),
    Say("This includes start-up, which happens once.", lambda c: "startup" in c),
    Say("After a restart the first step pays for start-up again.", lambda c: "resume" in c),
    Say("The log leaves the evaluations out, but this trainer evaluates at such regular distances, and its printed "
        "times include the evaluation and the checkpoint.", lambda c: "evaluation" in c and "inferred" in c),
    Say("Before these lines the trainer measures the losses over many batches and writes the model to disk; "
        "the training step itself is as fast as any other.", lambda c: "evaluation" in c and "checkpoint" in c),
    Say("Before these lines the trainer measures the losses over many batches; "
        "the training step itself is as fast as any other.", lambda c: "evaluation" in c),
    Say("The model is written to disk before these lines.", lambda c: "checkpoint" in c),
    Say("They come at regular intervals: work that the trainer does now and then.", lambda c: "periodic" in c),
    Say("The usual reasons are another program, the disk, heat, or a machine that went to sleep; the log does not show "
        "which."),
)

NAIVE_ETA = First(
    Say("Last printed time × steps left would be {naive_s:duration3}: too much, because that line is slower than a "
        "normal step.", lambda eta: eta.naive_s > eta.expected_s * (1 + WORTH_SAYING)),
    Say("Last printed time × steps left would be {naive_s:duration3}: too little, because it leaves out the "
        "evaluations and checkpoints to come.",
        lambda eta: eta.naive_s < eta.expected_s * (1 - WORTH_SAYING) and _leaves_out_most(eta)),
    Say("Last printed time × steps left would be {naive_s:duration3}: too little, because that line was faster than "
        "{step_s:duration}, the step time used above.", lambda eta: eta.naive_s < eta.expected_s * (1 - WORTH_SAYING)),
    Say("Last printed time × steps left gives about the same: {naive_s:duration3}."),
)

SCENARIO = Say("{remaining_s:rough} at {step_s:duration} a step")
OTHER_STEP_TIMES = Say("At other step times: {times}.", has("scenarios"),
                       times=Each("scenarios", SCENARIO, " · "))

_ETA_PARTS = Joined(
    " + ",
    _part("steps_left", "step_s", By("unit", step=Plural("{n} step", "{n} steps", "steps_left"),
                                     epoch=Plural("{n} epoch", "{n} epochs", "steps_left"))),
    _part("evals_left", "eval_each_s", Plural("{n} evaluation", "{n} evaluations", "evals_left")),
    _part("checkpoints_left", "checkpoint_each_s", Plural("{n} checkpoint", "{n} checkpoints", "checkpoints_left")),
)

MESSAGES: dict[type[f.Finding], Words] = {
    f.NormalStep: Sentences(
        First(
            Say("An epoch takes {typical_s:duration} (nine in ten take {range:durations}).",
                lambda step: step.unit == "epoch", range=_low_to_high),
            Say("A normal step takes {typical_s:duration}, going by the few that the log shows.",
                lambda step: step.steps < FEW),
            Say("A normal step takes {typical_s:duration}, with hardly any spread.", _looks_constant),
            Say("A normal step takes {typical_s:duration} (nine in ten take {range:durations}).", range=_low_to_high),
        ),
        First(
            Say("That is {throughput_tok_s:large} tokens/s on each device.",
                has("throughput_tok_s", "tok_s_per_device")),
            Say("That is {throughput_tok_s:large} tokens/s.", has("throughput_tok_s")),
        ),
        Say("The spread is only that of its clock, which ticks every {clock_resolution_s:duration}.",
            lambda step: step.clock_resolution_s is not None and _shows_a_range(step)),
        Say("Many steps are far slower, and the log shows no cause.", has("jittery")),
        Say("Steps have become {share:percent} faster since the beginning.", _is_faster,
            share=lambda step: -step.trend_share),
        By(
            "source",
            cumulative=Say("The log prints a running total; step times are its differences."),
            timestamps=Say("The log prints no step times; these come from its timestamps."),
            progress_bar=Say("The log prints no step times; these come from its progress bar."),
        ),
        Say("Printed times leave the evaluations out.", lambda step: step.includes_evaluation is False),
    ),
    f.NoNormalStep: Say("How long a normal step takes is unknown: the log shows only steps with an evaluation, and "
                        "their times include it (step {step:plain}: {time_s:duration})."),
    f.SlowStepsNormal: Sentences(
        By(
            "saves",
            always=Say("The time printed at step {steps:steps} is evaluation + checkpoint + training step.",
                       has("steps")),
            perhaps=Say("The time printed at step {steps:steps} is evaluation + training step, and checkpoint where "
                        "one is written.", has("steps")),
            never=Say("The time printed at step {steps:steps} is evaluation + training step.", has("steps")),
        ),
        Say("The time printed at step {first_step:plain} is start-up + first evaluation + training step.",
            known("first_step")),
        Say("The training step alone takes {typical_s:duration}, like all others."),
    ),
    f.SlowRecord: First(
        Say("Slow: {extra_s:duration} more than a normal step, and the log shows no cause.",
            lambda record: record.causes == ("stall",)),
        Say("Slow: of these {time_s:duration}, {extra_s:duration} are not training but {causes}.", causes=_CAUSES),
    ),
    f.SlowGroup: First(
        Say("{causes}: epoch {first_step:plain} took {typical_s:duration} "
            "({times_slower:significant2}× a normal epoch).",
            lambda group: group.unit == "epoch" and group.count == 1, causes=_CAUSES),
        Plural("{causes}: {n} slow epoch, {typical_s:duration} each ({times_slower:significant2}× a normal epoch), "
               "{extra_total_s:duration} more than normal epochs would take.",
               "{causes}: {n} slow epochs, {typical_s:duration} each ({times_slower:significant2}× a normal epoch), "
               "{extra_total_s:duration} more than normal epochs would take.",
               "count", lambda group: group.unit == "epoch", causes=_CAUSES),
        Say("{causes}: step {first_step:plain} took {typical_s:duration} ({times_slower:significant2}× a normal step).",
            lambda group: group.count == 1, causes=_CAUSES),
        Plural("{causes}: {n} slow step, every {period_steps} steps, {typical_s:duration} each "
               "({times_slower:significant2}× a normal step), "
               "{extra_total_s:duration} more than normal steps would take.",
               "{causes}: {n} slow steps, every {period_steps} steps, {typical_s:duration} each "
               "({times_slower:significant2}× a normal step), "
               "{extra_total_s:duration} more than normal steps would take.",
               "count", lambda group: (group.period_steps or 1) > 1, causes=_CAUSES),
        Plural("{causes}: {n} slow step, {typical_s:duration} each ({times_slower:significant2}× a normal step), "
               "{extra_total_s:duration} more than normal steps would take.",
               "{causes}: {n} slow steps, {typical_s:duration} each ({times_slower:significant2}× a normal step), "
               "{extra_total_s:duration} more than normal steps would take.",
               "count", causes=_CAUSES),
    ),
    f.PhaseCost: By(
        "phase",
        evaluation=Plural(
            "{n} evaluation took {total_s:duration}, {share:percent} of the time so far.",
            "{n} evaluations of {each_s:duration}: {total_s:duration}, {share:percent} of the time so far.", "count"),
        checkpoint=Plural(
            "{n} checkpoint took {total_s:duration}, {share:percent} of the time so far.",
            "{n} checkpoints of {each_s:duration}: {total_s:duration}, {share:percent} of the time so far.", "count"),
        startup=First(
            Say("Start-up and the first evaluation together: {total_s:duration}, {share:percent} of the time so far.",
                has("with_evaluation")),
            Say("Start-up: {total_s:duration}, {share:percent} of the time so far."),
        ),
        sample=Plural(
            "{n} sample took {total_s:duration}, {share:percent} of the time so far.",
            "{n} samples of {each_s:duration}: {total_s:duration}, {share:percent} of the time so far.", "count"),
    ),
    f.HiddenEvaluations: Plural(
        "Of {count} evaluations, {n} cannot be seen in the times: {log_interval} does not divide {eval_interval}, "
        "so its step is not printed. It costs as much as the others.",
        "Of {count} evaluations, {n} cannot be seen in the times: {log_interval} does not divide {eval_interval}, "
        "so their steps are not printed. They cost as much as the others.",
        "hidden",
        log_interval=Verbatim("log_interval={log_interval:plain}"),
        eval_interval=Verbatim("eval_interval={eval_interval:plain}"),
    ),
    f.Scenario: SCENARIO,
    f.Eta: First(
        Say("Nothing is left to do: the run is complete.", lambda eta: eta.steps_left <= 0),
        Sentences(
            Say("About {expected_s:duration} left ({range:durations}): {parts}.", range=_low_to_high, parts=_ETA_PARTS),
            By(
                "evaluations",
                none=Say("Evaluations are not included: the logged times don't cover them.", has("evals_left")),
                left_out=Say("Evaluations are not included, except in the upper end of the range: "
                             "the log does not show how often they come."),
                forecast=Say("No evaluation has run yet: its cost is estimated from a short measurement "
                             "before the first iteration.", has("evals_left")),
                likely=Say("What an evaluation costs is estimated from the first step, which also holds the start-up.",
                           has("evals_left")),
            ),
            First(
                Say("The trainer's own estimate is {printed_s:duration3}; the times in the log do not support it.",
                    has("printed_s", "printed_disagrees")),
                Say("The trainer's own estimate is {printed_s:duration3}.", has("printed_s")),
            ),
        ),
    ),
    f.NoEta: Sentences(
        By(
            "reason",
            total_unknown=Say("Can't estimate the time remaining: the log doesn't say how many steps the run will take "
                              "({option}).", option="--max_iters N"),
            no_normal_step=Say("Can't estimate the time remaining: the log shows only steps with an evaluation."),
            no_times=Say("Can't estimate the time remaining: the log has no step times."),
            not_finite=Say("The time remaining is not estimated: the loss is not a number."),
        ),
        First(
            Plural("1,000 more steps take about {thousand_s:duration}: {steps_s:duration} of steps and {n} evaluation "
                   "of {eval_each_s:duration}.",
                   "1,000 more steps take about {thousand_s:duration}: {steps_s:duration} of steps and {n} evaluations "
                   "of {eval_each_s:duration}.", "evals_in_thousand", has("evals_in_thousand")),
            Say("1,000 more steps take about {thousand_s:duration}.", known("step_s")),
        ),
    ),
    f.SlowingDown: First(
        Say("Epochs take {last_third_s:duration} by now, {share:percent} longer than at the beginning "
            "({first_third_s:duration}). The log does not show why.", lambda verdict: verdict.unit == "epoch"),
        Say("Since about step {since_step:plain} steps take {last_third_s:duration}, {share:percent} longer than "
            "before ({first_third_s:duration}). The change was sudden: each step may do more work, or something else "
            "may use the machine.", known("since_step")),
        Say("Steps seem to take longer by now: {last_third_s:duration}, at the beginning {first_third_s:duration} "
            "({share:percent} more). There are too few of them, or they vary too much, to be sure.",
            lambda verdict: verdict.confidence == "hint"),
        Say("Steps take {last_third_s:duration} by now, {share:percent} longer than at the beginning "
            "({first_third_s:duration}). The log does not show why."),
    ),
    f.WaitingForData: Say("{share:percent} of each step is spent waiting for data: {data_s:duration} of "
                          "{step_s:duration}."),
    f.MemoryGrowth: Say("Memory grew from {first_gb:number2} GB at step {first_step:plain} to {last_gb:number2} GB at "
                        "step {last_step:plain}, by {share:percent}, and has not levelled off."),
}
# fmt: on


def causes_name(causes: tuple[f.Cause, ...], language: Language) -> str:
    """Several causes of one delay, each in a word or two."""
    return " + ".join(CAUSES[cause].write(None, language) for cause in causes)
