"""From text to a dataset on disk, in two streaming passes: the first surveys the text, the second encodes it."""

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from urllib.parse import urlsplit

import numpy as np

from nanoscope.data.corpora import ALIASES, CORPORA
from nanoscope.data.dataset import FORMAT, SPLITS, VERSION, DatasetMeta, Split, SplitMeta, open_dataset
from nanoscope.data.download import OnProgress, is_url, without_query
from nanoscope.data.ladder import ladder_of
from nanoscope.data.readers import Documents, Piece
from nanoscope.data.shards import SplitWriter, dataset_folder, write_meta
from nanoscope.data.sources import COMPRESSED, STDIN, listed
from nanoscope.data.tokenizer import (
    KINDS,
    MAX_VOCAB_SIZE,
    UNICODE_SIZE,
    BpeTokenizer,
    ByteTokenizer,
    CharTokenizer,
    Gpt2Tokenizer,
    Tokenizer,
    code_points,
    dtype_for,
)
from nanoscope.errors import JobError, UsageError
from nanoscope.files import DATA
from nanoscope.messages import Text
from nanoscope.suggest import did_you_mean

CHAR_BELOW_BYTES = 20_000_000
BPE_VOCAB_SIZE = 4096
BPE_SMALLEST_VOCAB_SIZE = 257  # the bytes and end-of-text
SAMPLE_CHUNK_CHARACTERS = 1 << 16
SAMPLE_CHUNKS = 320  # 20 million characters; with more, the merges hardly change
MANY_DOCUMENTS = 100

OnWarning = Callable[[str], None]


def prepare(
    sources: Sequence[str | Path],
    out: Path | None = None,
    *,
    tokenizer: str = "auto",
    vocab_size: int | None = None,
    field: str | None = None,
    val_fraction: float = 0.1,
    encoding: str = "utf-8",
    ext: Sequence[str] = (),
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
    on_warning: OnWarning | None = None,
) -> Path:
    """Encode text into a dataset and return its folder, which appears only when complete.

    Sources are corpora, files, folders, zip archives, URLs, and "-" for standard input.
    """
    if tokenizer not in ("auto", *KINDS):
        hint = did_you_mean(tokenizer, KINDS)
        raise UsageError(
            "There is no tokenizer {tokenizer!r}: choose auto, {kinds}.{hint}",
            tokenizer=tokenizer,
            kinds=", ".join(KINDS),
            hint=hint,
        )
    if not 0 < val_fraction < 1:
        raise UsageError(
            "val_fraction must be between 0 and 1, got {val_fraction}: 0.1 keeps a tenth for validation.",
            val_fraction=val_fraction,
        )
    documents = Documents(sources, field, encoding, ext, on_progress)
    kind = _suitable_tokenizer(sources, documents.total_bytes) if tokenizer == "auto" else tokenizer
    vocab_size = _checked_vocab_size(kind, vocab_size)
    out = out or default_folder(str(sources[0]), kind)
    with dataset_folder(out, overwrite) as folder:
        survey = _survey(documents, kind, val_fraction, on_progress)
        chosen = _make_tokenizer(kind, survey, vocab_size, on_progress)
        writers = {name: SplitWriter(folder, name, chosen, survey.documents > 1) for name in SPLITS}
        pieces = _with_progress(documents, Text("encoding"), on_progress)
        for name, text, ends_document in _assigned(pieces, survey, val_fraction):
            writers[name].add(text, ends_document)
        splits = {name: writer.close() for name, writer in writers.items()}
        _check_sizes(splits, survey.characters)
        fingerprint = hashlib.sha256(json.dumps(chosen.to_json()).encode())
        for writer in writers.values():
            fingerprint.update(writer.digest.digest())
        meta = DatasetMeta(
            format=FORMAT,
            version=VERSION,
            sources=[without_query(source) if is_url(source) else source for source in documents.sources],
            documents=survey.documents,
            skipped_files=documents.skipped_files,
            vocab_size=chosen.vocab_size,
            dtype=dtype_for(chosen.vocab_size).name,
            splits=splits,
            fingerprint=fingerprint.hexdigest()[:32],
            tokenizer=chosen.to_json(),
        )
        write_meta(folder, meta)
    ladder_of(open_dataset(out), on_progress)
    for warning in _warnings(documents, chosen, vocab_size):
        if on_warning:
            on_warning(warning)
    return out


