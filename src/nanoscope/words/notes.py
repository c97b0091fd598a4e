"""What a run noted about itself while it trained."""

from nanoscope.runs.folder import Note
from nanoscope.words.language import Language


def note(noted: Note, language: Language) -> str:
    """The note as a sentence."""
    say, step = language.say, str(noted.step)
    match noted.kind:
        case "rollback":
            return say(
                "At step {step} the loss was not a number: the run went back to step {to} and lowered its rates.",
                step=step,
                to=_count(noted, "to", language),
            )
        case "out_of_memory":
            return say(
                "At step {step} memory ran out: the run went on with micro-batches of {now} instead of {before}.",
                step=step,
                now=_count(noted, "micro_batch", language),
                before=_count(noted, "micro_batch_before", language),
            )
        case "spike":
            return say(
                "At step {step} the loss jumped to {loss}, where {usual} is usual.",
                step=step,
                loss=language.loss(_number(noted, "loss")),
                usual=language.loss(_number(noted, "usual")),
            )
        case "slow_step":
            return say(
                "Step {step} took {time}, where {usual} is usual: {reason}.",
                step=step,
                time=language.duration(_number(noted, "seconds")),
                usual=language.duration(_number(noted, "usual")),
                reason=_slow_reason(noted, language),
            )
        case "asleep":
            return say(
                "Near step {step} the machine was asleep ({time}); that time is not counted.",
                step=step,
                time=language.duration(_number(noted, "seconds")),
            )
        case "checkpoint_failed":
            return say(
                "The checkpoint of step {step} could not be saved: {message}",
                step=step,
                message=str(noted.values.get("message", "")),
            )


def _slow_reason(noted: Note, language: Language) -> str:
    say = language.say
    match noted.values.get("cause"):
        case "asleep":
            return say("the machine was asleep")
        case "data":
            return say("it waited for data")
        case "checkpoint":
            return say("a checkpoint was being written")
        case "busy":
            return say("other programs kept the machine busy, or memory was short")
    return say("no reason could be seen")


def _number(noted: Note, key: str) -> float | None:
    value = noted.values.get(key)
    return value if isinstance(value, float) else None


def _count(noted: Note, key: str, language: Language) -> str:
    return language.number(_number(noted, key))
