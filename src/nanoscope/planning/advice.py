"""What would help a planned run: only where something does."""

import math

from nanoscope.messages import Text
from nanoscope.planning.figures import DiskPlan, MemoryPlan, TimePlan
from nanoscope.planning.request import Request
from nanoscope.planning.steps import StepTimes
from nanoscope.runs.events import Forecast
from nanoscope.training.forecast import SMALLER_MODEL, warnings

MUCH_EVALUATION, GOOD_EVALUATION = 0.25, 0.1  # of the run
WORTH_TUNING = 20 * 60.0  # seconds of a run: ten times what tuning takes


def advice(
    request: Request, memory: MemoryPlan, disk: DiskPlan, time: TimePlan | None, times: StepTimes | None
) -> list[str]:
    found: list[str] = [] if memory.fits else [smaller(memory)]
    if time is not None and times is not None:
        found += _shorter(request, time)
        found += _fewer_evaluations(request, time)
        if time.seconds > WORTH_TUNING and not request.done:
            found.append(
                Text("find out in two minutes whether it can be faster: {command}", command=request.command("tune"))
            )
    if not disk.fits:
        found.append(
            Text("make room, keep fewer checkpoints (--keep_checkpoints=1), or use another disk (--out_dir=FOLDER)")
        )
    return found


def smaller(memory: MemoryPlan) -> Text:
    """The largest micro-batch that fits, at the same tokens an iteration; else a smaller model."""
    fitting = [split for split in memory.splits if split.fits]
    if not fitting:
        return Text("use a smaller model, such as {flags}", flags=SMALLER_MODEL)
    best = max(fitting, key=lambda split: split.batch_size)
    flags = f"--batch_size={best.batch_size} --gradient_accumulation_steps={best.gradient_accumulation_steps}"
    return Text("use {flags}", flags=flags)


def _shorter(request: Request, time: TimePlan) -> list[Text]:
    """The warnings that `train` would print about time and epochs."""
    config, tokens = request.config, request.data.train_tokens
    expected = Forecast(
        step=request.done,
        seconds=time.seconds,
        step_seconds=time.step_seconds,
        epochs_per_step=config.tokens_per_step / tokens if tokens else 0.0,
    )
    return warnings(config, expected)


def _fewer_evaluations(request: Request, time: TimePlan) -> list[Text]:
    config, seconds = request.config, time.evaluations * time.evaluation_seconds
    share = seconds / time.seconds
    if share < MUCH_EVALUATION or seconds < 10:
        return []
    fewer = math.ceil(share / GOOD_EVALUATION)
    flag = f"--eval_interval={config.eval_interval * fewer}"
    if time.evaluations < 2 * fewer:
        flag = (
            "--eval_iters=20" if config.eval_iters == "full" else f"--eval_iters={max(config.eval_iters // fewer, 1)}"
        )
    return [Text("evaluations take {share:.0%} of the time; use {flag}", share=share, flag=flag)]