def default_folder(source: str, kind: str) -> Path:
    """Return data/NAME-TOKENIZER, where NAME is the corpus, file or folder without characters that need quoting."""
    if source in ALIASES:
        name = ALIASES[source][0]
    elif source == STDIN:
        name = "stdin"
    elif is_url(source):
        name = PurePath(urlsplit(source).path).name or urlsplit(source).netloc
    else:
        name = Path(source).resolve().name
    for compression in COMPRESSED:
        name = name.removesuffix(compression)
    stem = name.rpartition(".")[0] or name
    return DATA / (re.sub(r"[^\w.+-]+", "-", stem) + f"-{kind}")


def _suitable_tokenizer(sources: Sequence[str | Path], total_bytes: int) -> str:
    """Choose the tokenizer for `auto`: the default of a corpus, otherwise by the size of the text."""
    only = str(sources[0]) if len(sources) == 1 else ""
    if only in ALIASES:
        return ALIASES[only][1]
    if only in CORPORA:
        return CORPORA[only].tokenizer
    return "char" if total_bytes < CHAR_BELOW_BYTES else "bpe"


def _checked_vocab_size(kind: str, vocab_size: int | None) -> int:
    if vocab_size is not None and kind != "bpe":
        raise UsageError(
            "vocab_size is only for the bpe tokenizer; the vocabulary of {kind} has a fixed size.", kind=kind
        )
    vocab_size = BPE_VOCAB_SIZE if vocab_size is None else vocab_size
    if not BPE_SMALLEST_VOCAB_SIZE <= vocab_size <= MAX_VOCAB_SIZE:
        raise UsageError(
            "vocab_size must be between {least} and {most}, got {vocab_size}; {usual} suits a small model.",
            least=BPE_SMALLEST_VOCAB_SIZE,
            most=MAX_VOCAB_SIZE,
            vocab_size=vocab_size,
            usual=BPE_VOCAB_SIZE,
        )
    return vocab_size


def _check_sizes(splits: dict[Split, SplitMeta], characters: int) -> None:
    """Refuse a text on which nothing can be trained: the shortest window is one token and the token after it."""
    for name, split in splits.items():
        if split.tokens < 2:
            raise JobError(
                "The text is too short to train on: of {characters:,} characters, the {split} split has fewer "
                "than 2 tokens.\n"
                "Prepare more text: a model begins to learn words from about 100,000 characters.",
                characters=characters,
                split=name,
            )


def _warnings(documents: Documents, tokenizer: Tokenizer, vocab_size: int) -> Iterator[str]:
    yield from documents.notes
    if documents.skipped:
        yield Text("skipped files: {list}", list=listed(documents.skipped))
    if tokenizer.kind == "bpe" and tokenizer.vocab_size < vocab_size:
        yield Text(
            "the vocabulary has {size:,} tokens instead of {wanted:,}: the text has no more pairs that repeat",
            size=tokenizer.vocab_size,
            wanted=vocab_size,
        )


@dataclass
class _Survey:
    """What the first pass finds out about the text."""

    documents: int = 0
    val_documents: int = 0  # if whole documents are assigned by their hash
    characters: int = 0
    seen: np.ndarray[tuple[int], np.dtype[np.bool_]] = field(default_factory=lambda: np.zeros(UNICODE_SIZE, bool))
    sample: list[str] = field(default_factory=list)

    @property
    def splits_by_document(self) -> bool:
        return self.documents >= MANY_DOCUMENTS and 0 < self.val_documents < self.documents


