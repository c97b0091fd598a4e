"""Writing a dataset: token shards in a temporary folder, which is renamed to the dataset when it is complete."""

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import psutil

from nanoscope.data.dataset import META, DatasetMeta, Shard, SplitMeta, read_meta
from nanoscope.data.tokenizer import TokenArray, Tokenizer, dtype_for
from nanoscope.errors import JobError, why
from nanoscope.files import sync_to_disk

SHARD_TOKENS = 1 << 28
BATCH_CHARACTERS = 1 << 18  # encoded at once; bounds the memory


class SplitWriter:
    """Encodes the documents of one split and writes raw little-endian shards."""

    def __init__(self, folder: Path, name: str, tokenizer: Tokenizer, separate_documents: bool) -> None:
        self._folder, self._name, self._tokenizer = folder, name, tokenizer
        end, dtype = tokenizer.end_of_text, dtype_for(tokenizer.vocab_size)
        self._newline_after = "\n" if separate_documents and end is None else ""
        self._end_of_text = np.array([end], dtype) if separate_documents and end is not None else None
        self._rest = ""  # the end of the current document, not yet cut at a word boundary
        self._batch: list[tuple[str, bool]] = []
        self._batch_characters = 0
        self._meta = SplitMeta(tokens=0, characters=0, bytes=0, shards=[])
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

    def close(self) -> SplitMeta:
        """Write the rest; return the entry of the split in meta.json."""
        if self._rest:
            self._enqueue(self._rest, ends_document=False)
        self._encode_batch()
        for shard in self._meta.shards:
            sync_to_disk(self._folder / shard.name)
        return self._meta

    def _enqueue(self, text: str, ends_document: bool) -> None:
        if self._batch_characters + len(text) > BATCH_CHARACTERS:
            self._encode_batch()
        self._batch.append((text, ends_document))
        self._batch_characters += len(text)

    def _encode_batch(self) -> None:
        texts = [text for text, _ in self._batch]
        self._meta.characters += self._batch_characters
        self._meta.bytes += sum(len(text.encode()) for text in texts)
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
        self._meta.tokens += ids.size
        shards = self._meta.shards
        while ids.size:
            if not shards or shards[-1].tokens == SHARD_TOKENS:
                shards.append(Shard(f"{self._name}-{len(shards):05d}.bin", tokens=0))
            shard = shards[-1]
            part, ids = np.split(ids, [SHARD_TOKENS - shard.tokens])
            # Opened for each batch, because Windows cannot remove an open file if anything goes wrong.
            with (self._folder / shard.name).open("ab") as file:
                file.write(part.data)
            shard.tokens += part.size


def word_boundary(text: str, start: int, end: int) -> int:
    """Return the last position up to `end` where white space follows something else: no BPE merge crosses it.

    Text without such a position is cut at `end`, to bound the memory.
    """
    place = end + 1
    while True:
        place = max(text.rfind(" ", start + 1, place), text.rfind("\n", start + 1, place))
        if place < 0:
            return end
        if not text[place - 1].isspace():
            return place


@contextmanager
def dataset_folder(out: Path, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary folder next to `out` that replaces it at the end, or is removed if anything goes wrong."""
    temporary, replaced = (
        out.parent / f".{out.name}.{state}-{_this_machine()}-{os.getpid()}" for state in ("preparing", "replaced")
    )
    _check_replaceable(out, overwrite)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(out)
        temporary.mkdir()
        yield temporary
        sync_to_disk(temporary)
        _check_replaceable(out, overwrite)  # another process may have been faster
        if out.exists():
            out.rename(replaced)
        try:
            temporary.rename(out)
        except OSError:
            replaced.rename(out)
            raise
        sync_to_disk(out.parent)
    except OSError as error:
        raise JobError(
            "The dataset could not be written to {out}: {reason}.\n"
            "Nothing was kept. Free some space, or choose another folder with --out.",
            out=out,
            reason=why(error),
        ) from error
    finally:
        for folder in (temporary, replaced):
            shutil.rmtree(folder, ignore_errors=True)


def write_meta(folder: Path, meta: DatasetMeta) -> None:
    """Write meta.json, the last file of a dataset."""
    (folder / META).write_bytes(msgspec.json.encode(meta))
    sync_to_disk(folder / META)


def _check_replaceable(out: Path, overwrite: bool) -> None:
    """Raise JobError unless `out` is free, or holds a dataset that --overwrite allows to replace."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / META).is_file():
        raise JobError("{out} exists and is not a dataset of nanoscope: choose another folder with --out.", out=out)
    if overwrite:
        return
    read_meta(out)
    raise JobError(
        "{out} already contains a prepared dataset, which was not changed.\n"
        "Add --overwrite to replace it, or choose another folder with --out.",
        out=out,
    )


def _this_machine() -> str:
    return re.sub(r"\W", "_", platform.node())


def _remove_leftovers(out: Path) -> None:
    """Remove what killed preparations of the same `out` left behind on this machine."""
    name = re.compile(rf"\.{re.escape(out.name)}\.(preparing|replaced)-{_this_machine()}-(\d+)")
    for path in out.parent.iterdir():
        if leftover := name.fullmatch(path.name):
            process = int(leftover[2])  # in containers every process may have the same number
            if process == os.getpid() or not psutil.pid_exists(process):
                shutil.rmtree(path, ignore_errors=True)
