"""A dataset in a folder, shards of token ids with a meta.json: reading it, or nanoGPT's, and writing it."""

import hashlib
import os
import shlex
import shutil
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from filelock import FileLock

from nanoscope.data.plain_pickle import load_plain
from nanoscope.data.tokenizer import CharTokenizer, Gpt2Tokenizer, TokenArray, Tokenizer, dtype_for, tokenizer_from_json
from nanoscope.errors import JobError, why
from nanoscope.files import read_small, sync_to_disk
from nanoscope.messages import Message, printable

VERSION = 1
META = "meta.json"
Split = Literal["train", "val"]
SPLITS: tuple[Split, ...] = ("train", "val")
NANOGPT_VOCAB_SIZE = 50304  # without a meta.pkl: GPT-2's 50257, rounded up to a multiple of 64
SHARD_TOKENS = 1 << 28
PIECE_CHARACTERS, PIECES = 1 << 18, 4  # so many pieces of a text are encoded at once, on several cores

Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
Positive = Annotated[int, msgspec.Meta(gt=0, lt=2**62)]


class Shard(msgspec.Struct):
    """A file of a split; shard 3 of the training split is train-00003.bin."""

    name: str
    tokens: Positive


class SplitMeta(msgspec.Struct):
    tokens: Count
    characters: Count
    bytes: Count
    shards: Annotated[list[Shard], msgspec.Meta(min_length=1)]


class DatasetMeta(msgspec.Struct, tag_field="format", tag="nanoscope-dataset"):
    """The content of meta.json."""

    version: int
    sources: list[str]
    documents: Count
    skipped_files: Count
    vocab_size: Positive
    dtype: str
    splits: Annotated[dict[Split, SplitMeta], msgspec.Meta(min_length=len(SPLITS))]
    fingerprint: str
    tokenizer: dict[str, Any]


class NanogptMeta(msgspec.Struct):
    """The content of nanoGPT's meta.pkl."""

    vocab_size: Annotated[int, msgspec.Meta(gt=0, le=1 << 16)]
    itos: Any = None
    """The text of each id, unless its prepare.py was written for another tokenizer."""


# --- reading -----------------------------------------------------------------------------------------------------


class TokenSplit:
    """The tokens of one split: its named shards, read like one array."""

    def __init__(self, shards: Mapping[Path | str, TokenArray], vocab_size: int) -> None:
        self._paths, self._arrays, self._vocab_size = list(shards), list(shards.values()), vocab_size
        self._ends = np.cumsum([len(array) for array in self._arrays]).tolist()

    def __len__(self) -> int:
        return int(self._ends[-1])

    def read(self, start: int, count: int) -> TokenArray:
        """Return `count` tokens from `start` on, each checked against the size of the vocabulary."""
        parts: list[TokenArray] = []
        shard = bisect_right(self._ends, start)
        while count:
            array = self._arrays[shard]
            first = start - (self._ends[shard] - len(array))
            part = array[first : first + count]
            if part.max() >= self._vocab_size:
                raise JobError(
                    "{path} contains the token id {largest}, but the vocabulary ends at {last}.\n"
                    "The file is damaged or made with another tokenizer: prepare it again.",
                    path=self._paths[shard],
                    largest=part.max(),
                    last=self._vocab_size - 1,
                )
            parts.append(part)
            start, count, shard = start + part.size, count - part.size, shard + 1
        return np.concatenate(parts)


def mapped(files: Sequence[Path], vocab_size: int) -> TokenSplit:
    """The tokens in files, memory-mapped."""
    # Slicing a plain array is cheaper than slicing a memmap.
    return TokenSplit({file: np.asarray(np.memmap(file, dtype_for(vocab_size), "r")) for file in files}, vocab_size)


@dataclass(frozen=True)
class Dataset:
    """A prepared dataset; `tokenizer` is None if a nanoGPT folder does not describe it."""

    folder: Path
    tokenizer: Tokenizer | None
    vocab_size: int
    fingerprint: str
    splits: dict[Split, TokenSplit]


def is_dataset(folder: Path) -> bool:
    """Return whether the folder looks like a dataset prepared by nanoscope or nanoGPT."""
    return (folder / META).is_file() or (folder / "train.bin").is_file()


