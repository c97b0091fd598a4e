"""Prepared datasets: finding one by name, opening it (ours or nanoGPT's), reading tokens from it."""

import difflib
import hashlib
import io
import pickle
import re
import reprlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from nanoscope.data.corpora import ALIASES, CORPORA
from nanoscope.data.tokenizer import (
    CharTokenizer,
    Gpt2Tokenizer,
    TokenArray,
    Tokenizer,
    dtype_for,
    tokenizer_from_json,
)
from nanoscope.errors import JobError, UsageError
from nanoscope.untrusted import printable, read_json, read_small

FORMAT, VERSION = "nanoscope-dataset", 1
SPLITS = ("train", "val")
META = "meta.json"
SHARD_NAME = re.compile(r"(train|val)-[0-9]{5}\.bin")
NANOGPT_VOCAB_SIZE = 50304  # GPT-2's 50257, rounded up to a multiple of 64: nanoGPT's choice without a meta.pkl

Progress = Callable[[str, float], None]  # what is being done, and the fraction of it that is


class TokenSplit:
    """The tokens of one split, memory-mapped, as if its shards were one array."""

    def __init__(self, shards: Sequence[Path], vocab_size: int, characters: int | None) -> None:
        self._paths = list(shards)
        self._vocab_size = vocab_size
        # np.asarray: slices of a plain array are cheaper than slices of a memmap
        self._arrays = [np.asarray(np.memmap(path, dtype_for(vocab_size), "r")) for path in shards]
        self._ends = np.cumsum([len(array) for array in self._arrays]).tolist()
        self.characters_per_token = None if characters is None else characters / len(self)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def read(self, start: int, count: int) -> TokenArray:
        """Tokens `start … start + count`, each checked to be below the vocabulary's size."""
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
                    f"{self._paths[shard]} holds the token id {part.max()}, but its vocabulary ends at "
                    f"{self._vocab_size - 1}.\n"
                    "The file is damaged or belongs to another tokenizer: prepare it again."
                )
            parts.append(part)
            start, count, shard = start + part.size, count - part.size, shard + 1
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True)
class Dataset:
    """A prepared dataset; `tokenizer` is None where a nanoGPT folder does not say how its ids were made."""

    folder: Path
    tokenizer: Tokenizer | None
    vocab_size: int
    fingerprint: str
    splits: dict[str, TokenSplit]

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    def split(self, name: str) -> TokenSplit:
        """The "train" or the "val" tokens."""
        return self.splits[name]


def is_dataset(folder: Path) -> bool:
    """Whether the folder looks like a prepared dataset, ours or nanoGPT's."""
    return (folder / META).is_file() or (folder / "train.bin").is_file()


def open_dataset(folder: Path | str) -> Dataset:
    """Open a folder made by `nanoscope prepare` or by nanoGPT's prepare.py; what is damaged is named."""
    folder = Path(folder)
    try:
        if (folder / META).is_file():
            return _open_ours(folder)
        if (folder / "train.bin").is_file():
            return _open_nanogpt(folder)
    except OSError as error:
        raise JobError(f"{error.filename or folder} cannot be read: {error.strerror or error}.") from error
    raise JobError(
        f"{folder} is not a prepared dataset: it has neither {META} nor train.bin.\n"
        f"Prepare one with: nanoscope prepare FILE --out {folder}"
    )


def read_meta(folder: Path) -> dict[str, Any]:
    """The meta.json of a folder, checked to be a dataset of ours."""
    path = folder / META
    try:
        meta = read_json(path)
    except ValueError as error:
        raise _damaged(path, "it is not JSON") from error
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise JobError(f"{path} was not written by nanoscope prepare, so {folder} is not a dataset that it can open.")
    if meta.get("version") != VERSION:
        raise JobError(f"{path} was written by another version of nanoscope: update nanoscope, or prepare it again.")
    return meta


def _damaged(path: Path, why: str) -> JobError:
    return JobError(f"{path} is damaged: {why}.\nPrepare the dataset again (nanoscope prepare … --overwrite).")


