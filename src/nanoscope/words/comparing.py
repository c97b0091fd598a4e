"""Several runs side by side: names of the rows, and why the runs differ."""

from nanoscope.analysis.findings import ComparisonRow, ConfigDifference, Continued, Explanation, RowReason
from nanoscope.words.language import NOTHING, Language


def measure_name(row: ComparisonRow, language: Language) -> str:
    """What the row compares, with the point at which it is taken."""
    say = language.say
    match row.measure:
        case "last_step":
            return say("last step")
        case "last_train_loss":
            return say("last training loss")
        case "last_val_loss":
            return say("last validation loss")
        case "best_val_loss":
            return say("best validation loss")
        case "val_at_equal_steps":
            return say("validation at step {at}", at=language.number(row.at))
        case "val_at_equal_tokens":
            return say("validation at {at} tokens", at=language.large(row.at))
        case "val_at_equal_time":
            return say("validation after {at}", at=language.duration(row.at))
        case "time_to_loss":
            return say("time to loss {at}", at=language.significant(row.at))
        case "step_time":
            return say("normal step")
        case "throughput":
            return say("tokens/s")
        case "total_time":
            return say("time in all")
        case "mfu":
            return say("MFU")


def row_value(row: ComparisonRow, value: float | None, language: Language) -> str:
    """One run's value of a row, in the row's unit."""
    if value is None:
        return NOTHING
    match row.measure:
        case "last_step":
            return language.number(value)
        case "time_to_loss" | "step_time" | "total_time":
            return language.duration(value)
        case "throughput":
            return language.large(value)
        case "mfu":
            return language.percent(value)
        case _:
            return language.loss(value)


def row_reason(reason: RowReason, language: Language) -> str:
    """Why the values of a row differ, in a few words."""
    say = language.say
    match reason:
        case "fewer_steps":
            return say("one run did fewer steps")
        case "other_model":
            return say("the models differ")
        case "other_batch":
            return say("tokens a step differ")
        case "other_data":
            return say("the data differ")
        case "other_settings":
            return say("settings differ")
        case "overfitting":
            return say("one run is overfitting")
        case "faster_machine":
            return say("one machine is faster")
        case "same":
            return say("the same")
        case "within_noise":
            return say("within the noise")
        case "not_reached":
            return say("one run never got there")
        case "not_in_log":
            return say("a log does not tell")


def who_leads(row: ComparisonRow, language: Language, names: tuple[str, ...]) -> str:
    """Which run is ahead in the two measures that people ask about first; nothing for the other rows."""
    if row.best is None or row.measure not in ("best_val_loss", "step_time"):
        return ""
    values = {"run": names[row.best], "value": row_value(row, row.values[row.best], language)}
    if row.measure == "step_time":
        return language.say("Fastest step: {run} ({value}).", **values)
    return language.say("Best validation loss: {run} ({value}).", **values)


def comparison_row(row: ComparisonRow, language: Language, names: tuple[str, ...]) -> str:
    values = "; ".join(
        f"{name} {row_value(row, value, language)}" for name, value in zip(names, row.values, strict=True)
    )
    return language.say(
        "{measure}: {values} ({reason}).",
        measure=measure_name(row, language),
        values=values,
        reason=row_reason(row.reason, language),
    )


def config_difference(finding: ConfigDifference, language: Language, names: tuple[str, ...]) -> str:
    values = (NOTHING if value is None else str(value) for value in finding.values)
    return language.isolate(f"{finding.key}: {' | '.join(values)}")


def explanation(finding: Explanation, language: Language, names: tuple[str, ...]) -> str:
    """What explains that two runs end at different losses, and what only seems to."""
    say = language.say
    values = {"run": names[finding.run], "other": names[finding.other]}
    match finding.reason, finding.explains:
        case "fewer_steps", True:
            return say("{run} did fewer steps than {other}: it has simply been trained less.", **values)
        case "fewer_steps", False:
            return say(
                "The number of steps alone does not explain it: at equal steps {run} and {other} differ as well.",
                **values,
            )
        case "other_model", True:
            return say("{run} trains another model than {other}; a larger one reaches a lower loss.", **values)
        case "other_model", False:
            return say("It is not the model: {run} and {other} train the same one.", **values)
        case "other_batch", True:
            return say("{run} sees another number of tokens in each step than {other}.", **values)
        case "other_batch", False:
            return say("It is not the batch: {run} and {other} see as many tokens in each step.", **values)
        case "other_data", True:
            return say("{run} and {other} learn from different data: their losses cannot be compared.", **values)
        case "other_data", False:
            return say("It is not the data: {run} and {other} learn from the same.", **values)
        case "overfitting", True:
            return say(
                "{run} is past its best: its validation loss rises while its training loss falls, "
                "so its low training loss is no merit.",
                **values,
            )
        case "overfitting", False:
            return say("It is not overfitting: the validation loss of {run} is not past its best.", **values)
        case "device", True:
            return say("{run} and {other} ran on different devices.", **values)
        case "device", False:
            return say(
                "It is not the device: with the same settings and as many steps a CPU learns as well as a GPU, "
                "only more slowly.",
                **values,
            )
        case "precision", True:
            return say("{run} computes in another precision than {other}.", **values)
        case "precision", False:
            return say("It is not the precision: it changes the loss far less than this.", **values)
        case "noise", True:
            return say("The difference between {run} and {other} is no larger than their noise.", **values)
        case "noise", False:
            return say("It is not noise: {run} and {other} differ by more than that.", **values)
    return ""


def continued(finding: Continued, language: Language, names: tuple[str, ...]) -> str:
    """Where the shorter run would be at the longer one's last step."""
    values = {"run": names[finding.run], "step": str(finding.to_step)}
    if finding.low is not None and finding.high is not None:
        level = language.between(language.number(finding.low, 2), language.number(finding.high, 2))
        return language.say(
            "Continued to step {step}, {run} would reach a validation loss of about {level}.",
            level=level,
            **values,
        )
    text = language.say("Where {run} would be at step {step} cannot be told", **values)
    return text + _why_not(finding, language)


def _why_not(finding: Continued, language: Language) -> str:
    say = language.say
    match finding.why_not:
        case "overfitting":
            return say(": it is overfitting, and more steps would make its validation loss worse.")
        case "too_short":
            return say(": it is too short.")
        case "no_evaluations":
            return say(": it has too few evaluations.")
        case "diverged":
            return say(": it has diverged.")
        case "schedule_ended":
            return say(": its learning rate had already run down, and a longer schedule changes the whole curve.")
        case None:
            return say(".")
