"""Writing files so that a crash or a full disk never leaves half of one, and their checksums."""

import hashlib
import os
import secrets
from pathlib import Path


def write_atomically(path: Path, content: bytes | str, *, sync: bool = False) -> None:
    """Write to a temporary file next to `path`, then rename it. Readers see the old content or all of the new.

    Missing folders are created; text is written as UTF-8, as it is. With `sync`, the content is on the disk when this
    returns and survives a power failure.
    """
    make_folder(path.parent, sync=sync)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
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


Identity = tuple[int, int]


def identity(path: Path) -> Identity | None:
    """What a file or folder keeps when it is renamed; None if there is none. Raises OSError if that can't be told."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