def _open_ours(folder: Path) -> Dataset:
    meta, path = read_meta(folder), folder / META
    tokenizer = tokenizer_from_json(meta.get("tokenizer"))
    if meta.get("vocab_size") != tokenizer.vocab_size:
        raise _damaged(path, f"its vocab_size is not the tokenizer's {tokenizer.vocab_size}")
    dtype = dtype_for(tokenizer.vocab_size)
    if meta.get("dtype") != dtype.name:
        raise _damaged(path, f"its dtype is not {dtype.name}")
    if not isinstance(meta.get("fingerprint"), str):
        raise _damaged(path, "it has no fingerprint")
    splits = {}
    for name in SPLITS:
        try:
            entry = meta["splits"][name]
            characters, shards = entry["characters"], {s["name"]: s["tokens"] for s in entry["shards"]}
            if not shards or not all(SHARD_NAME.fullmatch(shard) and tokens > 0 for shard, tokens in shards.items()):
                raise ValueError
            if type(characters) is not int or not 0 < characters < 2**62:
                raise ValueError
        except (LookupError, TypeError, ValueError) as error:
            raise _damaged(path, f"its description of the {name} split makes no sense") from error
        for shard, tokens in shards.items():
            _check_size(folder / shard, tokens * dtype.itemsize)
        splits[name] = TokenSplit([folder / shard for shard in shards], tokenizer.vocab_size, characters)
    return Dataset(folder, tokenizer, tokenizer.vocab_size, meta["fingerprint"], splits)


def _check_size(path: Path, expected_bytes: int) -> None:
    if not path.is_file():
        raise _damaged(path.parent, f"{path.name} is missing")
    if path.stat().st_size != expected_bytes:
        raise _damaged(path, f"it has {path.stat().st_size:,} bytes instead of {expected_bytes:,}")


