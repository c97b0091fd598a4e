"""The folder of a run: where it is, whether a run may start or resume there, with which settings. Imports no torch."""

import os
import re
import shlex
import shutil
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nanoscope.checkpoint_files import (
    LAST,
    NANOGPT,
    OPTIMIZER,
    STATE,
    TOKENIZER,
    WEIGHTS,
    checkpoint_folders,
    read_pointer,
)
from nanoscope.config import KEYS, PER_INVOCATION, RUN_NOTES, SHAPE_KEYS, TrainConfig, build, without_per_invocation
from nanoscope.config_sources import Resolved, read_run_config, resolve
from nanoscope.errors import JobError, UsageError, why
from nanoscope.files import make_folder, sync_to_disk
from nanoscope.messages import Joined, Text, printable
from nanoscope.runs.events import Start, decode
from nanoscope.runs.glance import glance, is_plain_file
from nanoscope.training.lock import LockedError, RunLock

OUR_FILES = ("config.toml", "console.log", "trackers.json", ".trackers.lock")
_CHECKPOINT = "|".join((WEIGHTS, OPTIMIZER, TOKENIZER, STATE)).replace(".", r"\.")
OUR_FOLDERS = {
    "checkpoints": rf"last|best|(damaged-)?\.?step-\d+(\.old)?(-\d+)?/({_CHECKPOINT})|\.step-[\w.]+\.tmp/.*",
    "samples": r"step-\d+\.txt",
    "windows": r"(last|best)\.bin",
    "tensorboard": r"events\.out\.tfevents\..*",
}
"""Folder → the files in it that a run writes, also under the temporary names of `write_atomically`."""
HEAD_BYTES = 1 << 16
TRAINED = (b'{"event":"iter"', b'{"event":"eval"')
SAVED = (b'{"event":"checkpoint"', b'{"event":"checkpoint_saved"')


@dataclass(frozen=True)
class RunFolder:
    given: Path
    lock: RunLock | None = field(default=None, compare=False)
    """Held by the process that trains in this folder."""
    nanogpt: Path | None = None
    """nanoGPT's checkpoint, if that is what is resumed here; it is read and never changed."""

    @property
    def path(self) -> Path:
        """Where the folder is now. The process that trains asks before every write: LockLostError if it may not."""
        return self.given if self.lock is None else self.lock.place()

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

    def can_resume(self) -> bool:
        return self.holds_run() or (self.path / NANOGPT).is_file()

    def first_event(self) -> Start | None:
        """The start of the run that the folder is of: that it is there makes the folder ours."""
        if not is_plain_file(self.events):
            return None
        with self.events.open("rb") as file:
            event = decode(file.readline(HEAD_BYTES))
        return event if isinstance(event, Start) and event.nanoscope else None

    def says(self, events: tuple[bytes, ...]) -> bool:
        """Whether the events of the run have one of these."""
        if not is_plain_file(self.events):
            return False
        with self.events.open("rb") as file:
            return any(line.startswith(events) for line in file)

    def foreign(self) -> list[str]:
        """What is where a run writes, but is not provably of a run of ours. Empty files and folders don't count."""
        ours, found = self.first_event() is not None, []
        for name in (self.events.name, *OUR_FILES):
            file = self.path / name
            if (not ours or not is_plain_file(file)) and os.path.lexists(file) and not _is_empty(file):
                found.append(name)
        for name, written in OUR_FOLDERS.items():
            place = self.path / name
            if not os.path.lexists(place) or _is_empty(place):
                continue
            if not ours or place.is_symlink() or not place.is_dir():
                found.append(name)
                continue
            inside = [file.relative_to(place).as_posix() for file in place.rglob("*") if not _is_plain_folder(file)]
            pattern = re.compile(rf"{written}|\.({written})\.[0-9a-f]{{8}}\.tmp")
            found += [f"{name}/{file}" for file in inside if not pattern.fullmatch(file) or (place / file).is_symlink()]
        return found

    def release(self) -> None:
        """Allow other processes to train in this folder."""
        if self.lock is not None:
            self.lock.release()


def _is_plain_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_empty(path: Path) -> bool:
    return not any(path.iterdir()) if path.is_dir() else is_plain_file(path) and path.stat().st_size == 0


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
    places = [Path(resolved.config.out_dir)] if resolved.config.out_dir else _numbered(resolved.name)
    return places[-1] if places else None


def new_run(resolved: Resolved) -> RunFolder:
    """A locked folder for a new run. Another run in it is removed only if the user asks for it, and nothing else is."""
    config, again = resolved.config, resolved.given.get("init_from") == "auto"
    if not config.out_dir and not config.overwrite:
        return unused(resolved.name, again=again)
    return _made_ready(Path(config.out_dir or f"runs/{resolved.name}"), again=again, overwrite=config.overwrite)


