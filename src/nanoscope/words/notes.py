"""What a run noted about itself while it trained."""

from nanoscope.analysis import findings as f
from nanoscope.words.templates import By, Say, Words

_REASON = By(
    "cause",
    asleep=Say("the machine was asleep"),
    data=Say("it waited for data"),
    checkpoint=Say("a checkpoint was being written"),
    busy=Say("other programs kept the machine busy, or memory was short"),
    unknown=Say("no reason could be seen"),
)
# fmt: off
MESSAGES: dict[type[f.Finding], Words] = {
    f.RollbackNote: Say("At step {step:plain} the loss was not a number: the run went back to step {to:plain} and "
                        "lowered its rates."),
    f.OutOfMemoryNote: Say("At step {step:plain} memory ran out: the run went on with micro-batches of {micro_batch} "
                           "instead of {micro_batch_before}."),
    f.SpikeNote: Say("At step {step:plain} the loss jumped to {loss:loss}, where {usual:loss} is usual."),
    f.SlowStepNote: Say("Step {step:plain} took {seconds:duration}, where {usual:duration} is usual: {reason}.",
                        reason=_REASON),
    f.AsleepNote: Say("Near step {step:plain} the machine was asleep ({seconds:duration}); that time is not counted."),
    f.CheckpointFailedNote: Say("The checkpoint of step {step:plain} could not be saved: {message}"),
}
