"""How much of a run the log holds, and how far the run is."""

from nanoscope.analysis import findings as f
from nanoscope.words.templates import By, First, Plural, Say, Sentences, Words, has, known

NEARLY_ALL = 0.95  # of the steps: a run that prints every k-th step ends before its last one
MOST_NAMES = 8  # of columns that are not used


def _did_all_steps(run: f.RunProgress) -> bool:
    total, last = run.total_steps, run.last_step
    return total is not None and last is not None and bool(run.finished) and last >= NEARLY_ALL * total


def _share(run: f.RunProgress) -> float:
    return (run.last_step or 0) / max(run.total_steps or 1, 1)


def _names(reading: f.Reading) -> str:
    more = ", …" if len(reading.ignored) > MOST_NAMES else ""
    return ", ".join(reading.ignored[:MOST_NAMES]) + more


# fmt: off
MESSAGES: dict[type[f.Finding], Words] = {
    f.LogSummary: Sentences(
        Say("The log begins at step {first_step:plain}, in the middle of the run.",
            has("begins_mid_run", "first_step")),
        Say("The log doesn't number its steps, so each of its lines is counted as one.", has("steps_are_lines")),
        Say("The printed times of the steps contradict the clock of the lines, so no step time is named.",
            has("time_unclear")),
        Say("The run was resumed at step {resumed_at:steps}.", has("resumed_at")),
        Say("Steps are missing from the middle of the log.", has("elided")),
        Plural("{n} line was a repetition and was counted once.",
               "{n} lines were repetitions and were counted once.", "duplicates_dropped", has("duplicates_dropped")),
        Plural("{n} record was broken over several lines and put together again.",
               "{n} records were broken over several lines and put together again.",
               "rejoined_lines", has("rejoined_lines")),
    ),
    f.Reading: Say("Not used from this log: {names}.", has("ignored"), names=_names),
    f.RunProgress: Sentences(
        By(
            "unit",
            step=First(
                Say("Finished: all {total_steps} steps are done.", _did_all_steps),
                Say("Finished early, at step {last_step:plain} of {total_steps:plain}.",
                    has("total_steps", "finished")),
                Say("Finished at step {last_step:plain}.", has("finished")),
                Say("At step {last_step:plain} of {total_steps:plain} ({share:percent}).",
                    known("total_steps", "steps_left"), share=_share),
                Say("At step {last_step:plain}.", known("last_step")),
            ),
            epoch=First(
                Say("Finished: all {total_steps} epochs are done.", _did_all_steps),
                Say("Finished at epoch {last_step:plain}.", has("finished")),
                Say("At epoch {last_step:plain} of {total_steps:plain} ({share:percent}).",
                    known("total_steps", "steps_left"), share=_share),
                Say("At epoch {last_step:plain}.", known("last_step")),
            ),
        ),
        First(
            Say("{tokens_seen:large} tokens read: the data {passes_over_data:significant2} times over.",
                lambda run: (run.passes_over_data or 0) >= 1),
            Say("{tokens_seen:large} tokens read: {passes_over_data:percent} of the data.", known("passes_over_data")),
            Say("{tokens_seen:large} tokens read.", known("tokens_seen")),
        ),
        Say("That is {tokens_per_parameter:significant2} tokens per parameter.", known("tokens_per_parameter")),
    ),
}
