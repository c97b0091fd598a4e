"""From text to a dataset on disk, in two streaming passes: the first surveys the text, the second encodes it."""

import hashlib
import json
import random
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

import msgspec
import numpy as np

from nanoscope.config_sources import DEFAULT_PRESET
from nanoscope.data.corpora import CORPORA
from nanoscope.data.dataset import (
    META,
    SPLITS,
    VERSION,
    DatasetMeta,
    Split,
    SplitWriter,
    dataset_folder,
    open_dataset,
    read_meta,
)
from nanoscope.data.download import OnProgress, is_url, without_query
from nanoscope.data.ngrams import ladder_of, stored_ladder
from nanoscope.data.readers import Piece
from nanoscope.data.sources import STDIN, Documents, listed
from nanoscope.data.tokenizer import (
    KINDS,
    MAX_VOCAB_SIZE,
    UNICODE_SIZE,
    BpeTokenizer,
    CharTokenizer,
    Tokenizer,
    code_points,
    dtype_for,
    tokenizer_from_json,
)
from nanoscope.errors import JobError, UsageError
from nanoscope.files import DATA, sync_to_disk
from nanoscope.messages import Message, Shown, on_terminal
from nanoscope.suggest import did_you_mean

CHAR_BELOW_BYTES = 20_000_000
BPE_VOCAB_SIZE = 4096
BPE_SMALLEST_VOCAB_SIZE = 257  # the bytes and end-of-text
SAMPLE_CHUNK_CHARACTERS = 1 << 16
SAMPLE_CHUNKS = 320  # 20 million characters; with more, the merges hardly change
MANY_DOCUMENTS = 100


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
    on_warning: Callable[[Shown], None] | None = None,
) -> Path:
    """Encode text into a dataset and return its folder, which appears only when complete.

    Sources are corpora, files, folders, URLs, and "-" for standard input.
    """
    _check_options(tokenizer, val_fraction)
    documents = Documents(sources, field, encoding, ext, on_progress)
    kind = _suitable_tokenizer(documents) if tokenizer == "auto" else tokenizer
    vocab_size = _checked_vocab_size(kind, vocab_size)
    out = out or default_folder(documents.sources[0], kind)
    with dataset_folder(out, overwrite) as folder:
        survey = _Survey(kind, val_fraction)
        for piece in documents.pieces(Message("reading")):
            survey.add(*piece)
        if kind == "bpe" and on_progress:
            on_progress(Message("training the tokenizer"), 0.0)
        chosen = survey.tokenizer(vocab_size)
        writers = {name: SplitWriter(folder, name, chosen, survey.documents > 1) for name in SPLITS}
        for name, text, ends_document in survey.assigned(documents.pieces(Message("encoding"))):
            writers[name].add(text, ends_document)
        _write_meta(folder / META, documents, survey, chosen, writers)
    ladder_of(open_dataset(out), on_progress)
    for warning in _warnings(documents, chosen, vocab_size):
        if on_warning:
            on_warning(warning)
    return out


def default_folder(source: str, kind: str) -> Path:
    """Return data/NAME-TOKENIZER, where NAME is the corpus, file or folder without characters that need quoting."""
    if source in CORPORA:
        name = CORPORA[source].name
    elif source == STDIN:
        name = "stdin"
    elif is_url(source):
        name = PurePath(urlsplit(source).path).name or urlsplit(source).netloc
    else:
        name = Path(source).resolve().name
    stem = name.rpartition(".")[0] or name
    return DATA / (re.sub(r"[^\w.+-]+", "-", stem) + f"-{kind}")


def _suitable_tokenizer(documents: Documents) -> str:
    """Choose the tokenizer for `auto`: the default of a corpus, otherwise by the size of the text."""
    corpus = CORPORA.get(documents.sources[0]) if len(documents.sources) == 1 else None
    return corpus.tokenizer if corpus else "char" if documents.total_bytes < CHAR_BELOW_BYTES else "bpe"


def _check_options(tokenizer: str, val_fraction: float) -> None:
    if tokenizer not in ("auto", *KINDS):
        raise UsageError(
            "There is no tokenizer {tokenizer!r}: choose auto, {kinds}.{hint}",
            tokenizer=tokenizer,
            kinds=", ".join(KINDS),
            hint=did_you_mean(tokenizer, KINDS),
        )
    if not 0 < val_fraction < 1:
        raise UsageError(
            "val_fraction must be between 0 and 1, got {val_fraction}: 0.1 keeps a tenth for validation.",
            val_fraction=val_fraction,
        )


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


def _warnings(documents: Documents, tokenizer: Tokenizer, vocab_size: int) -> Iterator[Shown]:
    if documents.skipped:
        yield Message("skipped files: {list}", list=listed(documents.skipped))
    if tokenizer.kind == "bpe" and tokenizer.vocab_size < vocab_size:
        yield Message(
            "the vocabulary has {size:,} tokens instead of {wanted:,}: the text has no more pairs that repeat",
            size=tokenizer.vocab_size,
            wanted=vocab_size,
        )