def _open_nanogpt(folder: Path) -> Dataset:
    """nanoGPT writes uint16 ids, and a meta.pkl only for characters; without one the ids are GPT-2's."""
    digest = hashlib.blake2b(digest_size=16)
    tokenizer: Tokenizer | None = Gpt2Tokenizer()
    vocab_size = NANOGPT_VOCAB_SIZE
    if (folder / "meta.pkl").is_file():
        tokenizer, vocab_size = _read_meta_pickle(folder / "meta.pkl")
        digest.update((folder / "meta.pkl").read_bytes())
    splits = {}
    for name in SPLITS:
        path = folder / f"{name}.bin"
        if not path.is_file():
            raise JobError(f"{folder} has a train.bin but no {path.name}: run its prepare.py again.")
        size = path.stat().st_size
        if size == 0 or size % 2:
            raise JobError(f"{path} is damaged: {size:,} bytes cannot be uint16 tokens. Run its prepare.py again.")
        splits[name] = TokenSplit([path], vocab_size, size // 2 if isinstance(tokenizer, CharTokenizer) else None)
        with path.open("rb") as handle:  # size, head and tail: a large file is not read as a whole
            digest.update(b"%d" % size + handle.read(1 << 20))
            handle.seek(max(0, size - (1 << 20)))
            digest.update(handle.read())
    return Dataset(folder, tokenizer, vocab_size, digest.hexdigest(), splits)


class _PlainUnpickler(pickle._Unpickler):
    """Reads dictionaries, lists, strings and numbers; whatever needs more than these is refused.

    The one in C would take all memory for a large number in the wrong place. Without tuples no key can be a container,
    whose hash a few bytes of pickle can make to take years.
    """

    _ALLOWED = (
        "PROTO FRAME MARK STOP POP MEMOIZE PUT BINPUT LONG_BINPUT GET BINGET LONG_BINGET NONE NEWTRUE NEWFALSE "
        "INT BININT BININT1 BININT2 LONG1 BINFLOAT UNICODE BINUNICODE SHORT_BINUNICODE "
        "EMPTY_DICT DICT SETITEM SETITEMS EMPTY_LIST LIST APPEND APPENDS "
        "GLOBAL STACK_GLOBAL"  # which find_class refuses with the name that was asked for
    )
    dispatch: ClassVar[dict[int, Callable[[pickle.Unpickler], None]]] = {
        vars(pickle)[name][0]: pickle._Unpickler.dispatch[vars(pickle)[name][0]] for name in _ALLOWED.split()
    }

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {f'{module}.{name}'!r}")


def _read_meta_pickle(path: Path) -> tuple[Tokenizer | None, int]:
    content = read_small(path)
    try:
        meta = _PlainUnpickler(io.BytesIO(content)).load()
        characters = meta.get("itos")
        vocab_size = meta.get("vocab_size", characters and len(characters))
    except Exception as error:  # a hostile or damaged pickle may raise anything
        reason = "it holds more than texts and numbers" if isinstance(error, KeyError) else printable(str(error)[:80])
        raise JobError(
            f"{path} is not nanoGPT's metadata ({reason}), and nothing in it was run.\n"
            "Delete it if the ids are GPT-2's, or run its prepare.py again."
        ) from error
    if type(vocab_size) is not int or not 0 < vocab_size <= 1 << 16:
        size = reprlib.repr(vocab_size)
        raise JobError(f"{path} says that the vocabulary has {size} tokens, which uint16 ids cannot have.")
    try:
        alphabet = [characters[i] for i in range(vocab_size)]
        if not all(isinstance(character, str) and len(character) == 1 for character in alphabet):
            raise TypeError
        return tokenizer_from_json({"kind": "char", "alphabet": "".join(alphabet)}), vocab_size
    except (JobError, LookupError, TypeError):
        return None, vocab_size  # someone's own tokenizer: the ids can be trained on, not turned into text


def find_dataset(name: str, tokenizer: str = "auto", progress: Progress | None = None) -> Path:
    """The folder that the config key `dataset` means: a path, data/<name>, or a corpus (then prepared)."""
    for folder in (Path(name), Path("data") / name):
        if is_dataset(folder):
            _check_tokenizer(folder, tokenizer)
            return folder
    corpus, kind = ALIASES.get(name) or (name, tokenizer)
    if tokenizer not in ("auto", kind):
        raise UsageError(f"{name} is {corpus} with the {kind} tokenizer: for {tokenizer} say --dataset={corpus}.")
    if corpus in CORPORA:
        return prepare_known(corpus, kind, progress)
    path = Path(name)
    if path.exists():
        raise UsageError(
            f"{name} is not a prepared dataset yet. Prepare it, then train on the result:\n"
            f"  nanoscope prepare {name} --out data/{path.stem}\n  --dataset=data/{path.stem}"
        )
    prepared = [folder.name for folder in Path("data").glob("*") if is_dataset(folder)]
    known = sorted({*CORPORA, *ALIASES, *prepared})
    close = difflib.get_close_matches(path.name, known, n=1)
    raise UsageError(
        f"There is no dataset {name!r}{f': did you mean {close[0]}?' if close else '.'}\n"
        f"Known here: {', '.join(known)}.\n"
        f"To make one of your own text: nanoscope prepare FILE --out data/{path.name}"
    )


def _check_tokenizer(folder: Path, asked: str) -> None:
    if asked == "auto":
        return
    tokenizer = open_dataset(folder).tokenizer
    kind = tokenizer.kind if tokenizer else "an unknown"
    if kind != asked:
        raise UsageError(
            f"{folder} was prepared with the {kind} tokenizer, and {asked} was asked for.\n"
            f"Leave --tokenizer out, or prepare the text again with --tokenizer={asked} into another folder."
        )


def prepare_known(corpus: str, tokenizer: str = "auto", progress: Progress | None = None) -> Path:
    """The folder data/<corpus>-<tokenizer>, prepared if it is not there, which a line on stdout says."""
    from nanoscope.data.prepare import prepare

    kind = CORPORA[corpus].tokenizer if tokenizer == "auto" else tokenizer
    folder = Path("data") / f"{corpus}-{kind}"
    if not is_dataset(folder):
        print(f"preparing {corpus} with the {kind} tokenizer in {folder} (on first use)", flush=True)
        try:
            prepare([corpus], folder, tokenizer=kind, progress=progress)
        except JobError:
            if not is_dataset(folder):  # it is there if another process was quicker
                raise
    return folder
