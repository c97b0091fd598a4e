"""The folder of a run: where it is, whether a run may start there. Imports no torch."""

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from nanoscope.checkpoint_files import (
    NANOGPT,
    OPTIMIZER,
    STATE,
    TOKENIZER,
    WEIGHTS,
    checkpoint_folders,
)
from nanoscope.config_sources import Resolved
from nanoscope.errors import JobError, UsageError, why
from nanoscope.files import is_plain_file, make_folder, sync_to_disk
from nanoscope.messages import printable
from nanoscope.runs.events import Start, decode
from nanoscope.training.lock import RunLock

OUR_FILES = ("config.toml", "console.log", "trackers.json")
OUR_FOLDERS = ("checkpoints", "samples", "windows", "tensorboard")
_CHECKPOINT = "|".join((WEIGHTS, OPTIMIZER, TOKENIZER, STATE))
_WRITTEN = (
    rf"last|best|(damaged-)?\.?step-\d+(\.old)?(-\d+)?/({_CHECKPOINT})|\.step-[\w.]+\.tmp/.*"
    r"|step-\d+\.txt|(last|best)\.bin|events\.out\.tfevents\..*"
)
WRITTEN = re.compile(rf"({'|'.join(OUR_FOLDERS)})/({_WRITTEN}|\.({_WRITTEN})\.[0-9a-f]{{8}}\.tmp)")
"""The files that a run writes into its folders, also under the temporary names of `write_atomically`."""
HEAD_BYTES = 1 << 16
TRAINED = (b'{"event":"iter"', b'{"event":"eval"')
SAVED = (b'{"event":"checkpoint"', b'{"event":"checkpoint_saved"')


@dataclass(frozen=True)
class RunFolder:
    given: Path
    lock: RunLock | None = field(default=None, compare=False)
    """Held by the process that trains in this folder."""

    @property
    def path(self) -> Path:
        """Looked up before every write: raises LockLostError if the folder is no longer this process's."""
        if self.lock is not None:
            self.lock.check()
        return self.given

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    def holds_run(self) -> bool:
        return bool(checkpoint_folders(self.checkpoints))

    def can_resume(self) -> bool:
        return self.holds_run() or (self.path / NANOGPT).is_file()

    def first_event(self) -> Start | None:
        """The first event of the run in this folder. If nanoscope has written one, the folder is ours."""
        if not is_plain_file(self.events):
            return None
        with self.events.open("rb") as file:
            event = decode(file.readline(HEAD_BYTES))
        return event if isinstance(event, Start) and event.nanoscope else None

    def has_event(self, events: tuple[bytes, ...]) -> bool:
        """Whether a line of events.jsonl begins with one of these."""
        if not is_plain_file(self.events):
            return False
        with self.events.open("rb") as file:
            return any(line.startswith(events) for line in file)

    def foreign_files(self) -> list[str]:
        """Files in the places of a run's own that are not provably from one of our runs. Empty ones don't count."""
        ours, found = self.first_event() is not None, []
        for name in (self.events.name, *OUR_FILES, *OUR_FOLDERS):
            for path in (self.path / name, *(self.path / name).rglob("*")):
                inside = path.relative_to(self.path).as_posix()
                known = WRITTEN.fullmatch(inside) or (inside == name and name not in OUR_FOLDERS)
                written = ours and known and is_plain_file(path)
                if os.path.lexists(path) and not written and not _is_plain_folder(path) and not _is_empty(path):
                    found.append(inside)
        return found

    def release(self) -> None:
        """Allow other processes to train in this folder."""
        if self.lock is not None:
            self.lock.release()


def _is_plain_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_empty(path: Path) -> bool:
    return not any(path.iterdir()) if path.is_dir() else is_plain_file(path) and path.stat().st_size == 0


def new_run(resolved: Resolved) -> RunFolder:
    """A locked folder for a new run. Removes another run if the user asks for that, and never anything else."""
    config, again = resolved.config, resolved.given.get("init_from") == "auto"
    if not config.out_dir and not config.overwrite:
        return next_free_folder(resolved.name, again=again)
    return _claim(Path(config.out_dir or f"runs/{resolved.name}"), again=again, overwrite=config.overwrite)


def next_free_folder(name: str, *, again: bool = False) -> RunFolder:
    """The last numbered folder if it can be used and no process trains there, else the next; locked."""
    number = max(len(numbered_folders(name)), 1)
    while True:
        with suppress(UsageError):
            return _claim(Path("runs") / (name if number == 1 else f"{name}-{number}"), again=again)
        number += 1


def _claim(path: Path, *, again: bool, overwrite: bool = False) -> RunFolder:
    """Lock a folder for a new run, or refuse it."""
    folder = lock_folder(path)
    try:
        if not overwrite:
            check_unused(folder, again=again)
        if (folder.path / NANOGPT).is_file():
            raise UsageError(
                "{path} holds a checkpoint of nanoGPT\nContinue it: nanoscope train {quoted} --init_from=resume. "
                "Or train in another folder: --out_dir=ANOTHER",
                path=folder.path,
                quoted=shlex.quote(str(folder.path)),
            )
        refuse_foreign_files(folder)
        with writing(path):
            if overwrite:
                _remove_run(folder)
            make_folder(folder.checkpoints)
    except BaseException:
        folder.release()
        raise
    return folder


def check_unused(folder: RunFolder, *, again: bool = False) -> None:
    """Refuse a folder that holds a run. `again`: one that has saved nothing may start over, in the same log."""
    if folder.holds_run() or folder.has_event(SAVED if again else (*SAVED, *TRAINED)):
        raise UsageError(
            "{path} already holds a run\n"
            "Resume it, if it has a checkpoint: --init_from=resume. Keep it: --out_dir=ANOTHER. "
            "Delete it: --overwrite=True",
            path=folder.path,
        )


def refuse_foreign_files(folder: RunFolder) -> None:
    if foreign := folder.foreign_files():
        raise UsageError(
            "{path} holds {names}, not known to be from a run of nanoscope: nothing was changed\n"
            "Train in another folder: --out_dir=ANOTHER. Or move that away first.",
            path=folder.path,
            names=", ".join(printable(name) for name in foreign[:5]),
        )


def numbered_folders(name: str) -> list[Path]:
    """The folders runs/NAME, runs/NAME-2, … up to the first that doesn't exist."""
    found: list[Path] = []
    while (path := Path("runs") / (name if not found else f"{name}-{len(found) + 1}")).exists():
        found.append(path)
    return found


def lock_folder(path: Path) -> RunFolder:
    with writing(path):
        make_folder(path)
    return RunFolder(path, RunLock(path).acquire())


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """JobError if something in the run's folder can't be written."""
    try:
        yield
    except OSError as error:
        raise JobError(
            "{folder} cannot be written: {reason}\nChoose another: --out_dir=DIR",
            folder=error.filename or path,
            reason=why(error),
        ) from None


def _remove_run(folder: RunFolder) -> None:
    """Remove a run of ours, without foreign files. Its first event goes last: it says whose the rest is."""
    for name in OUR_FOLDERS:
        if _is_plain_folder(folder.path / name):
            shutil.rmtree(folder.path / name)
    for name in OUR_FILES:
        (folder.path / name).unlink(missing_ok=True)
    sync_to_disk(folder.path)
    folder.events.unlink(missing_ok=True)
