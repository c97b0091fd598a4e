"""Token shards on disk, written aside in a folder that becomes the dataset by one rename when it is whole."""

import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from nanoscope.data.dataset import META, read_meta
from nanoscope.data.tokenizer import TokenArray, Tokenizer, dtype_for
from nanoscope.errors import JobError

SHARD_TOKENS = 1 << 28
BATCH_CHARACTERS = 1 << 18  # encoded at a time; bounds the memory


class SplitWriter:
    """Encodes the documents of one split and writes them as raw little-endian shards."""

    def __init__(self, folder: Path, name: str, tokenizer: Tokenizer, separate_documents: bool) -> None:
        self._folder, self._name, self._tokenizer = folder, name, tokenizer
        end, dtype = tokenizer.end_of_text, dtype_for(tokenizer.vocab_size)
        self._newline_after = "\n" if separate_documents and end is None else ""
        self._end_of_text = np.array([end], dtype) if separate_documents and end is not None else None
        self._rest = ""  # of the present document, not yet known where to cut
        self._batch: list[tuple[str, bool]] = []
        self._batch_characters = 0
        self._shards: list[dict[str, Any]] = []
        self.characters = self.bytes = self.tokens = 0
        self.digest = hashlib.sha256()

    def add(self, text: str, ends_document: bool) -> None:
        """Append the next part of a document."""
        text, start = self._rest + text + (self._newline_after if ends_document else ""), 0
        while len(text) - start > BATCH_CHARACTERS:
            cut = word_boundary(text, start, start + BATCH_CHARACTERS)
            self._enqueue(text[start:cut], ends_document=False)
            start = cut
        self._rest = text[start:]
        if ends_document:
            self._enqueue(self._rest, ends_document=True)
            self._rest = ""

    def close(self) -> dict[str, Any]:
        """Write what is left; the split's entry in meta.json."""
        if self._rest:
            self._enqueue(self._rest, ends_document=False)
        self._encode_batch()
        for shard in self._shards:
            _sync(self._folder / shard["name"])
        return {
            "tokens": self.tokens,
            "characters": self.characters,
            "bytes": self.bytes,
            "shards": self._shards,
        }

    def _enqueue(self, text: str, ends_document: bool) -> None:
        if self._batch_characters + len(text) > BATCH_CHARACTERS:
            self._encode_batch()
        self._batch.append((text, ends_document))
        self._batch_characters += len(text)

    def _encode_batch(self) -> None:
        texts = [text for text, _ in self._batch]
        self.characters += self._batch_characters
        self.bytes += sum(len(text.encode()) for text in texts)
        if self._end_of_text is None:
            arrays = self._tokenizer.encode_batch(texts)
        else:
            arrays = []
            for (_, ends_document), ids in zip(self._batch, self._tokenizer.encode_batch(texts), strict=True):
                arrays += [ids, self._end_of_text] if ends_document else [ids]
        self._batch, self._batch_characters = [], 0
        if arrays:
            self._write(arrays[0] if len(arrays) == 1 else np.concatenate(arrays))

    def _write(self, ids: TokenArray) -> None:
        self.digest.update(ids.data)
        self.tokens += ids.size
        while ids.size:
            if not self._shards or self._shards[-1]["tokens"] == SHARD_TOKENS:
                self._shards.append({"name": f"{self._name}-{len(self._shards):05d}.bin", "tokens": 0})
            shard = self._shards[-1]
            part, ids = np.split(ids, [SHARD_TOKENS - shard["tokens"]])
            # Opened for each batch: an open file could not be removed on Windows if anything goes wrong.
            with (self._folder / shard["name"]).open("ab") as file:
                file.write(part.data)
            shard["tokens"] += part.size


def word_boundary(text: str, start: int, end: int) -> int:
    """The last place up to `end` where white space follows something else: no BPE merge goes across it.

    Text without such a place is cut at `end`, to bound the memory.
    """
    place = end + 1
    while True:
        place = max(text.rfind(" ", start + 1, place), text.rfind("\n", start + 1, place))
        if place < 0:
            return end
        if not text[place - 1].isspace():
            return place


@contextmanager
def written_aside(out: Path, overwrite: bool) -> Iterator[Path]:
    """A temporary folder beside `out` that takes its place at the end, or vanishes if anything goes wrong."""
    aside, replaced = (
        out.parent / f".{out.name}.{state}-{_this_machine()}-{os.getpid()}" for state in ("preparing", "replaced")
    )
    _check_replaceable(out, overwrite)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(out)
        aside.mkdir()
        yield aside
        _sync(aside)
        _check_replaceable(out, overwrite)  # someone else may have been quicker
        if out.exists():
            out.rename(replaced)
        try:
            aside.rename(out)
        except OSError:
            replaced.rename(out)
            raise
        _sync(out.parent)
    except OSError as error:
        raise JobError(
            f"The dataset could not be written to {out}: {error.strerror or error}.\n"
            "Nothing was kept. Make room or choose another folder with --out."
        ) from error
    finally:
        for folder in (aside, replaced):
            shutil.rmtree(folder, ignore_errors=True)


def write_meta(folder: Path, meta: dict[str, Any]) -> None:
    """Write meta.json, the last file of a dataset."""
    with (folder / META).open("w", encoding="utf-8") as handle:
        json.dump(meta, handle, ensure_ascii=False, separators=(",", ":"))
    _sync(folder / META)


def _check_replaceable(out: Path, overwrite: bool) -> None:
    """Refuse an `out` that holds anything but a dataset of ours, which --overwrite allows to replace."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / META).is_file():
        raise JobError(f"{out} exists and is not a dataset of nanoscope's: choose another folder with --out.")
    if overwrite:
        return
    read_meta(out)
    raise JobError(
        f"{out} already holds a prepared dataset; it was left as it is.\n"
        "Add --overwrite to replace it, or choose another folder with --out."
    )


def _this_machine() -> str:
    return re.sub(r"\W", "_", platform.node())


def _remove_leftovers(out: Path) -> None:
    """Remove what a killed preparation of the same `out` left behind on this machine."""
    name = re.compile(rf"\.{re.escape(out.name)}\.(preparing|replaced)-{_this_machine()}-(\d+)")
    for path in out.parent.iterdir():
        if leftover := name.fullmatch(path.name):
            process = int(leftover[2])  # a container may give every process the same number
            if process == os.getpid() or not psutil.pid_exists(process):
                shutil.rmtree(path, ignore_errors=True)


def _sync(path: Path) -> None:
    """Make sure that a file or a folder is on the disk, not only on its way there."""
    if path.is_dir() and os.name != "posix":
        return  # elsewhere a folder cannot be opened
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