def open_dataset(folder: Path | str) -> Dataset:
    """Open a folder made by `nanoscope prepare` or nanoGPT's prepare.py; JobError names what is damaged."""
    folder = Path(folder)
    try:
        if (folder / META).is_file():
            return _open_ours(folder)
        if (folder / "train.bin").is_file():
            return _open_nanogpt(folder)
    except OSError as error:
        raise JobError("Cannot read {path}: {reason}.", path=error.filename or folder, reason=why(error)) from error
    raise JobError(
        "{folder} is not a prepared dataset: it has neither {meta} nor train.bin.\n"
        "Prepare one with: nanoscope prepare FILE --out {quoted}",
        folder=folder,
        meta=META,
        quoted=shlex.quote(str(folder)),
    )


def read_meta(folder: Path) -> DatasetMeta:
    """Return the meta.json of a dataset prepared by nanoscope."""
    path = folder / META
    try:
        meta = msgspec.json.decode(read_small(path), type=DatasetMeta)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, str(why(error))[:200]) from error  # it may repeat a value of the file
    if meta.version != VERSION:
        raise JobError(
            "{path} was written by another version of nanoscope: update it, or prepare the data again.", path=path
        )
    return meta


def _damaged(path: Path, reason: Message | str) -> JobError:
    return JobError(
        "{path} is damaged: {reason}.\nPrepare the dataset again (nanoscope prepare … --overwrite).",
        path=path,
        reason=reason,
    )


def _open_ours(folder: Path) -> Dataset:
    meta = read_meta(folder)
    tokenizer = tokenizer_from_json(meta.tokenizer)
    vocab_size, dtype = tokenizer.vocab_size, dtype_for(tokenizer.vocab_size)
    splits = {}
    for name in SPLITS:
        shards = meta.splits[name].shards
        files = [folder / shard_name(name, number) for number in range(len(shards))]
        for file, shard in zip(files, shards, strict=True):
            size, expected = _size(file), shard.tokens * dtype.itemsize
            if size != expected:
                raise _damaged(file, Message("it has {n:,} bytes instead of {expected:,}", n=size, expected=expected))
        splits[name] = mapped(files, vocab_size)
    return Dataset(folder, tokenizer, vocab_size, meta.fingerprint, splits)


def shard_name(split: str, number: int) -> str:
    return f"{split}-{number:05d}.bin"


def _size(path: Path) -> int:
    """The bytes of a file; 0 if it is missing."""
    return path.stat().st_size if path.is_file() else 0


def _open_nanogpt(folder: Path) -> Dataset:
    """Open a nanoGPT folder: uint16 ids, with a meta.pkl for character ids; without one they are GPT-2's."""
    digest = hashlib.blake2b(digest_size=16)
    tokenizer: Tokenizer | None = Gpt2Tokenizer()
    vocab_size, described = NANOGPT_VOCAB_SIZE, folder / "meta.pkl"
    if described.is_file():
        tokenizer, vocab_size = read_meta_pickle(described)
        digest.update(described.read_bytes())
    splits = {}
    for name in SPLITS:
        path = folder / f"{name}.bin"
        size = _size(path)
        if size == 0 or size % 2:
            raise JobError(
                "{path} is damaged: {size:,} bytes cannot be uint16 tokens. Run its prepare.py again.",
                path=path,
                size=size,
            )
        splits[name] = mapped([path], vocab_size)
        with path.open("rb") as handle:  # size, start and end: large files are not read in full
            digest.update(b"%d" % size + handle.read(1 << 20))
            handle.seek(max(0, size - (1 << 20)))
            digest.update(handle.read())
    return Dataset(folder, tokenizer, vocab_size, digest.hexdigest(), splits)


def read_meta_pickle(path: Path) -> tuple[Tokenizer | None, int]:
    """Return the tokenizer and the size of the vocabulary in nanoGPT's meta.pkl; None for a custom tokenizer."""
    content = read_small(path)
    try:
        meta = msgspec.convert(load_plain(content), NanogptMeta)
    except Exception as error:  # a hostile or damaged pickle may raise anything
        raise JobError(
            "{path} is not nanoGPT's metadata ({reason}), and nothing in it was run.\n"
            "Delete it if the ids are GPT-2's, or run its prepare.py again.",
            path=path,
            reason=printable(str(error)[:80]),
        ) from error
    with suppress(LookupError, TypeError, ValueError):
        alphabet = [meta.itos[i] for i in range(meta.vocab_size)]
        if set(map(len, alphabet)) == {1}:
            return CharTokenizer("".join(alphabet)), meta.vocab_size
    return None, meta.vocab_size  # a custom tokenizer: the ids can be trained on, but not decoded