def _survey(documents: Documents, kind: str, val_fraction: float, on_progress: OnProgress | None) -> _Survey:
    survey = _Survey()
    sampler = _Sampler(survey.sample)
    at_start = True
    for text, ends_document in _with_progress(documents, Text("reading"), on_progress):
        survey.characters += len(text)
        survey.documents += ends_document
        survey.val_documents += at_start and _is_for_validation(text, val_fraction)
        at_start = ends_document
        if kind == "char":
            if text.isascii():  # drop known characters quickly
                seen_ascii = np.flatnonzero(survey.seen[:128]).astype(np.uint8).tobytes()
                text = text.encode().translate(None, seen_ascii).decode()
            survey.seen[code_points(text)] = True
        elif kind == "bpe":
            sampler.add(text)
    sampler.finish()
    if not survey.characters:
        raise JobError("The sources contain no text.")
    return survey


class _Sampler:
    """Keeps a uniform random sample of a text of any length in bounded memory (reservoir sampling)."""

    def __init__(self, chunks: list[str]) -> None:
        self._chunks = chunks
        self._offered = 0
        self._random = random.Random(0)
        self._waiting: list[str] = []
        self._waiting_characters = 0

    def add(self, text: str) -> None:
        for start in range(0, len(text), SAMPLE_CHUNK_CHARACTERS):
            self._waiting.append(text[start : start + SAMPLE_CHUNK_CHARACTERS])
            self._waiting_characters += len(self._waiting[-1])
            if self._waiting_characters >= SAMPLE_CHUNK_CHARACTERS:
                self.finish()

    def finish(self) -> None:
        if not self._waiting:
            return
        chunk = "\n".join(self._waiting)
        self._waiting, self._waiting_characters = [], 0
        self._offered += 1
        place = self._random.randrange(self._offered)
        if len(self._chunks) < SAMPLE_CHUNKS:
            self._chunks.append(chunk)
        elif place < SAMPLE_CHUNKS:
            self._chunks[place] = chunk


def _make_tokenizer(kind: str, survey: _Survey, vocab_size: int, on_progress: OnProgress | None) -> Tokenizer:
    if kind == "char":
        if survey.documents > 1:
            survey.seen[ord("\n")] = True  # separates documents
        return CharTokenizer("".join(map(chr, np.flatnonzero(survey.seen))))
    if kind == "byte":
        return ByteTokenizer()
    if kind == "gpt2":
        return Gpt2Tokenizer()
    if on_progress:
        on_progress(Text("training the tokenizer"), 0.0)
    return BpeTokenizer.train(survey.sample, vocab_size)


def _with_progress(documents: Documents, stage: str, on_progress: OnProgress | None) -> Iterator[Piece]:
    reported_bytes = -1
    for piece in documents.pieces():
        if on_progress and documents.read_bytes != reported_bytes:
            reported_bytes = documents.read_bytes
            on_progress(stage, reported_bytes / max(1, documents.total_bytes))
        yield piece


def _is_for_validation(text: str, val_fraction: float) -> bool:
    """Decide by a hash of the first piece, so that a document is in the same split whatever the order."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < val_fraction * 2**64


def _assigned(pieces: Iterator[Piece], survey: _Survey, val_fraction: float) -> Iterator[tuple[Split, str, bool]]:
    """Yield each piece with its split: by document if there are many, else the end of the text is for validation."""
    if survey.splits_by_document:
        at_start = True
        for text, ends_document in pieces:
            if at_start:
                name: Split = "val" if _is_for_validation(text, val_fraction) else "train"
            yield name, text, ends_document
            at_start = ends_document
        return
    train_left = int(survey.characters * (1 - val_fraction))
    for text, ends_document in pieces:
        head, tail = text[:train_left], text[train_left:]
        train_left -= len(head)
        if head:
            yield "train", head, ends_document and not tail
        if tail:
            yield "val", tail, ends_document
