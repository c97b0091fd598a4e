"""Where the time goes and how much of it is left."""

from nanoscope.analysis.findings import (
    Cause,
    Eta,
    HiddenEvaluations,
    NoEta,
    NormalStep,
    PhaseCost,
    Scenario,
    SlowGroup,
    SlowStep,
)
from nanoscope.words.language import HOUR_S, Language

# A trend below this is not worth a sentence, nor is a naive figure nearer to the estimate.
WORTH_SAYING = 0.1
FELT = 0.03  # a change of pace below it is not worth a sentence either


def cause_name(cause: Cause, language: Language) -> str:
    """The cause in a word or two."""
    say = language.say
    match cause:
        case "startup":
            return say("start-up")
        case "evaluation":
            return say("evaluation")
        case "checkpoint":
            return say("checkpoint")
        case "resume":
            return say("resuming")
        case "periodic":
            return say("regular extra work")
        case "stall":
            return say("no cause in the log")


def causes_name(causes: tuple[Cause, ...], language: Language) -> str:
    """Several causes of the same delay."""
    return " + ".join(cause_name(cause, language) for cause in causes)


def why(causes: tuple[Cause, ...], language: Language) -> str:
    """What the trainer does in that time."""
    say = language.say
    if "startup" in causes:
        return say("The first step also compiles, reserves memory and warms up; this happens once.")
    if "resume" in causes:
        return say("After a restart the first step pays for start-up again.")
    if "evaluation" in causes and "checkpoint" in causes:
        return say(
            "Before these lines the trainer measures the losses over many batches and writes the model to disk; "
            "the training step itself is as fast as any other."
        )
    if "evaluation" in causes:
        return say(
            "Before these lines the trainer measures the losses over many batches; "
            "the training step itself is as fast as any other."
        )
    if "checkpoint" in causes:
        return say("The model is written to disk before these lines.")
    if "periodic" in causes:
        return say("They come at equal distances: work that the trainer does now and then.")
    return say("Another program, the disk, heat, or a machine that went to sleep are the usual reasons.")


def normal_step(finding: NormalStep, language: Language) -> str:
    say, time = language.say, language.duration
    typical, low, high = time(finding.typical_s), time(finding.low_s), time(finding.high_s)
    if low == high:
        sentences = [say("A normal step takes {typical}, with hardly any spread.", typical=typical)]
    else:
        spread = language.between(low, high)
        sentences = [say("A normal step takes {typical} (nine in ten take {range}).", typical=typical, range=spread)]
    if finding.throughput_tok_s:
        sentences.append(say("That is {rate} tokens/s.", rate=language.large(finding.throughput_tok_s)))
    if finding.clock_resolution_s is not None:
        resolution = time(finding.clock_resolution_s)
        sentences.append(say("The spread is only that of its clock, which ticks every {tick}.", tick=resolution))
    if finding.jittery:
        sentences.append(
            say("Many steps are far slower for no cause in the log: the machine is busy, or data comes late.")
        )
    if finding.trend_share is not None and not finding.slowing_down and finding.trend_share < -WORTH_SAYING:
        share = language.percent(-finding.trend_share)
        sentences.append(say("Steps have become {share} faster since the beginning.", share=share))
    return " ".join([*sentences, *_source(finding, language)])


def _source(finding: NormalStep, language: Language) -> list[str]:
    """How the times were come by, where the log does not simply print them."""
    say = language.say
    sentences = []
    match finding.source:
        case "cumulative":
            sentences.append(say("The log prints a running total; step times are its differences."))
        case "timestamps":
            sentences.append(say("The log prints no step times; these come from its timestamps."))
        case "progress_bar":
            sentences.append(say("The log prints no step times; these come from its progress bar."))
        case "throughput":
            sentences.append(say("The log prints no step times; these come from its tokens per second."))
        case "printed":
            pass
    if finding.includes_evaluation is False:
        sentences.append(say("Printed times leave the evaluations out."))
    return sentences


def slow_group(finding: SlowGroup, language: Language) -> str:
    values = {
        "causes": causes_name(finding.causes, language),
        "each": language.duration(finding.typical_s),
        "times": language.significant(finding.times_slower, 2),
        "total": language.duration(finding.extra_total_s),
        "step": str(finding.first_step),
    }
    if finding.count == 1:
        return language.say("{causes}: step {step} took {each} ({times}× a normal step).", **values)
    if finding.period_steps is not None:
        return language.plural(
            "{causes}: {n} slow step, every {period} steps, {each} each ({times}× a normal step), {total} in all.",
            "{causes}: {n} slow steps, every {period} steps, {each} each ({times}× a normal step), {total} in all.",
            finding.count,
            period=finding.period_steps,
            **values,
        )
    return language.plural(
        "{causes}: {n} slow step, {each} each ({times}× a normal step), {total} in all.",
        "{causes}: {n} slow steps, {each} each ({times}× a normal step), {total} in all.",
        finding.count,
        **values,
    )


def slow_step(finding: SlowStep, language: Language) -> str:
    time, extra = language.duration(finding.time_s), language.duration(finding.extra_s)
    if finding.causes in ((), ("stall",)):
        return language.say("Slow: {extra} more than a normal step, and the log shows no cause.", extra=extra)
    return language.say(
        "Slow: of these {time}, {extra} are not training but {causes}.",
        time=time,
        extra=extra,
        causes=causes_name(finding.causes, language),
    )


