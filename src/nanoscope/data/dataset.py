"""Prepared datasets: opening one, made by nanoscope or by nanoGPT, and reading tokens from it."""

import hashlib
import reprlib
import shlex
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from nanoscope.data.plain_pickle import load_plain
from nanoscope.data.tokenizer import Gpt2Tokenizer, TokenArray, Tokenizer, dtype_for, tokenizer_from_json
from nanoscope.errors import JobError, why
from nanoscope.files import read_small
from nanoscope.messages import Text, printable

FORMAT, VERSION = "nanoscope-dataset", 1
META = "meta.json"
Split = Literal["train", "val"]
SPLITS: tuple[Split, ...] = ("train", "val")
NANOGPT_VOCAB_SIZE = 50304  # without a meta.pkl: GPT-2's 50257, rounded up to a multiple of 64

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
    shards: list[Shard]


class Header(msgspec.Struct):
    """What meta.json says in every version."""

    format: str
    version: int


class DatasetMeta(Header):
    """The content of meta.json."""

    sources: list[str]
    documents: Count
    skipped_files: Count
    vocab_size: Positive
    dtype: str
    splits: dict[Split, SplitMeta]
    fingerprint: str
    tokenizer: dict[str, Any]


class TokenSplit:
    """The tokens of one split, memory-mapped, as if its shards were one array."""

    def __init__(self, shards: Sequence[Path], vocab_size: int) -> None:
        self._paths = list(shards)
        self._vocab_size = vocab_size
        # Slicing a plain array is cheaper than slicing a memmap.
        self._arrays = [np.asarray(np.memmap(path, dtype_for(vocab_size), "r")) for path in shards]
        self._ends = np.cumsum([len(array) for array in self._arrays]).tolist()

    @classmethod
    def in_memory(cls, ids: TokenArray, vocab_size: int, name: str) -> "TokenSplit":
        """The tokens of a text that is on disk in another form."""
        split = cls([], vocab_size)
        split._paths, split._arrays, split._ends = [Path(name)], [ids], [len(ids)]
        return split

    def __len__(self) -> int:
        return int(self._ends[-1])

    def read(self, start: int, count: int) -> TokenArray:
        """Return `count` tokens from `start` on, each checked against the size of the vocabulary."""
        if start < 0 or count < 1 or start + count > len(self):
            raise IndexError(f"tokens {start} to {start + count} of {len(self)}")
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
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True)
class Dataset:
    """A prepared dataset; `tokenizer` is None if a nanoGPT folder does not describe it."""

    folder: Path
    tokenizer: Tokenizer | None
    vocab_size: int
    fingerprint: str
    splits: dict[Split, TokenSplit]

    def split(self, name: Split) -> TokenSplit:
        """Return the "train" or the "val" tokens."""
        return self.splits[name]


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
    content = read_small(path)
    try:
        header = msgspec.json.decode(content, type=Header)
        if header.format != FORMAT:
            raise JobError(
                "{path} was not written by nanoscope prepare: {folder} is not a dataset.", path=path, folder=folder
            )
        if header.version != VERSION:
            raise JobError(
                "{path} was written by another version of nanoscope: update it, or prepare the data again.", path=path
            )
        return msgspec.json.decode(content, type=DatasetMeta)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(path, why(error)) from error


def _damaged(path: Path, reason: Text | str) -> JobError:
    return JobError(
        "{path} is damaged: {reason}.\nPrepare the dataset again (nanoscope prepare … --overwrite).",
        path=path,
        reason=reason,
    )


def _open_ours(folder: Path) -> Dataset:
    meta, path = read_meta(folder), folder / META
    tokenizer = tokenizer_from_json(meta.tokenizer)
    dtype = dtype_for(tokenizer.vocab_size)
    if (meta.vocab_size, meta.dtype) != (tokenizer.vocab_size, dtype.name):
        raise _damaged(
            path,
            Text("its tokenizer has {n} tokens, stored as {dtype}", n=tokenizer.vocab_size, dtype=dtype.name),
        )
    splits = {}
    for name in SPLITS:
        shards = meta.splits[name].shards if name in meta.splits else []
        names = [shard.name for shard in shards]
        if not names or names != [f"{name}-{number:05d}.bin" for number in range(len(shards))]:
            raise _damaged(path, Text("its shards of the {split} split are invalid", split=name))
        for shard in shards:
            size, expected = _size(folder / shard.name), shard.tokens * dtype.itemsize
            if size != expected:
                reason = Text("it has {n:,} bytes instead of {expected:,}", n=size, expected=expected)
                raise _damaged(folder / shard.name, reason)
        splits[name] = TokenSplit([folder / shard.name for shard in shards], tokenizer.vocab_size)
    return Dataset(folder, tokenizer, tokenizer.vocab_size, meta.fingerprint, splits)


def _size(path: Path) -> int:
    """The bytes of a file; 0 if it is missing."""
    return path.stat().st_size if path.is_file() else 0


def _open_nanogpt(folder: Path) -> Dataset:
    """Open a nanoGPT folder: uint16 ids, with a meta.pkl for character ids; without one they are GPT-2's."""
    digest = hashlib.blake2b(digest_size=16)
    tokenizer: Tokenizer | None = Gpt2Tokenizer()
    vocab_size = NANOGPT_VOCAB_SIZE
    if (folder / "meta.pkl").is_file():
        tokenizer, vocab_size = read_meta_pickle(folder / "meta.pkl")
        digest.update((folder / "meta.pkl").read_bytes())
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
        splits[name] = TokenSplit([path], vocab_size)
        with path.open("rb") as handle:  # size, start and end: large files are not read in full
            digest.update(b"%d" % size + handle.read(1 << 20))
            handle.seek(max(0, size - (1 << 20)))
            digest.update(handle.read())
    return Dataset(folder, tokenizer, vocab_size, digest.hexdigest(), splits)


def read_meta_pickle(path: Path) -> tuple[Tokenizer | None, int]:
    """Return the tokenizer and the size of the vocabulary in nanoGPT's meta.pkl; None for a custom tokenizer."""
    content = read_small(path)
    try:
        meta = load_plain(content)
        characters = meta.get("itos")
        vocab_size = meta.get("vocab_size", characters and len(characters))
    except Exception as error:  # a hostile or damaged pickle may raise anything
        raise JobError(
            "{path} is not nanoGPT's metadata ({reason}), and nothing in it was run.\n"
            "Delete it if the ids are GPT-2's, or run its prepare.py again.",
            path=path,
            reason=printable(str(error)[:80]),
        ) from error
    if type(vocab_size) is not int or not 0 < vocab_size <= 1 << 16:
        raise JobError(
            "{path} has an invalid vocab_size for uint16 ids: {vocab_size}.",
            path=path,
            vocab_size=reprlib.repr(vocab_size),
        )
    try:
        alphabet = [characters[i] for i in range(vocab_size)]
        if not all(isinstance(character, str) and len(character) == 1 for character in alphabet):
            raise TypeError
        return tokenizer_from_json({"kind": "char", "alphabet": "".join(alphabet)}), vocab_size
    except (JobError, LookupError, TypeError):
        return None, vocab_size  # a custom tokenizer: the ids can be trained on, but not decoded
