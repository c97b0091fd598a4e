"""What a resume keeps: which run it continues, from which checkpoint, with which settings, records and rates.

docs/resume.md has a row for each rule. `train`, `plan` and the API ask here: `resolve_init_from` decides what
init_from=auto means, `continue_run` says which run is resumed with which settings, `find_start_point` also locks it and
loads its checkpoint. This module is imported before torch, so functions that need torch import it themselves.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoscope.checkpoint_files import LAST, NANOGPT, checkpoints_from, read_pointer
from nanoscope.config import (
    KEYS,
    OPTIONS,
    RUN_NOTES,
    Mistakes,
    TrainConfig,
    build,
    refuse_changes,
    without_options,
)
from nanoscope.config_sources import Resolved, read_run_config, resolve, run_settings
from nanoscope.errors import UsageError, why
from nanoscope.hardware.probe import make_cpu_ready
from nanoscope.messages import Message, Shown
from nanoscope.optim.schedule import learning_rate
from nanoscope.runs.console import resume_command
from nanoscope.runs.events import EndReason, Note
from nanoscope.runs.summary import summary_of
from nanoscope.suggest import did_you_mean
from nanoscope.training.run_folder import (
    RunFolder,
    check_unused,
    lock_folder,
    new_run,
    numbered_folders,
    refuse_foreign_files,
)

if TYPE_CHECKING:
    from nanoscope.data.dataset import Dataset
    from nanoscope.interop.models import OpenedModel
    from nanoscope.model.checkpoint import LoadedCheckpoint, TrainingState
    from nanoscope.training.distributed import Processes

GENTLE = 0.1  # of the rates, for a run whose schedule has ended at 0

Changes = dict[str, tuple[Any, Any]]
"""Setting → its value before and now."""


@dataclass(frozen=True)
class Resumed:
    """A run that is resumed, and its settings."""

    folder: RunFolder
    config: TrainConfig
    """The settings of this invocation."""
    before: TrainConfig
    """The settings in config.toml."""
    changed: Changes
    """What was typed and changes the run for good."""
    for_session: Changes
    """What was typed and holds for this invocation only."""
    notes: list[Shown]
    """About settings that are not used."""
    cpu_dtype: str | None = None
    """What dtype=auto has meant for this run on a CPU, if it has trained on one: it stays so (`cpu_dtype` there)."""
    nanogpt: "LoadedCheckpoint | None" = None
    """nanoGPT's checkpoint, if that is what is resumed. The file is never changed."""

    @property
    def step(self) -> int:
        """The iteration of the checkpoint that the run continues from, unless that is damaged."""
        if self.nanogpt is not None:
            return self.nanogpt.progress.step
        return int("".join(filter(str.isdigit, checkpoints_from(self.folder.checkpoints)[0].name)))


@dataclass
class StartPoint:
    """What a run begins with: a checkpoint of an existing run, weights of another model, or nothing yet."""

    config: TrainConfig
    folder: RunFolder | None = None
    checkpoint: "LoadedCheckpoint | None" = None
    resumed: Resumed | None = None
    weights: "OpenedModel | None" = None
    notes: list[Shown] = field(default_factory=list)


def resolve_and_make_ready(arguments: Iterable[str], tuned: Callable[[Resolved], Resolved] | None = None) -> Resolved:
    """The configuration that the arguments of `nanoscope train` mean, for `training/launch.py`; the CPU is made ready.

    `tuned` may choose other settings of the machine. Called before torch is imported.
    """
    resolved = resolve_init_from(resolve(arguments))
    if tuned is not None:
        resolved = tuned(resolved)
    config, cpu_dtype = resolved.config, None
    if config.init_from == "resume":
        folder, nanogpt = _run_to_resume(resolved)
        if nanogpt is None:  # with the run's own device and dtype
            resumed = _resumed(folder, resolved)
            config, cpu_dtype = resumed.config, resumed.cpu_dtype
    make_cpu_ready(config.device, config.dtype, training=True, previous_dtype=cpu_dtype)
    return resolved


