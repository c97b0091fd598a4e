"""Power cuts: what a run has written is replayed with everything missing that was not on the disk yet.

The training process records its own file operations (`record`, run as `python tests/power_cuts.py LOG DISK WORD…`): at
every fsync, rename, deletion and new folder it looks at the whole folder, so that it sees what native code wrote as
well (safetensors). From that come the states in which a power cut may leave the disk, as ALICE and CrashMonkey make
them: of a file, what was there at its last fsync is certain, of a folder the names at its last fsync. Each later
change is there or not, independent of the others: files are empty, cut off or as they were before, names are missing,
renamed or deleted ones are back. That is more than any one file system does.

tests/training/test_power_cuts.py tries some cuts, benchmarks/power_cuts.py as many as you like.
"""

import contextlib
import io
import os
import pickle
import random
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nanoscope import cli
from nanoscope.checkpoint_files import OPTIMIZER, WEIGHTS, checkpoint_folders
from nanoscope.config import toml_value
from small_runs import Folder

Node = tuple[int, int]
"""A file or folder: its inode, and how often that number was used before."""
Names = dict[str, Node]
DISK, RUN = "disk", "disk/run"


@dataclass(frozen=True)
class Moment:
    """The whole disk after an operation."""

    operation: str
    folders: dict[Node, Names]
    files: dict[Node, bytes]
    synced: Node | None
    """What this operation has put on the disk for certain."""


# --- in the process that trains ----------------------------------------------------------------------------------


