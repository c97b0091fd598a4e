"""Nanoscope's folders, files that a crash never leaves half written, and reading files that anyone may have written."""

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

from nanoscope.errors import JobError
from nanoscope.messages import Message

RUNS = Path("runs")  # one folder per training run
DATA = Path("data")  # one folder per prepared dataset

# Our largest JSON file, a vocabulary of 2^18 merges, has 4 MB. Parsed JSON takes up to 25 times its size in memory.
JSON_LIMIT_BYTES = 8 << 20


def cache_folder() -> Path:
    """Return the folder for downloads, probe results and compiled code: NANOSCOPE_CACHE or the user's cache folder."""
    import platformdirs  # imported late: `explain` also runs without it

    return Path(os.environ.get("NANOSCOPE_CACHE") or platformdirs.user_cache_dir("nanoscope"))


def write_atomically(path: Path, content: bytes | str, *, sync: bool = False) -> None:
    """Write to a temporary file next to `path`, then rename it. Readers see the old content or all of the new.

    Missing folders are created; text is written as UTF-8, as it is. With `sync`, the content is on the disk when this
    returns and survives a power failure.
    """
    make_folder(path.parent, sync=sync)
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        if sync:
            sync_to_disk(temporary)
        temporary.replace(path)
        if sync:
            sync_to_disk(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def make_folder(path: Path, *, sync: bool = True) -> None:
    """Make a folder, and those it is in, if there is none. With `sync`, it is still there after a power failure."""
    if not path.is_dir():
        make_folder(path.parent, sync=sync)
        path.mkdir(exist_ok=True)
        if sync:
            sync_to_disk(path.parent)


def sync_to_disk(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the disk itself."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open folders
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_plain_file(path: Path) -> bool:
    """Whether it is a file, not a link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def read_small(path: Path, limit_bytes: int = JSON_LIMIT_BYTES) -> bytes:
    """Return the content of a file that should be small; refuse larger files, devices and pipes."""
    if not path.is_file():
        missing = Message("{path} is missing", path=path)
        raise JobError(Message("{path} is not a file", path=path) if path.exists() else missing)
    with path.open("rb") as file:
        content = file.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise JobError(
            "{path} was not read: it is larger than {limit:,} bytes, the limit for such a file",
            path=path,
            limit=limit_bytes,
        )
    return content


def read_json(path: Path) -> Any:
    """Return the content of a small JSON file; ValueError if it is not JSON."""
    try:
        return json.loads(read_small(path).decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