def phase_cost(finding: PhaseCost, language: Language) -> str:
    values = {
        "each": language.duration(finding.each_s),
        "total": language.duration(finding.total_s),
        "share": language.percent(finding.share),
    }
    match finding.phase:
        case "evaluation":
            return language.plural(
                "{n} evaluation of {each}: {total}, {share} of the time so far.",
                "{n} evaluations of {each}: {total}, {share} of the time so far.",
                finding.count,
                **values,
            )
        case "checkpoint":
            return language.plural(
                "{n} checkpoint of {each}: {total}, {share} of the time so far.",
                "{n} checkpoints of {each}: {total}, {share} of the time so far.",
                finding.count,
                **values,
            )
        case "startup":
            return language.say("Start-up: {total}, {share} of the time so far.", **values)
        case "sample":
            return language.plural(
                "{n} sample of {each}: {total}, {share} of the time so far.",
                "{n} samples of {each}: {total}, {share} of the time so far.",
                finding.count,
                **values,
            )


def hidden_evaluations(finding: HiddenEvaluations, language: Language) -> str:
    return language.plural(
        "Of {count} evaluations, {n} cannot be seen in the times: {log_interval} does not divide {eval_interval}, "
        "so its step is not printed. It costs as much as the others.",
        "Of {count} evaluations, {n} cannot be seen in the times: {log_interval} does not divide {eval_interval}, "
        "so their steps are not printed. They cost as much as the others.",
        finding.hidden,
        count=finding.count,
        log_interval=f"log_interval={finding.log_interval}",
        eval_interval=f"eval_interval={finding.eval_interval}",
    )


def eta(finding: Eta, language: Language) -> str:
    """The estimate and what it is made of."""
    time = language.duration
    if finding.steps_left <= 0:
        return language.say("Nothing is left to do: the run is complete.")
    steps = language.plural("{n} step", "{n} steps", finding.steps_left)
    parts = [_times(steps, finding.step_s, language)]
    if finding.evals_left and finding.eval_each_s:
        count = language.plural("{n} evaluation", "{n} evaluations", finding.evals_left)
        parts.append(_times(count, finding.eval_each_s, language))
    if finding.checkpoints_left and finding.checkpoint_each_s:
        count = language.plural("{n} checkpoint", "{n} checkpoints", finding.checkpoints_left)
        parts.append(_times(count, finding.checkpoint_each_s, language))
    return language.say(
        "About {expected} left ({range}): {parts}.",
        expected=time(finding.expected_s),
        range=language.between(time(finding.low_s), time(finding.high_s)),
        parts=" + ".join(parts),
    )


def _times(count: str, each_s: float, language: Language) -> str:
    return language.say("{count} × {each}", count=count, each=language.duration(each_s))


def naive_eta(finding: Eta, language: Language) -> str:
    """The figure that the last line suggests, and why not to trust it."""
    if finding.steps_left <= 0:
        return ""
    naive = language.duration(finding.naive_s, parts=3)
    if finding.naive_s > finding.expected_s * (1 + WORTH_SAYING):
        return language.say(
            "Last printed time × steps left would be {naive}: too much, because that line is slower than a "
            "normal step.",
            naive=naive,
        )
    if finding.naive_s < finding.expected_s * (1 - WORTH_SAYING):
        return language.say(
            "Last printed time × steps left would be {naive}: too little, because it leaves out the evaluations and "
            "checkpoints to come, or caught a fast step.",
            naive=naive,
        )
    return language.say("Last printed time × steps left gives about the same: {naive}.", naive=naive)


def direction(finding: Eta, language: Language) -> str:
    """Whether recent steps get faster or slower."""
    change = abs(finding.moving_average_s - finding.step_s)
    if finding.steps_left <= 0 or finding.direction == "steady" or not change > FELT * finding.step_s:
        return ""
    average = language.duration(finding.moving_average_s)
    lines = finding.moving_average_lines
    if finding.direction == "faster":
        return language.plural(
            "Getting faster: the last {n} line averages {average}.",
            "Getting faster: the last {n} lines average {average}.",
            lines,
            average=average,
        )
    return language.plural(
        "Getting slower: the last {n} line averages {average}.",
        "Getting slower: the last {n} lines average {average}.",
        lines,
        average=average,
    )


def scenario(finding: Scenario, language: Language) -> str:
    parts = 1 if finding.remaining_s < HOUR_S else 2  # '20 min' is as much as a supposition can say
    return language.say(
        "If a step took {step}: {remaining}.",
        step=language.duration(finding.step_s),
        remaining=language.duration(finding.remaining_s, parts),
    )


def no_eta(finding: NoEta, language: Language) -> str:
    match finding.reason:
        case "total_unknown":
            text = language.say(
                "No time left can be given: the log does not say how many steps are planned. Tell it with {option}.",
                option="--max_iters N",
            )
        case "no_times":
            return language.say("No time left can be given: the log has no step times.")
        case "not_finite":
            return language.say("No time left is given: the loss is not a number, so waiting for the end is no use.")
    if finding.step_s is not None:
        text += " " + language.say("A thousand steps take {time}.", time=language.duration(finding.step_s * 1000))
    return text