def unused(name: str, *, again: bool = False) -> RunFolder:
    """The last numbered folder if it can be used and no process trains there, else the next; locked."""
    number = max(len(_numbered(name)), 1)
    while True:
        with suppress(LockedError, UsageError):
            return _made_ready(Path("runs") / (name if number == 1 else f"{name}-{number}"), again=again)
        number += 1


def _made_ready(path: Path, *, again: bool, overwrite: bool = False) -> RunFolder:
    """Lock a folder for a new run, or refuse it."""
    folder = _locked(path)
    try:
        if not overwrite:
            _check_unused(folder, again=again)
        _check_room(folder)
        if overwrite:
            _remove_run(folder)
        make_folder(folder.checkpoints)
    except OSError as error:
        folder.release()
        raise _unwritable(folder.path, error) from None
    except (UsageError, JobError):
        folder.release()
        raise
    return folder


def _check_unused(folder: RunFolder, *, again: bool) -> None:
    """Refuse a folder with a run. `again`: one that has not saved anything yet may begin once more, in the same log."""
    if folder.holds_run():
        raise UsageError(
            "{path} already holds a run with checkpoints\n"
            "Resume it: --init_from=resume. Keep it: --out_dir=ANOTHER. Delete it: --overwrite=True",
            path=folder.path,
        )
    if folder.says(SAVED if again else (*SAVED, *TRAINED)):
        raise UsageError(
            "{path} already holds a run, whose checkpoints are not there\n"
            "Keep its log: --out_dir=ANOTHER. Delete it: --overwrite=True",
            path=folder.path,
        )


def _check_room(folder: RunFolder) -> None:
    """Refuse a folder in which something would have to make way that nanoscope has not provably written."""
    if (folder.path / NANOGPT).is_file():
        raise UsageError(
            "{path} holds a checkpoint of nanoGPT\nContinue it: nanoscope train {quoted} --init_from=resume. "
            "Or train in another folder: --out_dir=ANOTHER",
            path=folder.path,
            quoted=shlex.quote(str(folder.path)),
        )
    _check_foreign(folder)


def _check_foreign(folder: RunFolder) -> None:
    if foreign := folder.foreign():
        raise UsageError(
            "{path} holds {names}, not known to be from a run of nanoscope: nothing was changed\n"
            "Train in another folder: --out_dir=ANOTHER. Or move that away first.",
            path=folder.path,
            names=", ".join(printable(name) for name in foreign[:5]),
        )


def old_run(resolved: Resolved, *, lock: bool = False) -> RunFolder:
    """The folder of the run to resume: out_dir, or the newest run of that name with checkpoints.

    `lock`: this process will write there.
    """
    if resolved.config.out_dir:
        candidates = [RunFolder(Path(resolved.config.out_dir))]
    else:
        candidates = [RunFolder(path) for path in _numbered(resolved.name)]
    for folder in reversed(candidates):
        if folder.can_resume() or resolved.named == NANOGPT:
            nanogpt = _nanogpt_to_resume(folder, resolved)
            if not lock:
                return replace(folder, nanogpt=nanogpt)
            return replace(_locked(folder.path), nanogpt=nanogpt)
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
        _check_foreign(folder)
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
    for path in reversed(_numbered(resolved.name)):
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
    if folder.nanogpt and RUN_NOTES not in read_run_config(folder.path)[0]:
        own = replace(resolved, given=saved or resolved.given, notes=[])
    else:
        own = resolve([str(folder.path)])
    saved = without_per_invocation(own.given)
    once = {key: resolved.given[key] for key in PER_INVOCATION if key in resolved.given}  # also from a file
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


def _locked(path: Path) -> RunFolder:
    try:
        make_folder(path)
    except OSError as error:
        raise _unwritable(path, error) from None
    return RunFolder(path, RunLock(path).acquire())


def _unwritable(path: Path, error: OSError) -> JobError:
    return JobError(
        "the run's folder {path} cannot be written: {reason}\nChoose another with --out_dir=FOLDER",
        path=path,
        reason=why(error),
    )


def _remove_run(folder: RunFolder) -> None:
    """Remove a run of ours, in which `foreign` finds nothing. Its first event goes last: it says whose the rest is."""
    for name in OUR_FOLDERS:
        if _is_plain_folder(folder.path / name):
            shutil.rmtree(folder.path / name)
    for name in OUR_FILES:
        (folder.path / name).unlink(missing_ok=True)
    sync_to_disk(folder.path)
    folder.events.unlink(missing_ok=True)