class _Survey:
    """What the first pass finds out about the text: its size, its alphabet, and a sample to train a tokenizer on."""

    def __init__(self, kind: str, val_fraction: float) -> None:
        self.documents = self.characters = 0
        self._kind, self._val_fraction = kind, val_fraction
        self._val_documents, self._at_start = 0, True
        self._seen = np.zeros(UNICODE_SIZE, bool)
        # A uniform random sample of a text of any length in bounded memory (reservoir sampling).
        self._sample: list[str] = []
        self._random, self._chunks_seen = random.Random(0), 0
        self._pending: list[str] = []
        self._pending_characters = 0

    def add(self, text: str, ends_document: bool) -> None:
        self.characters += len(text)
        self.documents += ends_document
        self._val_documents += self._at_start and self._is_for_validation(text)
        self._at_start = ends_document
        if self._kind == "char":
            self._seen[code_points(text)] = True
        elif self._kind == "bpe":
            for start in range(0, len(text), SAMPLE_CHUNK_CHARACTERS):
                self._pending.append(text[start : start + SAMPLE_CHUNK_CHARACTERS])
                self._pending_characters += len(self._pending[-1])
                if self._pending_characters >= SAMPLE_CHUNK_CHARACTERS:
                    self._sample_pending()

    def _sample_pending(self) -> None:
        """Add the pending text to the sample, or leave it out."""
        chunk, self._pending, self._pending_characters = "\n".join(self._pending), [], 0
        self._chunks_seen += 1
        place = self._random.randrange(self._chunks_seen)
        if len(self._sample) < SAMPLE_CHUNKS:
            self._sample.append(chunk)
        elif place < SAMPLE_CHUNKS:
            self._sample[place] = chunk

    def tokenizer(self, vocab_size: int) -> Tokenizer:
        """Return the tokenizer for the text that was added."""
        if not self.characters:
            raise JobError("The sources contain no text.")
        if self._kind == "char":
            if self.documents > 1:
                self._seen[ord("\n")] = True  # separates documents
            return CharTokenizer("".join(map(chr, np.flatnonzero(self._seen))))
        if self._kind != "bpe":
            return tokenizer_from_json({"kind": self._kind})
        if self._pending:
            self._sample_pending()
        return BpeTokenizer.train(self._sample, vocab_size)

    def _is_for_validation(self, text: str) -> bool:
        """Decide by a hash of the first piece, so that a document is in the same split whatever the order."""
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") < self._val_fraction * 2**64

    def assigned(self, pieces: Iterator[Piece]) -> Iterator[tuple[Split, str, bool]]:
        """Yield each piece with its split: by document if there are many, else the end of the text is the val split."""
        train_left, at_start = int(self.characters * (1 - self._val_fraction)), True
        by_document = self.documents >= MANY_DOCUMENTS and 0 < self._val_documents < self.documents
        for text, ends_document in pieces:
            if by_document:
                if at_start:
                    name: Split = "val" if self._is_for_validation(text) else "train"
                yield name, text, ends_document
                at_start = ends_document
                continue
            head, tail = text[:train_left], text[train_left:]
            train_left -= len(head)
            if head:
                yield "train", head, ends_document and not tail
            if tail:
                yield "val", tail, ends_document


def _write_meta(
    file: Path, documents: Documents, survey: _Survey, chosen: Tokenizer, writers: dict[Split, SplitWriter]
) -> None:
    """Write what is left of the splits, and meta.json, the last file of a dataset."""
    fingerprint = hashlib.sha256(json.dumps(chosen.to_json()).encode())
    for name, writer in writers.items():
        writer.close()
        fingerprint.update(writer.digest.digest())
        if writer.meta.tokens < 2:  # the shortest window is one token and the token after it
            raise JobError(
                "The text is too short to train on: of {characters:,} characters, the {split} split has fewer "
                "than 2 tokens.\n"
                "Prepare more text: a model begins to learn words from about 100,000 characters.",
                characters=survey.characters,
                split=name,
            )
    meta = DatasetMeta(
        version=VERSION,
        sources=[without_query(source) if is_url(source) else source for source in documents.sources],
        documents=survey.documents,
        skipped_files=documents.skipped.total(),
        vocab_size=chosen.vocab_size,
        dtype=dtype_for(chosen.vocab_size).name,
        splits={name: writer.meta for name, writer in writers.items()},
        fingerprint=fingerprint.hexdigest()[:32],
        tokenizer=chosen.to_json(),
    )
    file.write_bytes(msgspec.json.encode(meta))
    sync_to_disk(file)


# --- what is said at the end -------------------------------------------------------------------------------------


def summary(folder: Path, seconds: float, warnings: list[Shown]) -> dict[str, Any]:
    """Return the summary of a dataset that has just been prepared, as --json prints it."""
    meta, ladder = read_meta(folder), stored_ladder(open_dataset(folder))
    train, val = meta.splits["train"], meta.splits["val"]
    return {
        "dataset": folder.as_posix(),
        "tokenizer": meta.tokenizer["kind"],
        "vocab_size": meta.vocab_size,
        "train_tokens": train.tokens,
        "val_tokens": val.tokens,
        "characters_per_token": round((train.characters + val.characters) / (train.tokens + val.tokens), 4),
        "documents": meta.documents,
        "skipped_files": meta.skipped_files,
        "fingerprint": meta.fingerprint,
        "ladder": msgspec.to_builtins(ladder),
        "seconds": round(seconds, 2),
        "warnings": warnings,
        "next": shlex.join(["nanoscope", "train", DEFAULT_PRESET, f"--dataset={folder.as_posix()}"]),
    }


def in_words(summary: dict[str, Any]) -> str:
    """Return the summary as lines for a person."""
    lines = [
        Message("prepared {dataset} in {seconds:.1f} s", **summary),
        Message("  tokens      {train_tokens:,} train, {val_tokens:,} val", **summary),
        Message(
            "  vocabulary  {vocab_size:,} ({tokenizer}), {characters_per_token:.2f} characters per token",
            **summary,
        ),
        Message("  documents   {documents:,}", **summary),
        *(Message("warning: {text}", text=warning) for warning in summary["warnings"]),
        Message("next: {command}", command=summary["next"]),
    ]
    return "\n".join(map(on_terminal, lines))
