"""What a resume means for a run: is anything left to train, which records still hold, what becomes of the rate."""

from pathlib import Path

from nanoscope.config import KEYS, TrainConfig
from nanoscope.messages import Count, Text
from nanoscope.model.checkpoint import LoadedCheckpoint, TrainingState
from nanoscope.optim.schedule import learning_rate
from nanoscope.runs.console import resume_command
from nanoscope.runs.events import EndReason, Note
from nanoscope.runs.glance import glance
from nanoscope.training.nanogpt_run import RANDOM
from nanoscope.training.run_folder import Changes, Resumed

GENTLE = 0.1  # of the rates, for a run whose schedule has ended at 0


class NothingToTrainError(Exception):
    """The run is as far as it should go. Its arguments are the lines that say so; `finished` is the folder of a run
    that has done all its iterations.
    """

    def __init__(self, *lines: Text, finished: str | None = None) -> None:
        super().__init__(*lines)
        self.finished = finished


def check_unfinished(state: TrainingState, resumed: Resumed, *, auto: bool) -> None:
    """Raise NothingToTrainError if the run has ended. To init_from=auto, being out of patience is an end, too."""
    config, step = resumed.config, state.step
    if config.eval_only:
        return
    if step > config.max_iters:
        raise NothingToTrainError(
            Text(
                "{run} is already at iteration {step:d}, past {setting}: nothing to train",
                run=config.out_dir,
                step=step,
                setting=f"max_iters={config.max_iters}",
            )
        )
    if step == config.max_iters and state.evaluated_at == step and _has_said_so(config.out_dir):
        what = Text("{run} has finished its {step:d} iterations: nothing to train", run=config.out_dir, step=step)
        raise NothingToTrainError(what, finished=config.out_dir)
    if auto and out_of_patience(state, config):
        command = resume_command(config.out_dir, flags_to_continue(config, resumed.for_session, "patience"))
        raise NothingToTrainError(
            Text("{run} is out of patience at iteration {step:d}: nothing to train", run=config.out_dir, step=step),
            Text("saved; resume with: {command}", command=command),
        )


def _has_said_so(folder: str) -> bool:
    """Whether the run's events end with its end. A process that was killed at the very end didn't get that far."""
    return glance("", Path(folder), "").state == "finished"


def flags_to_continue(config: TrainConfig, for_session: Changes, ended: EndReason) -> dict[str, object]:
    """The flags with which a resume continues a run that has ended: as this session did, and further."""
    flags = {key: now for key, (_, now) in for_session.items() if KEYS[key].metadata["lasts"] == "session"}
    if ended == "finished":
        flags["max_iters"] = 2 * config.max_iters
        if _ends_at_zero(config) and config.lr_decay_iters != "auto" and config.lr_decay_iters <= config.max_iters:
            flags["lr_decay_iters"] = "auto"  # the model would not change any more
    return flags


def out_of_patience(state: TrainingState, config: TrainConfig) -> bool:
    return 0 < config.patience <= state.evaluations_since_best


def update_records(checkpoint: LoadedCheckpoint, config: TrainConfig, evaluation: str) -> list[str]:
    """Drop those of a checkpoint's records that no longer hold, and say so. `evaluation`: what losses are now of."""
    state = checkpoint.progress
    measured_on = checkpoint.run.get("evaluation", evaluation)
    if config.eval_only:
        state.evaluated_at = None  # evaluate this step again
    elif measured_on != evaluation:
        best, step = state.best_val_loss, state.best_step
        state.best_val_loss = state.best_step = state.evaluated_at = None
        state.evaluations_since_best = 0
        if best is not None:
            now, then = (text.partition(" windows of ")[0] for text in (evaluation, str(measured_on)))
            lost = Text(
                "the best val loss so far, {best:.4f} at step {step}, no longer counts", best=best, step=str(step)
            )
            if str(measured_on) == RANDOM:
                return [Text("evaluations now use {now} windows instead of random windows: {lost}", now=now, lost=lost)]
            if now == then:
                return [Text("evaluations now use other data: {lost}", lost=lost)]
            return [
                Text(
                    "evaluations now use {now} windows instead of {then} windows: {lost}", now=now, then=then, lost=lost
                )
            ]
    elif out_of_patience(state, config):
        without, state.evaluations_since_best = state.evaluations_since_best, 0
        return [
            Count(
                "the last evaluation brought no lower val loss; {setting} counts anew",
                "the last {n} evaluations brought no lower val loss; {setting} counts anew",
                without,
                setting=f"patience={config.patience}",
            )
        ]
    return []


def schedule_notes(resumed: Resumed, state: TrainingState) -> list[Note]:
    """What another max_iters does to the learning rate, and the flags that avoid it."""
    before, now, step = resumed.before, resumed.config, state.step
    if now.eval_only:
        return []
    if _ends_at_zero(now) and now.decay_iters <= step < now.max_iters:
        text = Text(
            "the learning rate is 0 from iteration {step:d} on, so the model won't change: resume with {flag}",
            step=now.decay_iters,
            flag=f"--lr_decay_iters={now.max_iters}",
        )
        return [Note(text=text, level="warning")]
    then, here = (state.lr_factor * learning_rate(step, config) for config in (before, now))
    if before.max_iters == now.max_iters or abs(here - then) <= 0.01 * max(here, then):
        return []
    end = state.lr_factor * learning_rate(now.decay_iters, now)
    text = Text(
        "the learning rate goes from {then:.3g} to {here:.3g} here: {setting} moves the end of its schedule "
        "from {old_end:d} to {new_end:d}, where it will be {end:.3g}",
        then=then,
        here=here,
        setting=f"max_iters={now.max_iters}",
        old_end=before.decay_iters,
        new_end=now.decay_iters,
        end=end,
    )
    if not _ends_at_zero(now) or now.max_iters < before.decay_iters:
        flag = f"--lr_decay_iters={before.decay_iters}"
        text = Text("{change}. To keep that schedule, resume with {flag}", change=text, flag=flag)
    elif before.lr_scale == now.lr_scale:
        flag = f"--lr_scale={now.lr_scale * (then / here or GENTLE):.3g}"
        text = Text("{change}. For lower rates, resume with {flag}", change=text, flag=flag)
    return [Note(text=text)]


def _ends_at_zero(config: TrainConfig) -> bool:
    return config.decay_lr and config.lowest_lr == 0
