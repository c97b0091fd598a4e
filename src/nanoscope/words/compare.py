"""Several runs side by side: the rows of the table, and why the runs differ."""

from types import SimpleNamespace

from nanoscope.analysis import findings as f
from nanoscope.words.language import Language
from nanoscope.words.templates import By, Clauses, First, Say, Words, has, known

MEASURES = By(
    "measure",
    last_step=Say("last step"),
    last_train_loss=Say("last training loss"),
    last_val_loss=Say("last validation loss"),
    best_val_loss=Say("best validation loss"),
    val_at_equal_steps=Say("validation at step {at}"),
    val_at_equal_tokens=Say("validation at {at:large} tokens"),
    val_at_equal_time=Say("validation after {at:duration}"),
    time_to_loss=Say("time to loss {at:significant}"),
    step_time=Say("normal step"),
    throughput=Say("tokens/s"),
    total_time=Say("time in all"),
    mfu=Say("MFU"),
)
# How the values of a row are written; the other measures are losses.
FORMATS: dict[f.RowMeasure, str] = {
    "last_step": "number",
    "time_to_loss": "duration",
    "step_time": "duration",
    "total_time": "duration",
    "throughput": "large",
    "mfu": "percent",
}
ROW_REASONS = By(
    "reason",
    fewer_steps=Say("one run did fewer steps"),
    other_model=Say("the models differ"),
    other_batch=Say("tokens a step differ"),
    other_data=Say("the data differ"),
    other_settings=Say("settings differ"),
    overfitting=Say("one run is overfitting"),
    faster_machine=Say("one machine is faster"),
    same=Say("the same"),
    within_noise=Say("within the noise"),
    not_in_log=Say("a log does not tell"),
)
# Which run is ahead in the two measures that people ask about first.
LEADERS = By(
    "measure",
    step_time=Say("Fastest step: {run} ({value})."),
    best_val_loss=Say("Best validation loss: {run} ({value})."),
)

# fmt: off
MESSAGES: dict[type[f.Finding], Words] = {
    f.Explanation: By(
        "reason",
        fewer_steps=First(
            Say("{run} did fewer steps than {other}: it has simply been trained less.", has("explains")),
            Say("The number of steps alone does not explain it: at equal steps {run} and {other} differ as well."),
        ),
        other_model=Say("{run} trains another model than {other}; a larger one reaches a lower loss."),
        other_batch=Say("{run} sees another number of tokens in each step than {other}."),
        other_data=Say("{run} and {other} learn from different data: their losses cannot be compared."),
        overfitting=Say("{run} is past its best: its validation loss rises while its training loss falls, "
                        "so its low training loss is no merit."),
        device=Say("It is not the device: with the same settings and as many steps a CPU learns as well as a GPU, "
                   "only more slowly."),
        precision=Say("It is not the precision: it changes the loss far less than this."),
        noise=Say("The difference between {run} and {other} is no larger than their noise."),
    ),
    f.Continued: First(
        Say("Continued to step {to_step:plain}, {run} would reach a validation loss of about {level:losses}.",
            known("low"), level=lambda continued: (continued.low, continued.high)),
        Clauses(
            Say("Where {run} would be at step {to_step:plain} cannot be told"),
            By(
                "why_not",
                overfitting=Say(": it is overfitting, and more steps would make its validation loss worse."),
                too_short=Say(": it is too short."),
                no_evaluations=Say(": it has too few evaluations."),
                diverged=Say(": it has diverged."),
            ),
        ),
    ),
}
# fmt: on


def row_value(row: f.ComparisonRow, value: float | None, language: Language) -> str:
    """One run's value of a row, in the row's unit."""
    return language.write(value, FORMATS.get(row.measure, "loss"))


def leader(row: f.ComparisonRow, language: Language, names: tuple[str, ...]) -> str:
    """Which run is ahead; empty for the measures that nobody asks about first."""
    if row.best is None:
        return ""
    value = row_value(row, row.values[row.best], language)
    return LEADERS.write(SimpleNamespace(measure=row.measure, run=names[row.best], value=value), language)


def compared(finding: f.Explanation | f.Continued, language: Language, names: tuple[str, ...]) -> str:
    """A finding about runs, with their names instead of their numbers."""
    runs = {field: names[number] for field, number in vars(finding).items() if field in ("run", "other")}
    return MESSAGES[type(finding)].write(SimpleNamespace(**vars(finding) | runs), language)