# --- writing -----------------------------------------------------------------------------------------------------


@contextmanager
def dataset_folder(out: Path, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary folder next to `out` that replaces it at the end, or is removed if anything goes wrong."""
    lock = out.parent / f".{out.name}.lock"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with _exclusively(lock) as suffix:
            temporary, replaced = (out.parent / f".{out.name}.{use}{suffix}" for use in ("preparing", "replaced"))
            try:
                _check_replaceable(out, overwrite)
                _remove(temporary, replaced)  # of a killed process
                temporary.mkdir()
                yield temporary
                sync_to_disk(temporary)
                if out.exists():
                    out.rename(replaced)
                try:
                    temporary.rename(out)
                except OSError:
                    replaced.rename(out)
                    raise
                sync_to_disk(out.parent)
            finally:
                _remove(temporary, replaced)
                with suppress(OSError):  # Windows keeps it
                    lock.unlink()
    except OSError as error:
        raise JobError(
            "The dataset could not be written to {out}: {reason}.\n"
            "Nothing was kept. Free some space, or choose another folder with --out.",
            out=out,
            reason=why(error),
        ) from error


@contextmanager
def _exclusively(lock: Path) -> Iterator[str]:
    """Let one of two processes wait. Without locks (some file systems) both proceed, each with its own suffix."""
    file = FileLock(lock)
    try:
        file.acquire()
    except (OSError, NotImplementedError):
        yield f".{os.getpid()}"
        return
    try:
        yield ""
    finally:
        file.release()


def _remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


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


class SplitWriter:
    """Encodes the documents of one split and writes raw little-endian shards."""

    def __init__(self, folder: Path, name: str, tokenizer: Tokenizer, separate_documents: bool) -> None:
        self._folder, self._name, self._tokenizer = folder, name, tokenizer
        end = tokenizer.end_of_text
        separators = [end] if separate_documents and end is not None else []
        self._separator = np.array(separators, dtype_for(tokenizer.vocab_size))
        self._newline_after = "\n" if separate_documents and end is None else ""
        self._rest = ""  # the end of the current document, not yet cut at a word boundary
        self._batch: list[tuple[str, bool]] = []
        self._batch_characters = 0
        self.meta = SplitMeta(tokens=0, characters=0, bytes=0, shards=[])
        self.digest = hashlib.sha256()

    def add(self, text: str, ends_document: bool) -> None:
        """Append the next part of a document."""
        text, start = self._rest + text + (self._newline_after if ends_document else ""), 0
        while len(text) - start > PIECE_CHARACTERS:
            cut = word_boundary(text, start, start + PIECE_CHARACTERS)
            self._enqueue(text[start:cut], ends_document=False)
            start = cut
        self._rest = text[start:]
        if ends_document:
            self._enqueue(self._rest, ends_document=True)
            self._rest = ""

    def close(self) -> None:
        """Write what is left, also if the document has not ended."""
        if self._rest:
            self._enqueue(self._rest, ends_document=False)
        self._encode_batch()
        for shard in self.meta.shards:
            sync_to_disk(self._folder / shard.name)

    def _enqueue(self, text: str, ends_document: bool) -> None:
        if self._batch_characters + len(text) > PIECES * PIECE_CHARACTERS:
            self._encode_batch()
        self._batch.append((text, ends_document))
        self._batch_characters += len(text)

    def _encode_batch(self) -> None:
        texts = [text for text, _ in self._batch]
        self.meta.characters += self._batch_characters
        self.meta.bytes += sum(len(text.encode()) for text in texts)
        arrays = [self._separator[:0]]
        for (_, ends_document), ids in zip(self._batch, self._tokenizer.encode_batch(texts), strict=True):
            arrays += [ids, self._separator] if ends_document else [ids]
        self._batch, self._batch_characters = [], 0
        self._write(np.concatenate(arrays))

    def _write(self, ids: TokenArray) -> None:
        self.digest.update(ids.data)
        self.meta.tokens += ids.size
        shards = self.meta.shards
        while ids.size:
            if not shards or shards[-1].tokens == SHARD_TOKENS:
                shards.append(Shard(shard_name(self._name, len(shards)), tokens=0))
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