def resolve_init_from(resolved: Resolved) -> Resolved:
    """Replace init_from=auto: resume the newest run of that name if it has a checkpoint, else start a new one."""
    if resolved.config.init_from != "auto":
        return resolved
    resumes = resolved.nanogpt is not None or any(folder.can_resume() for folder in _candidates(resolved)[-1:])
    init_from = "resume" if resumes else resolved.begin_from
    return replace(resolved, config=build({**resolved.given, "init_from": init_from}))


def continue_run(resolved: Resolved) -> Resumed:
    """The run that is resumed, with its settings. Nothing is locked or written."""
    folder, file = _run_to_resume(resolved)
    if file is None:
        return _resumed(folder, resolved)
    from nanoscope.training.initial_model import nanogpt_run

    checkpoint, settings = nanogpt_run(file)
    return replace(_resumed(folder, resolved, settings), nanogpt=checkpoint)


def find_start_point(resolved: Resolved, processes: "Processes", resources: ExitStack) -> StartPoint:
    """Lock the run to resume and load its checkpoint; or open the weights that a new run begins with."""
    from nanoscope.model.checkpoint import find_checkpoint
    from nanoscope.training.initial_model import config_for_weights

    if resolved.config.init_from == "resume":
        resumed, auto = continue_run(resolved), resolved.given.get("init_from") == "auto"
        folder = lock_folder(resumed.folder.path) if processes.first else resumed.folder
        resources.callback(folder.release)
        checkpoint, problems = (resumed.nanogpt, []) if resumed.nanogpt else find_checkpoint(folder.path)
        check_unfinished(checkpoint.progress, resumed, auto=auto)
        notes = [*resolved.notes, *problems, *resumed.notes]
        resumed = replace(resumed, nanogpt=None)  # it is as large as the model and its optimizer
        return StartPoint(resumed.config, folder, checkpoint, resumed, notes=notes)
    begins = [*resolved.notes, *resolved.changes]
    if resolved.config.init_from == "scratch":
        return StartPoint(resolved.config, notes=begins)
    weights = open_weights(resolved.config)
    config, notes = config_for_weights(resolved, weights)
    return StartPoint(config, weights=weights, notes=[*begins, *weights.problems, *notes])


def open_weights(config: TrainConfig) -> "OpenedModel":
    from nanoscope.interop.models import open_model

    source = config.init_from
    try:
        return open_model(source)
    except UsageError as error:
        raise UsageError(
            "init_from={reason}{hint}", reason=why(error), hint=did_you_mean(source, ("scratch", "resume", "auto"))
        ) from None


def new_folder(resolved: Resolved, processes: "Processes", resources: ExitStack) -> RunFolder:
    if not processes.first:
        return RunFolder(Path(processes.from_first("")))
    folder = new_run(resolved)
    resources.callback(folder.release)
    processes.from_first(str(folder.path))
    return folder


def stopped_run(resolved: Resolved, new: RunFolder) -> list[Shown]:
    """A note about the newest run of the same name that was stopped, for one who may have wanted to resume it."""
    for folder in [] if resolved.config.out_dir or resolved.config.overwrite else reversed(_candidates(resolved)):
        seen, last = summary_of(folder.path), read_pointer(folder.path / "checkpoints", LAST)
        if folder.path != new.path and seen.state == "stopped" and seen.total and last:
            said = Message(
                "{run} was stopped at iteration {step:d} of {total:d}; to resume it: {command}",
                run=folder.path,
                step=int(last.removeprefix("step-")),
                total=seen.total,
                command=resume_command(str(folder.path), {}),
            )
            return [said]
    return []


def _candidates(resolved: Resolved) -> list[RunFolder]:
    """The folder that out_dir names, or the numbered ones of the run's name, oldest first."""
    out_dir = resolved.config.out_dir
    return [RunFolder(path) for path in ([Path(out_dir)] if out_dir else numbered_folders(resolved.name))]


def _run_to_resume(resolved: Resolved) -> tuple[RunFolder, Path | None]:
    """The newest candidate with a checkpoint; and nanoGPT's file, if that is the checkpoint."""
    candidates = _candidates(resolved)
    for folder in reversed(candidates):
        if folder.can_resume() or resolved.nanogpt:
            return folder, _nanogpt_to_resume(folder, resolved)
    raise UsageError(
        "there is nothing to resume in {folder}: no checkpoint was saved there\n"
        "Name the run: nanoscope train runs/NAME --init_from=resume. Or start a new one without "
        "--init_from.",
        folder=candidates[-1].path if candidates else Path("runs") / resolved.name,
    )


