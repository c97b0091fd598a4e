"""Resuming: which run, from which checkpoint, with which settings, and what becomes of its records and rates.

Is imported before torch, so what needs torch is imported by the functions that use it.
"""

import os
import shlex
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoscope.checkpoint_files import LAST, NANOGPT, read_pointer
from nanoscope.config import KEYS, OPTIONS, RUN_NOTES, SHAPE_KEYS, TrainConfig, build, without_options
from nanoscope.config_sources import Resolved, read_run_config, resolve
from nanoscope.errors import UsageError, why
from nanoscope.hardware.probe import make_cpu_ready
from nanoscope.messages import Count, Joined, Text
from nanoscope.optim.schedule import learning_rate
from nanoscope.runs.console import resume_command
from nanoscope.runs.events import EndReason, Note
from nanoscope.runs.glance import glance
from nanoscope.suggest import did_you_mean
from nanoscope.training.lock import RunLock
from nanoscope.training.run_folder import RunFolder, check_foreign, locked, new_run, numbered

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
    """The settings of a run that is resumed."""

    config: TrainConfig
    """Those of this session."""
    before: TrainConfig
    """Those that config.toml has."""
    changed: Changes
    """What was typed and changes the run for good."""
    for_session: Changes
    """What was typed and holds for this session only."""
    notes: list[str]
    """About settings that are ignored."""
    cpu_dtype: str | None = None
    """What dtype=auto has meant for this run on a CPU, if it has trained on one: it stays so (`cpu_dtype` there)."""


@dataclass
class Origin:
    """What a run begins with: a checkpoint of an existing run, weights of another model, or nothing yet."""

    config: TrainConfig
    folder: RunFolder | None = None
    checkpoint: "LoadedCheckpoint | None" = None
    resumed: Resumed | None = None
    weights: "OpenedModel | None" = None
    notes: list[str] = field(default_factory=list)


def resolve_and_make_ready(words: Iterable[str], tuned: Callable[[Resolved], Resolved] | None = None) -> Resolved:
    """The configuration that the arguments of `nanoscope train` mean, for `training/launch.py`.

    `tuned` may choose other settings of the machine.
    """
    resolved = resolve(words)
    if os.environ.get("RANK", "0") == "0":  # the process that will lock the folder
        wait_for_other_machine(resolved)
    resolved = settled(resolved)
    if tuned is not None:
        resolved = tuned(resolved)
    config, cpu_dtype = resolved.config, None
    if config.init_from == "resume":  # with the run's own device and dtype
        resumed = resumed_config(old_run(resolved), resolved)
        config, cpu_dtype = resumed.config, resumed.cpu_dtype
    make_cpu_ready(config.device, config.dtype, training=True, before=cpu_dtype)
    return resolved


def settled(resolved: Resolved) -> Resolved:
    """The same with init_from=auto decided: resume the newest run of that name if it has a checkpoint, else begin."""
    if resolved.config.init_from != "auto":
        return resolved
    newest = _newest(resolved)
    resumes = resolved.named == NANOGPT or (newest is not None and RunFolder(newest).can_resume())
    init_from = "resume" if resumes else resolved.begin_from
    return replace(resolved, config=build({**resolved.given, "init_from": init_from}))


def wait_for_other_machine(resolved: Resolved) -> None:
    """For init_from=auto, before it is settled: the machine on which the job ran before may be about to save."""
    if resolved.config.init_from == "auto" and (newest := _newest(resolved)) is not None:
        RunLock(newest).wait_for_silence()


def _newest(resolved: Resolved) -> Path | None:
    """The run that init_from=auto would resume."""
    places = [Path(resolved.config.out_dir)] if resolved.config.out_dir else numbered(resolved.name)
    return places[-1] if places else None


def find_origin(resolved: Resolved, processes: "Processes", resources: ExitStack) -> Origin:
    """Find the run to resume and its checkpoint, or nothing for a new run."""
    from nanoscope.model.checkpoint import find_checkpoint
    from nanoscope.training.initial_model import config_for_weights
    from nanoscope.training.nanogpt_run import nanogpt_run

    if resolved.config.init_from == "resume":
        folder = old_run(resolved, lock=processes.first)
        resources.callback(folder.release)
        if folder.nanogpt is not None:
            checkpoint, settings = nanogpt_run(folder.nanogpt)
            problems: list[Text] = []
        else:
            settings = None
            checkpoint, problems = find_checkpoint(folder.path)
        resumed = resumed_config(folder, resolved, settings)
        check_unfinished(checkpoint.progress, resumed, auto=resolved.given.get("init_from") == "auto")
        return Origin(
            resumed.config, folder, checkpoint, resumed, notes=[*resolved.notes, *map(str, problems), *resumed.notes]
        )
    begins = [*resolved.notes, *resolved.changes]
    if resolved.config.init_from != "scratch":
        weights = open_weights(resolved.config)
        config, notes = config_for_weights(resolved, weights)
        return Origin(config, weights=weights, notes=[*begins, *map(str, weights.problems), *notes])
    return Origin(resolved.config, notes=begins)