class Recorder:
    def __init__(self, disk: Path) -> None:
        self.disk, self.moments = disk, list[Moment]()
        self._uses: dict[int, int] = {}
        self._known: dict[int, tuple[int, int, bytes]] = {}  # inode → time, size and content
        self._lock = threading.RLock()

    def look(self, operation: str, synced: int | None = None) -> None:
        with self._lock:
            folders: dict[Node, Names] = {}
            files: dict[Node, bytes] = {}
            self._look(self.disk, folders, files)
            for inode in self._known.keys() - {node[0] for node in (*folders, *files)}:
                del self._known[inode]
                self._uses[inode] = self._uses.get(inode, 0) + 1
            node = None if synced is None else (synced, self._uses.get(synced, 0))
            self.moments.append(Moment(operation, folders, files, node if node in {**folders, **files} else None))

    def _look(self, path: Path, folders: dict[Node, Names], files: dict[Node, bytes]) -> Node | None:
        try:
            status = path.lstat()
            node = status.st_ino, self._uses.get(status.st_ino, 0)
            if stat.S_ISDIR(status.st_mode):
                found = {name: self._look(path / name, folders, files) for name in sorted(os.listdir(path))}  # noqa: PTH208
                folders[node] = {name: inner for name, inner in found.items() if inner is not None}
                self._known[node[0]] = 0, 0, b""
                return node
            version = status.st_mtime_ns, status.st_size
            if self._known.get(node[0], ())[:2] != version:
                self._known[node[0]] = *version, path.read_bytes()
            files[node] = self._known[node[0]][2]
        except OSError:  # deleted by another thread in the meantime
            return None
        return node

    def watch(self, name: str) -> None:
        """Look before and after each call of a function of `os`."""
        function: Callable[..., Any] = getattr(os, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            what = " ".join([name, *(str(word) for word in arguments if isinstance(word, str | Path))])
            self.look(f"before {what}")
            result = function(*arguments, **options)
            self.look(what, os.fstat(arguments[0]).st_ino if name == "fsync" else None)
            return result

        setattr(os, name, watched)


def record(log: str, disk: str, *words: str) -> int:
    """The command `nanoscope WORD…`, whose file operations in the folder `disk` are written to `log`."""
    recorder = Recorder(Path(disk).absolute())
    for name in ("fsync", "rename", "replace", "unlink", "remove", "rmdir", "mkdir"):
        recorder.watch(name)
    recorder.look("nothing yet")
    status = cli.run(list(words))
    recorder.look("the end")
    Path(log).write_bytes(pickle.dumps([tuple(vars(moment).values()) for moment in recorder.moments]))
    return status


# --- what a cut leaves -------------------------------------------------------------------------------------------


@dataclass
class Disk:
    """What is certain to be on the disk, and what has changed since."""

    names: dict[Node, Names] = field(default_factory=dict)
    changes: dict[Node, list[dict[str, Node | None]]] = field(default_factory=dict)
    """Of the names in a folder; those of one operation belong together, so that a rename is one change."""
    contents: dict[Node, bytes] = field(default_factory=dict)
    now: Moment | None = None

    def advance(self, moment: Moment) -> None:
        for node, names in moment.folders.items():
            before = self.now.folders.get(node, {}) if self.now else {}
            change = {name: names.get(name) for name in before | names if before.get(name) != names.get(name)}
            if change:
                self.changes.setdefault(node, []).append(change)
        self.now = moment
        if moment.synced in moment.folders:
            self.names[moment.synced] = moment.folders[moment.synced]
            self.changes[moment.synced] = []
        elif moment.synced in moment.files:
            self.contents[moment.synced] = moment.files[moment.synced]


def tree(disk: Disk, root: Node, kept: Callable[[], bool], content: Callable[[bytes, bytes], bytes]) -> dict[str, Any]:
    """The disk after a cut: `kept` says whether a change of names was kept, `content` what is left of a file."""
    names = dict(disk.names.get(root, {}))
    for change in disk.changes.get(root, []):
        if kept():
            names |= change  # type: ignore[arg-type]
    found: dict[str, Any] = {}
    assert disk.now is not None
    for name, node in names.items():
        if node in disk.now.folders or node in disk.names or node in disk.changes:
            found[name] = tree(disk, node, kept, content)
        elif node is not None:
            certain = disk.contents.get(node, b"")
            found[name] = content(certain, disk.now.files.get(node, certain))
    return found


def ways(chooser: random.Random) -> dict[str, tuple[Callable[[], bool], Callable[[bytes, bytes], bytes]]]:
    """How much of what is not certain reaches the disk."""

    def torn(certain: bytes, now: bytes) -> bytes:
        return now[: chooser.randint(min(len(certain), len(now)), len(now))]

    def any_of(certain: bytes, now: bytes) -> bytes:
        return chooser.choice([certain, now, torn(certain, now)])

    return {
        "nothing": (lambda: False, lambda certain, now: certain),
        "names without data": (lambda: True, lambda certain, now: certain),
        "names, files cut off": (lambda: True, torn),
        "all": (lambda: True, lambda certain, now: now),
        "some changes": (lambda: chooser.random() < 0.5, any_of),
        "most changes": (lambda: chooser.random() < 0.85, any_of),
    }


@dataclass(frozen=True)
class Cut:
    moment: int
    operation: str
    way: str
    saved: int
    """The step of the newest checkpoint that the run had reported."""
    phase: str
    left: dict[str, Any]


def cuts(moments: list[Moment], chooser: random.Random) -> Iterator[Cut]:
    """A cut after every operation, in every way that leaves the disk in a state that no earlier one did."""
    disk, seen, root = Disk(), set[bytes](), next(iter(moments[0].folders))  # the disk is empty
    for number, moment in enumerate(moments):
        disk.advance(moment)
        for way, choices in ways(chooser).items():
            left = tree(disk, root, *choices)
            state = pickle.dumps(left)
            if state not in seen:
                seen.add(state)
                log = b"".join(content for content in moment.files.values() if content.startswith(b'{"event":"start"'))
                yield Cut(number, moment.operation, way, _saved(log), _phase(moment.operation, log), left)


def _saved(log: bytes) -> int:
    lines = [line for line in log.splitlines() if line.startswith(b'{"event":"checkpoint"')]
    return int(lines[-1].split(b'"step":')[1].split(b",")[0]) if lines else 0


def _phase(operation: str, log: bytes) -> str:
    signs = {".pruned.": "pruning", "/last": "pointers", "/best": "pointers", "/.step-": "saving"}
    for sign, phase in signs.items():
        if sign in operation.rpartition(DISK)[2]:
            return phase
    kinds = [line.split(b'"')[3] for line in log.splitlines() if line.startswith(b'{"event":"')]
    return "ending" if b"end" in kinds else "training" if b"iter" in kinds else "starting"


# --- what becomes of the run -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recording:
    """A run that was not disturbed, what it wrote and when."""

    folder: Folder
    settings: dict[str, Any]
    cuts: list[Cut]
    end: dict[str, bytes]


def recorded(folder: Folder, settings: dict[str, Any], chooser: random.Random) -> Recording:
    """Train in a process of its own."""
    (folder.path / DISK).mkdir()
    lines = [f"{key} = {toml_value(value)}\n" for key, value in settings.items()]
    (folder.path / "settings.toml").write_text("".join(lines), "utf-8")
    command = [sys.executable, __file__, "log", DISK, *_words(settings)]
    subprocess.run(command, cwd=folder.path, env=folder.environment, check=True, stdout=subprocess.DEVNULL)
    moments = [Moment(*fields) for fields in pickle.loads((folder.path / "log").read_bytes())]
    return Recording(folder, settings, list(cuts(moments, chooser)), _end(folder, settings))


def _words(settings: dict[str, Any]) -> list[str]:
    """What is typed; the other settings are in a file, and a resume must know them by itself."""
    return ["train", "settings.toml", f"--out_dir={RUN}", "--dataset=data/tiny", f"--max_iters={settings['max_iters']}"]


def _end(folder: Folder, settings: dict[str, Any]) -> dict[str, bytes]:
    last = folder.path / RUN / f"checkpoints/step-{settings['max_iters']:06d}"
    return {name: (last / name).read_bytes() for name in (WEIGHTS, OPTIMIZER) if (last / name).is_file()}


def outcome(recording: Recording, cut: Cut) -> tuple[str, str]:
    """Continue after a cut, as a restarted job does: what came of it, and what is wrong with that, if anything is."""
    folder = recording.folder
    put_back(cut.left, folder.path / DISK)
    before = _files(folder.path / DISK)
    words = [*_words(recording.settings), "--init_from=auto"]
    if cut.moment % 2 and checkpoint_folders(folder.path / RUN / "checkpoints"):  # as a person does
        words = ["train", RUN, "--init_from=resume"]
    output = io.StringIO()
    with contextlib.chdir(folder.path), redirect_stdout(output), redirect_stderr(output):
        status = cli.run(words)
    said = output.getvalue()
    if status:
        clear = "This is a bug" not in said and _files(folder.path / DISK) == before and not cut.saved
        return "refused", "" if clear else f"exit status {status}: {said.strip()[-300:]}"
    resumed = [int(line.split()[3]) for line in said.splitlines() if line.startswith("resuming at iteration ")]
    if _end(folder, recording.settings) != recording.end:
        return "differs", f"other weights at the end: {said.strip()[:300]}"
    if (resumed or [0])[0] < cut.saved and "nothing to train" not in said:
        return "lost", f"resumed at {resumed} though checkpoint {cut.saved} was reported"
    return ("resumed" if resumed else "finished before" if "nothing to train" in said else "begun anew"), ""


def _files(folder: Path) -> dict[str, bytes]:
    """Without those of the lock, which nobody holds after a cut."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and "lock" not in path.name}


def put_back(left: dict[str, Any], folder: Path) -> None:
    """Make the folder what a cut has left of it."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    for name, content in left.items():
        if isinstance(content, dict):
            put_back(content, folder / name)
        else:
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    sys.exit(record(*sys.argv[1:]))