def _nanogpt_to_resume(folder: RunFolder, resolved: Resolved) -> Path | None:
    """The ckpt.pt to resume in a folder, if any: a run of ours there takes precedence unless the file is named."""
    first, file = folder.first_event(), resolved.nanogpt or folder.path / NANOGPT
    began_with_it = first is not None and first.first_step > 0
    if not file.is_file() or (folder.holds_run() and (began_with_it or not resolved.nanogpt)):
        return None
    if not began_with_it:
        check_unused(folder)
        refuse_foreign_files(folder)
    return file


def _resumed(folder: RunFolder, resolved: Resolved, nanogpt: dict[str, Any] | None = None) -> Resumed:
    """The run's own settings with the command line applied. `nanogpt`: the settings of nanoGPT's checkpoint."""
    recorded, mistakes = read_run_config(folder.path)[0].get(RUN_NOTES), Mistakes()
    saved = nanogpt if nanogpt and recorded is None else run_settings(folder.path, mistakes)
    own = {"out_dir": str(folder.path), "init_from": saved.get("init_from", "scratch")}
    options = {key: resolved.given[key] for key in OPTIONS if key in resolved.given}  # also from a file
    typed = {**resolved.typed, **options, **own}
    refuse_changes(typed, {"output_lr": 0.0, **saved}, str(folder.path))
    notes: list[Shown] = [note for note in mistakes.notes if note not in resolved.notes]
    unused = [
        f"{key}={value}"
        for key, value in resolved.given.items()
        if key not in typed and value != saved.get(key, KEYS[key].default)
    ]
    if unused:
        settings = ", ".join(unused)
        notes.append(Message("not used, because the run has its own settings: {settings}", settings=settings))
    config, now = build({**saved, **own}, mistakes), build({**saved, **typed})
    return Resumed(folder, now, config, *_changes(config, now), notes, _cpu_dtype(recorded or {}))


def _cpu_dtype(recorded: dict[str, Any]) -> str | None:
    if recorded.get("cpu_dtype") in ("float32", "bfloat16"):
        return str(recorded["cpu_dtype"])
    return "float32" if recorded.get("device") == "cpu" else None  # all that earlier versions chose on a CPU


def _changes(before: TrainConfig, now: TrainConfig) -> tuple[Changes, Changes]:
    """What changes for good, and what for this invocation only: all of it if the run is only evaluated."""
    changed: Changes = {}
    for_session: Changes = {}
    for key, item in KEYS.items():
        values = getattr(before, key), getattr(now, key)
        if values[0] != values[1]:
            for_good = item.metadata["holds"] == "run" and not now.eval_only
            (changed if for_good else for_session)[key] = values
    if changed and before.tokens_per_step != now.tokens_per_step:
        changed["tokens_per_step"] = before.tokens_per_step, now.tokens_per_step
    return changed, for_session


def check_data(dataset: "Dataset", checkpoint: "LoadedCheckpoint | None") -> list[Shown]:
    """Refuse another tokenizer than the run's. Other data in the same tokens is the owner's choice, and noted."""
    if checkpoint is None:
        return []
    if dataset.tokenizer is not None and checkpoint.tokenizer not in (None, dataset.tokenizer.to_json()):
        raise UsageError(
            "{folder} has another tokenizer than the run\n"
            "The same token ids would mean other texts: resume with the run's own tokenizer.",
            folder=dataset.folder,
        )
    if checkpoint.run.get("dataset_fingerprint") not in (None, dataset.fingerprint):
        return [Message("the data in {folder} is not what the run was trained on until now", folder=dataset.folder)]
    return []


class NothingToTrainError(Exception):
    """The run in `folder` is as far as it should go. Its arguments are the lines that say so."""

    def __init__(self, folder: str, *lines: Message, finished: bool = False) -> None:
        super().__init__(*lines)
        self.folder, self.finished = folder, finished