def open_weights(config: TrainConfig) -> "OpenedModel":
    from nanoscope.interop.huggingface import NAMES
    from nanoscope.interop.models import open_model
    from nanoscope.training.vocabulary import check_gpt2_data

    source = config.init_from
    if source in NAMES:
        check_gpt2_data(source, config.dataset)
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


def old_run(resolved: Resolved, *, lock: bool = False) -> RunFolder:
    """The folder of the run to resume: out_dir, or the newest run of that name with checkpoints.

    `lock`: this process will write there.
    """
    if resolved.config.out_dir:
        candidates = [RunFolder(Path(resolved.config.out_dir))]
    else:
        candidates = [RunFolder(path) for path in numbered(resolved.name)]
    for folder in reversed(candidates):
        if folder.can_resume() or resolved.named == NANOGPT:
            nanogpt = _nanogpt_to_resume(folder, resolved)
            if not lock:
                return replace(folder, nanogpt=nanogpt)
            return replace(locked(folder.path), nanogpt=nanogpt)
    places = candidates[-1].path if candidates else Path("runs") / resolved.name
    raise UsageError(
        "there is nothing to resume in {folder}: no checkpoint was saved there\n"
        "Name the run: nanoscope train runs/NAME --init_from=resume. Or start a new one without "
        "--init_from.",
        folder=places,
    )


def _nanogpt_to_resume(folder: RunFolder, resolved: Resolved) -> Path | None:
    """nanoGPT's checkpoint if that is resumed in a folder. UsageError asks which, if a run of ours is beside it."""
    file = Path(resolved.source) if resolved.named == NANOGPT else folder.path / NANOGPT
    if resolved.named == "checkpoints" or not file.is_file():
        return None
    first, holds_run = folder.first_event(), folder.holds_run()
    if first is not None and first.first_step > 0:  # the run of ours has begun with that checkpoint
        return None if holds_run else file
    if first is None and not holds_run:
        check_foreign(folder)
        return file
    ways = [Text("nanoGPT's: {command}", command=_resume(file, "--out_dir=ANOTHER"))]
    if holds_run:
        ways.insert(0, Text("nanoscope's: {command}", command=_resume(folder.checkpoints)))
    raise UsageError(
        "{path} holds a run of nanoscope, and {file} is from another one, of nanoGPT. Resume which one?\n{ways}",
        path=folder.path,
        file=file,
        ways=Joined("\n", ways),
    )


def _resume(source: Path, *flags: str) -> str:
    return shlex.join(["nanoscope", "train", str(source), "--init_from=resume", *flags])


def unfinished(resolved: Resolved, folder: RunFolder) -> list[str]:
    """A note about the newest run of the same name that was stopped, for one who may have wanted to resume it."""
    if resolved.config.out_dir or resolved.config.overwrite:
        return []
    for path in reversed(numbered(resolved.name)):
        seen, last = glance("", path, ""), read_pointer(path / "checkpoints", LAST)
        if path != folder.path and seen.state == "stopped" and seen.total and last:
            step = int(last.removeprefix("step-"))
            return [
                Text(
                    "{run} was stopped at iteration {step:d} of {total:d}; to resume it: {command}",
                    run=path,
                    step=step,
                    total=seen.total,
                    command=_resume(path),
                )
            ]
    return []


