"""The folder of a run: where it is, and whether a new run may begin or an old one go on there. Imports no torch."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from nanoscope.config import KEYS, SHAPE_KEYS, TrainConfig, build
from nanoscope.config_sources import Resolved, resolve
from nanoscope.errors import JobError, UsageError

OUR_FILES = ("config.toml", "events.jsonl", "console.log", "report.html")
OUR_FOLDERS = ("checkpoints", "samples")


@dataclass(frozen=True)
class RunFolder:
    path: Path

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


def new_run(resolved: Resolved) -> RunFolder:
    """A folder for a run from the beginning; a run that has saved something is never overwritten unasked."""
    config = resolved.config
    if config.out_dir:
        folder = RunFolder(Path(config.out_dir))
        if folder.holds_run() and not config.overwrite:
            raise UsageError(
                f"{folder.path} already holds a run with checkpoints\n"
                f"Go on with it: --init_from=resume. Keep it: --out_dir=ANOTHER. Delete it: --overwrite=True"
            )
    else:
        folder = _unused(resolved.name) if not config.overwrite else RunFolder(Path("runs") / resolved.name)
    try:
        _clear(folder.path)
        folder.checkpoints.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobError(
            f"the run's folder {folder.path} cannot be written: {error.strerror}\nChoose another with --out_dir=FOLDER"
        ) from None
    return folder


def old_run(resolved: Resolved) -> RunFolder:
    """The folder of the run to go on with: out_dir, or the newest run of that name that has saved something."""
    if resolved.config.out_dir:
        candidates = [RunFolder(Path(resolved.config.out_dir))]
    else:
        candidates = [RunFolder(path) for path in _numbered(resolved.name)]
    for folder in reversed(candidates):
        if folder.holds_run():
            return folder
    places = candidates[-1].path if candidates else Path("runs") / resolved.name
    raise UsageError(
        f"there is nothing to resume in {places}: no checkpoint was saved there\n"
        "Name the run: nanoscope train runs/NAME --init_from=resume. Or leave --init_from out to begin anew."
    )


def resumed_config(folder: RunFolder, resolved: Resolved) -> tuple[TrainConfig, list[str]]:
    """The run's own settings, changed by what was typed; and a note on whatever else was given and is not used."""
    saved = resolve([str(folder.path)]).given if (folder.path / "config.toml").is_file() else resolved.given
    typed = {**resolved.typed, "out_dir": str(folder.path), "init_from": saved.get("init_from", "scratch")}
    refused = [key for key in SHAPE_KEYS if key in typed and key in saved and typed[key] != saved[key]]
    if refused:
        lines = [f"{key}={typed[key]} was typed, the run was trained with {key}={saved[key]}" for key in refused]
        raise UsageError(
            "\n".join([*lines, "The shape of a model cannot change on resume: leave these out, or begin a new run."])
        )
    notes = []
    for key, value in resolved.given.items():
        had = saved.get(key, KEYS[key].default)
        if key not in typed and key not in ("out_dir", "init_from") and value != had:
            notes.append(f"{key}={value} is not used: the run has {had}; type --{key}={value} to change it")
    return build({**saved, **typed}), notes


def checkpoint_folders(folder: Path) -> list[Path]:
    """The whole checkpoints in a folder, newest first."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if re.fullmatch(r"step-\d+", path.name) and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name[5:]), reverse=True)


def read_pointer(folder: Path, name: str) -> str | None:
    """The checkpoint that `last` or `best` names, if it is there."""
    try:
        target = (folder / name).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return target if re.fullmatch(r"step-\d+", target) and (folder / target).is_dir() else None


def _numbered(name: str) -> list[Path]:
    """runs/NAME, runs/NAME-2, … as far as they exist."""
    found: list[Path] = []
    while (path := Path("runs") / (name if not found else f"{name}-{len(found) + 1}")).exists():
        found.append(path)
    return found


def _unused(name: str) -> RunFolder:
    taken = _numbered(name)
    if taken and not RunFolder(taken[-1]).holds_run():  # it never came to save anything
        return RunFolder(taken[-1])
    return RunFolder(Path("runs") / (f"{name}-{len(taken) + 1}" if taken else name))


def _clear(path: Path) -> None:
    """Remove what a run of ours left there, and nothing else."""
    for name in OUR_FILES:
        (path / name).unlink(missing_ok=True)
    for name in OUR_FOLDERS:
        if (path / name).is_dir():
            shutil.rmtree(path / name)