def check_unfinished(state: "TrainingState", resumed: Resumed, *, auto: bool) -> None:
    """Raise NothingToTrainError if the run has ended. With init_from=auto, so has a run that is out of patience."""
    config, step, run = resumed.config, state.step, resumed.config.out_dir
    if config.eval_only:
        return
    # A process that was killed at the very end has not written its last event.
    at_end = step == config.max_iters and state.evaluated_at == step and summary_of(Path(run)).state == "finished"
    if at_end or step > config.max_iters:
        what = Message("{run} has finished its {step:d} iterations: nothing to train", run=run, step=step)
        raise NothingToTrainError(run, what, finished=True)
    if auto and out_of_patience(state, config):
        command = resume_command(run, flags_to_continue(config, resumed.for_session, "patience"))
        what = Message("{run} is out of patience at iteration {step:d}: nothing to train", run=run, step=step)
        raise NothingToTrainError(run, what, Message("saved; resume with: {command}", command=command))


def flags_to_continue(config: TrainConfig, for_session: Changes, ended: EndReason) -> dict[str, object]:
    """The flags that resume a run that has ended: those of this session, and more iterations if it has finished."""
    settings = without_options({key: now for key, (_, now) in for_session.items()})
    flags = {key: now for key, now in settings.items() if KEYS[key].metadata["holds"] == "invocation"}
    if ended == "finished":
        flags["max_iters"] = 2 * config.max_iters
        if _ends_at_zero(config) and config.lr_decay_iters != "auto" and config.lr_decay_iters <= config.max_iters:
            flags["lr_decay_iters"] = "auto"  # the model would not change any more
    return flags


def out_of_patience(state: "TrainingState", config: TrainConfig) -> bool:
    return 0 < config.patience <= state.evaluations_since_best


def update_records(checkpoint: "LoadedCheckpoint", config: TrainConfig, evaluation: str) -> list[Shown]:
    """Drop those of a checkpoint's records that no longer hold, and say so. `evaluation`: how losses are measured."""
    state = checkpoint.progress
    best = state.best_val_loss
    if config.eval_only:
        state.evaluated_at = None  # evaluate this step again
    elif checkpoint.run.get("evaluation", evaluation) != evaluation:
        step, state.best_step = state.best_step, None
        state.best_val_loss = state.evaluated_at = None
        state.evaluations_since_best = 0
        if best is not None:
            return [
                Message(
                    "evaluations now use other windows or other data: the best val loss so far, {best:.4f} at step "
                    "{step}, no longer counts",
                    best=best,
                    step=str(step),
                )
            ]
    elif out_of_patience(state, config):
        state.evaluations_since_best = 0
        return [Message("{setting} counts anew", setting=f"patience={config.patience}")]
    return []


def schedule_notes(resumed: Resumed, state: "TrainingState") -> list[Note]:
    """What another max_iters does to the learning rate, and the flags that avoid it."""
    before, now, step = resumed.before, resumed.config, state.step
    if now.eval_only:
        return []
    if _ends_at_zero(now) and now.decay_iters <= step < now.max_iters:
        text = Message(
            "the learning rate is 0 from iteration {step:d} on, so the model won't change: resume with {flag}",
            step=now.decay_iters,
            flag=f"--lr_decay_iters={now.max_iters}",
        )
        return [Note(text=text, level="warning")]
    then, here = (state.lr_factor * learning_rate(step, config) for config in (before, now))
    if before.max_iters == now.max_iters or abs(here - then) <= 0.01 * max(here, then):
        return []
    end = state.lr_factor * learning_rate(now.decay_iters, now)
    text = Message(
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
        text = Message("{change}. To keep that schedule, resume with {flag}", change=text, flag=flag)
    elif before.lr_scale == now.lr_scale:
        flag = f"--lr_scale={now.lr_scale * (then / here or GENTLE):.3g}"
        text = Message("{change}. For lower rates, resume with {flag}", change=text, flag=flag)
    return [Note(text=text)]


def _ends_at_zero(config: TrainConfig) -> bool:
    return config.decay_lr and config.lowest_lr == 0