def resumed_config(folder: RunFolder, resolved: Resolved, saved: dict[str, Any] | None = None) -> Resumed:
    """The run's own settings with the command line applied. `saved`: those of nanoGPT's checkpoint, to resume that."""
    if folder.nanogpt and RUN_NOTES not in read_run_config(folder.path)[0]:
        own = replace(resolved, given=saved or resolved.given, notes=[])
    else:
        own = resolve([str(folder.path)])
    saved = without_options(own.given)
    once = {key: resolved.given[key] for key in OPTIONS if key in resolved.given}  # also from a file
    place = {"out_dir": str(folder.path), "init_from": saved.get("init_from", "scratch")}
    typed = {**resolved.typed, **once, **place}
    refused = [key for key in SHAPE_KEYS if key in typed and key in saved and typed[key] != saved[key]]
    if refused:
        lines = [
            Text(
                "{typed} was typed, the run was trained with {saved}",
                typed=f"{key}={typed[key]}",
                saved=f"{key}={saved[key]}",
            )
            for key in refused
        ]
        raise UsageError(
            "{lines}\nThe shape of a model can't change on resume: leave these out, or start a new run.",
            lines=Joined("\n", lines),
        )
    if bool(typed.get("output_lr", saved.get("output_lr"))) != bool(saved.get("output_lr")):
        raise UsageError(
            "output_lr decides which optimizer trains the vocabulary, which can't change on resume: leave it out, or "
            "start a new run."
        )
    notes = [note for note in own.notes if note not in resolved.notes]
    for key, value in resolved.given.items():
        had = saved.get(key, KEYS[key].default)
        if key not in typed and value != had:
            way = Text("type {flag} to change it", flag=f"--{key}={value}")
            if key in SHAPE_KEYS:
                way = Text("a model keeps its shape")
            setting = f"{key}={value}"
            notes.append(
                Text("{setting} is not used: the run has {had}; {way}", setting=setting, had=str(had), way=way)
            )
    before, now = build({**saved, **place}), build({**saved, **typed})
    changed, for_session = _difference(before, now)
    return Resumed(now, before, changed, for_session, notes, _cpu_dtype(folder))


def _cpu_dtype(folder: RunFolder) -> str | None:
    recorded = read_run_config(folder.path)[0].get(RUN_NOTES, {})
    if recorded.get("cpu_dtype") in ("float32", "bfloat16"):
        return str(recorded["cpu_dtype"])
    return "float32" if recorded.get("device") == "cpu" else None  # all that earlier versions chose on a CPU


def _difference(before: TrainConfig, now: TrainConfig) -> tuple[Changes, Changes]:
    """What changes for good, and what for this session only: all of it if the session only evaluates."""
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


def check_data(dataset: "Dataset", checkpoint: "LoadedCheckpoint | None") -> list[str]:
    """Refuse another tokenizer than the run's. Other data in the same tokens is the owner's choice, and noted."""
    if checkpoint is None:
        return []
    if dataset.tokenizer is not None and checkpoint.tokenizer not in (None, dataset.tokenizer.to_json()):
        before = (checkpoint.tokenizer or {}).get("kind")
        raise UsageError(
            "the run was trained with another tokenizer ({before}, a vocabulary of {tokens}) than that of {folder} "
            "({kind}, {needed})\n"
            "The same token ids would mean other texts: resume with the run's own tokenizer.",
            before=before,
            tokens=checkpoint.model_config.vocab_size,
            folder=dataset.folder,
            kind=dataset.tokenizer.kind,
            needed=dataset.vocab_size,
        )
    if checkpoint.run.get("dataset_fingerprint") not in (None, dataset.fingerprint):
        return [Text("the data in {folder} is not what the run was trained on until now", folder=dataset.folder)]
    return []


class NothingToTrainError(Exception):
    """The run is as far as it should go. Its arguments are the lines that say so; `finished` is the folder of a run
    that has done all its iterations.
    """

    def __init__(self, *lines: Text, finished: str | None = None) -> None:
        super().__init__(*lines)
        self.finished = finished


def check_unfinished(state: "TrainingState", resumed: Resumed, *, auto: bool) -> None:
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
    settings = without_options({key: now for key, (_, now) in for_session.items()})
    flags = {key: now for key, now in settings.items() if KEYS[key].metadata["holds"] == "invocation"}
    if ended == "finished":
        flags["max_iters"] = 2 * config.max_iters
        if _ends_at_zero(config) and config.lr_decay_iters != "auto" and config.lr_decay_iters <= config.max_iters:
            flags["lr_decay_iters"] = "auto"  # the model would not change any more
    return flags


def out_of_patience(state: "TrainingState", config: TrainConfig) -> bool:
    return 0 < config.patience <= state.evaluations_since_best


def update_records(checkpoint: "LoadedCheckpoint", config: TrainConfig, evaluation: str) -> list[str]:
    """Drop those of a checkpoint's records that no longer hold, and say so. `evaluation`: what losses are now of."""
    from nanoscope.training.nanogpt_run import RANDOM

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


def schedule_notes(resumed: Resumed, state: "TrainingState") -> list[Note]:
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
