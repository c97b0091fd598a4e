"""The folder of a run: where it is, whether a run may start or resume there, with which settings. Imports no torch."""

import shutil
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nanoscope.checkpoint_files import NANOGPT, checkpoint_folders
from nanoscope.config import KEYS, PER_INVOCATION, RUN_NOTES, SHAPE_KEYS, TrainConfig, build, without_per_invocation
from nanoscope.config_sources import Resolved, read_run_config, resolve
from nanoscope.errors import JobError, UsageError, why
from nanoscope.messages import Joined, Text
from nanoscope.training.lock import LockedError, RunLock

OUR_FILES = ("config.toml", "events.jsonl", "console.log", "report.html", "trackers.json", ".trackers.lock")
OUR_FOLDERS = ("checkpoints", "samples", "windows", "tensorboard", "wandb")


@dataclass(frozen=True)
class RunFolder:
    path: Path
    lock: RunLock | None = field(default=None, compare=False)
    """Held by the process that trains in this folder."""

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def console(self) -> Path:
        return self.path / "console.log"

    @property
    def samples(self) -> Path:
        return self.path / "samples"

    def holds_run(self) -> bool:
        return bool(checkpoint_folders(self.checkpoints))

    @property
    def nanogpt(self) -> Path | None:
        """nanoGPT's checkpoint, if that is what there is to resume; it is read and never changed."""
        file = self.path / NANOGPT
        return file if file.is_file() and not self.holds_run() else None

    def can_resume(self) -> bool:
        return self.holds_run() or self.nanogpt is not None

    def release(self) -> None:
        """Allow other processes to train in this folder."""
        if self.lock is not None:
            self.lock.release()


def settled(resolved: Resolved) -> Resolved:
    """The same with init_from=auto decided: resume the newest run of that name if it has a checkpoint, else begin."""
    if resolved.config.init_from != "auto":
        return resolved
    places = [Path(resolved.config.out_dir)] if resolved.config.out_dir else _numbered(resolved.name)
    init_from = "resume" if places and RunFolder(places[-1]).can_resume() else resolved.begin_from
    return replace(resolved, config=build({**resolved.given, "init_from": init_from}))


def new_run(resolved: Resolved) -> RunFolder:
    """A locked folder for a new run. A run with checkpoints is overwritten only if the user asks for it."""
    config = resolved.config
    if config.out_dir or config.overwrite:
        folder = _locked(Path(config.out_dir or f"runs/{resolved.name}"))
        if folder.holds_run() and not config.overwrite:
            folder.release()
            raise UsageError(
                "{path} already holds a run with checkpoints\n"
                "Resume it: --init_from=resume. Keep it: --out_dir=ANOTHER. Delete it: --overwrite=True",
                path=folder.path,
            )
    else:
        folder = unused(resolved.name)
    try:
        _clear(folder.path)
        folder.checkpoints.mkdir(exist_ok=True)
    except OSError as error:
        raise _unwritable(folder.path, error) from None
    return folder


def old_run(resolved: Resolved, *, lock: bool = False) -> RunFolder:
    """The folder of the run to resume: out_dir, or the newest run of that name with checkpoints.

    `lock`: this process will write there.
    """
    if resolved.config.out_dir:
        candidates = [RunFolder(Path(resolved.config.out_dir))]
    else:
        candidates = [RunFolder(path) for path in _numbered(resolved.name)]
    for folder in reversed(candidates):
        if folder.can_resume():
            return _locked(folder.path) if lock else folder
    places = candidates[-1].path if candidates else Path("runs") / resolved.name
    raise UsageError(
        "there is nothing to resume in {folder}: no checkpoint was saved there\n"
        "Name the run: nanoscope train runs/NAME --init_from=resume. Or start a new one without "
        "--init_from.",
        folder=places,
    )


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


def resumed_config(folder: RunFolder, resolved: Resolved, saved: dict[str, Any] | None = None) -> Resumed:
    """The run's own settings with the command line applied. `saved`: those of nanoGPT's checkpoint, to resume that."""
    own = Resolved(resolved.config, "", {}, saved or resolved.given) if folder.nanogpt else resolve([str(folder.path)])
    saved = without_per_invocation(own.given)
    once = {key: resolved.given[key] for key in PER_INVOCATION if key in resolved.given}  # also from a file
    place = {"out_dir": str(folder.path), "init_from": saved.get("init_from", "scratch")}
    typed = {**resolved.typed, **once, **place}
    refused = [key for key in SHAPE_KEYS if key in typed and key in saved and typed[key] != saved[key]]
    if refused:
        lines = [
            Text(
                "{typed} was typed, the run was trained with {saved}",
                typed=f"{key}={typed[key]}", saved=f"{key}={saved[key]}",
            )
            for key in refused
        ]  # fmt: skip
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
            lasts = item.metadata["lasts"] == "run" and not now.eval_only
            (changed if lasts else for_session)[key] = values
    if changed and before.tokens_per_step != now.tokens_per_step:
        changed["tokens_per_step"] = before.tokens_per_step, now.tokens_per_step
    return changed, for_session


def _numbered(name: str) -> list[Path]:
    """Those of runs/NAME, runs/NAME-2, … that exist."""
    found: list[Path] = []
    while (path := Path("runs") / (name if not found else f"{name}-{len(found) + 1}")).exists():
        found.append(path)
    return found


def unused(name: str) -> RunFolder:
    """The last numbered folder if it has no checkpoints and no process trains there, else the next; locked."""
    number = max(len(_numbered(name)), 1)
    while True:
        with suppress(LockedError):
            folder = _locked(Path("runs") / (name if number == 1 else f"{name}-{number}"))
            if not folder.holds_run():
                return folder
            folder.release()
        number += 1


def _locked(path: Path) -> RunFolder:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from None
    return RunFolder(path, RunLock(path).acquire())


def _unwritable(path: Path, error: OSError) -> JobError:
    return JobError(
        "the run's folder {path} cannot be written: {reason}\nChoose another with --out_dir=FOLDER",
        path=path, reason=why(error),
    )  # fmt: skip


def _clear(path: Path) -> None:
    """Remove the files of an earlier run, and nothing else."""
    for name in OUR_FILES:
        (path / name).unlink(missing_ok=True)
    for name in OUR_FOLDERS:
        if (path / name).is_dir():
            shutil.rmtree(path / name)
