"""Tokenizers: char, byte, GPT-2's BPE, and BPE trained on the data.

Every dataset and checkpoint contains its tokenizer as plain JSON (`to_json`, `tokenizer_from_json`).
"""

import json
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from nanoscope.data import corpora
from nanoscope.errors import JobError

TokenArray = npt.NDArray[np.unsignedinteger[Any]]

KINDS = ("char", "byte", "gpt2", "bpe")
END_OF_TEXT = "<|endoftext|>"
MAX_VOCAB_SIZE = 1 << 18
MAX_TOKEN_BYTES = 128
UNICODE_SIZE = 0x110000

_Id = Annotated[int, msgspec.Meta(ge=0)]
Merges = Annotated[list[tuple[_Id, _Id]], msgspec.Meta(max_length=MAX_VOCAB_SIZE)]


def dtype_for(vocab_size: int) -> np.dtype[Any]:
    """Return the type of ids on disk: uint16 or uint32, little-endian on every machine."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


class Tokenizer(ABC):
    """Converts text to ids below `vocab_size` and back. `end_of_text`, if any, is the id between documents."""

    kind: ClassVar[str]
    vocab_size: int
    end_of_text: int | None = None

    _bytes_of: Sequence[bytes]
    """The UTF-8 bytes of each token, by id."""

    @abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[TokenArray]:
        """Return the ids of each text, as uint16, or as uint32 if the vocabulary needs it."""

    def encode(self, text: str) -> TokenArray:
        return self.encode_batch([text])[0]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`; bytes that are not UTF-8 (an incomplete character) become U+FFFD."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of a token; for an id beyond the vocabulary (of a padded model) those of U+FFFD."""
        token_id = int(token_id)
        return self._bytes_of[token_id] if 0 <= token_id < self.vocab_size else "\ufffd".encode()

    def unknown(self, text: str) -> list[str]:
        """Return the distinct characters that cannot be encoded; only the char tokenizer has such."""
        return []

    def to_json(self) -> dict[str, Any]:
        """Return everything that `tokenizer_from_json` needs."""
        return {"kind": self.kind}


class CharTokenizer(Tokenizer):
    """One token per character of a fixed alphabet; the id is its index in the alphabet, as in nanoGPT."""

    kind = "char"

    def __init__(self, alphabet: str) -> None:
        if not alphabet or len(set(alphabet)) < len(alphabet):
            raise ValueError("not a text of distinct characters")
        self.alphabet = alphabet
        self.vocab_size = len(alphabet)
        self._bytes_of = [character.encode() for character in alphabet]
        # Code point → id. The id `vocab_size` marks characters outside the alphabet, so it has to fit, too.
        self._id_of = np.full(UNICODE_SIZE, self.vocab_size, dtype_for(self.vocab_size + 1))
        self._id_of[code_points(alphabet)] = np.arange(self.vocab_size)

    def encode_batch(self, texts: Sequence[str]) -> list[TokenArray]:
        batch: list[TokenArray] = [self._id_of[code_points(text)] for text in texts]
        if any(ids.size and ids.max() == self.vocab_size for ids in batch):
            raise JobError(
                "The char tokenizer does not know these characters of the text: {shown}.\n"
                "Prepare the dataset with --tokenizer=byte or bpe, which can encode any text.",
                shown=" ".join(map(repr, self.unknown("".join(texts))[:8])),
            )
        return [ids.astype(dtype_for(self.vocab_size), copy=False) for ids in batch]

    def unknown(self, text: str) -> list[str]:
        return [character for character in dict.fromkeys(text) if character not in self.alphabet]

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "alphabet": self.alphabet}


class ByteTokenizer(Tokenizer):
    """One token per UTF-8 byte: encodes any text, but learns slowly."""

    kind = "byte"
    vocab_size = 256
    _bytes_of = tuple(bytes([value]) for value in range(256))

    def encode_batch(self, texts: Sequence[str]) -> list[TokenArray]:
        return [np.frombuffer(_utf8(text), np.uint8).astype("<u2") for text in texts]


class Gpt2Tokenizer(Tokenizer):
    """GPT-2's BPE, computed by tiktoken. The vocabulary is downloaded on first use."""

    kind = "gpt2"
    vocab_size = 50257
    end_of_text = 50256

    # How GPT-2 splits text into words before merging: contractions, words, numbers, other characters, white space.
    WORDS: ClassVar[str] = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"

    @cached_property
    def _bytes_of(self) -> Sequence[bytes]:  # type: ignore[override]
        encoder = json.loads(corpora.obtain(corpora.GPT2_ENCODER).read_text(encoding="utf-8"))
        byte_of = {character: value for value, character in enumerate(BYTE_SPELLING)}
        by_id = sorted((token_id, spelling) for spelling, token_id in encoder.items())
        tokens = [bytes(byte_of[character] for character in spelling) for _, spelling in by_id[:-1]]
        return [*tokens, END_OF_TEXT.encode()]

    @cached_property
    def _encoding(self) -> Any:
        import tiktoken

        return tiktoken.Encoding(
            "gpt2",
            pat_str=self.WORDS,
            mergeable_ranks={token: rank for rank, token in enumerate(self._bytes_of[:-1])},
            special_tokens={END_OF_TEXT: self.end_of_text},
        )

    def encode_batch(self, texts: Sequence[str]) -> list[TokenArray]:
        return [np.array(self._encoding.encode_ordinary(_utf8(text).decode()), "<u2") for text in texts]


class BpeTokenizer(Tokenizer):
    """Byte-level BPE with merges trained on the data.

    Ids 0–255 are the bytes, followed by one id per merge and end-of-text. The merges are pairs of earlier ids.
    """

    kind = "bpe"

    def __init__(self, merges: Sequence[tuple[int, int]]) -> None:
        import tokenizers

        self.merges = merges
        tokens = _merged_tokens(merges)
        spelled = ["".join(BYTE_SPELLING[byte] for byte in token) for token in tokens]
        self._engine = tokenizers.Tokenizer(
            tokenizers.models.BPE(
                vocab={spelling: i for i, spelling in enumerate(spelled)},
                merges=[(spelled[left], spelled[right]) for left, right in merges],
            )
        )
        self._engine.pre_tokenizer = word_splitter()
        self.end_of_text = len(tokens)
        self.vocab_size = len(tokens) + 1
        self._bytes_of = [*tokens, END_OF_TEXT.encode()]

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> "BpeTokenizer":
        """Train merges on `texts`; a text with few different words gives fewer tokens than `vocab_size`."""
        import tokenizers

        engine = tokenizers.Tokenizer(tokenizers.models.BPE())
        engine.pre_tokenizer = word_splitter()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=vocab_size - 1,  # end-of-text comes last
            initial_alphabet=BYTE_SPELLING,
            max_token_length=MAX_TOKEN_BYTES,
            show_progress=False,
        )
        engine.train_from_iterator(texts, trainer)
        merges: list[tuple[int, int]] = []
        ids = {spelling: byte for byte, spelling in enumerate(BYTE_SPELLING)}
        for left, right in json.loads(engine.to_str())["model"]["merges"]:
            merges.append((ids[left], ids[right]))
            ids.setdefault(left + right, len(ids))
        return cls(merges)

    def encode_batch(self, texts: Sequence[str]) -> list[TokenArray]:
        found = self._engine.encode_batch_fast([_utf8(text).decode() for text in texts])
        return [np.array(each.ids, dtype_for(self.vocab_size)) for each in found]

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "words": WORDS_VERSION, "merges": [list(pair) for pair in self.merges]}


# Byte-level BPE writes a byte as one visible character: printable Latin-1 as itself, the rest from U+0100 on.
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_NOT_PRINTABLE = [value for value in range(256) if value not in _PRINTABLE]
BYTE_SPELLING = [chr(value if value in _PRINTABLE else 0x100 + _NOT_PRINTABLE.index(value)) for value in range(256)]

# How text is split into words before merging. A word keeps its combining marks (Devanagari vowel signs, Arabic
# diacritics) and joiners (U+200C, U+200D), which GPT-2's pattern separates.
WORDS_VERSION = 1
WORDS = (
    r"['’](?:[sdmt]|ll|ve|re)(?![\p{L}\p{M}])"
    r"| ?\p{L}[\p{L}\p{M}\x{200C}\x{200D}]*"
    r"| ?\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+"
    r"|\s+(?!\S)|\s+"
)


def word_splitter() -> Any:
    """Return the pre-tokenizer of trained BPE: `WORDS`, then bytes."""
    from tokenizers import Regex, pre_tokenizers

    words = pre_tokenizers.Split(Regex(WORDS), "isolated")
    return pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def tokenizer_from_json(data: Any) -> Tokenizer:
    """Build the tokenizer that `to_json` described. The data may come from anyone, so everything is checked."""
    kind = data.get("kind") if isinstance(data, dict) else None
    with suppress(ValueError, TypeError, LookupError, AttributeError):
        if kind == "char":
            return CharTokenizer(data["alphabet"])
        if kind == "byte":
            return ByteTokenizer()
        if kind == "gpt2":
            return Gpt2Tokenizer()
        if kind == "bpe":
            if data["words"] != WORDS_VERSION:
                raise JobError("The bpe tokenizer was written by another version of nanoscope: update nanoscope.")
            return BpeTokenizer(data["merges"])
    raise JobError("The tokenizer is damaged: it is not a valid tokenizer of kind {kind}.", kind=reprlib.repr(kind))


def _merged_tokens(merges: Sequence[tuple[int, int]]) -> list[bytes]:
    """Return the bytes of each token, checking every merge: they may come from anyone."""
    tokens = list(ByteTokenizer._bytes_of)
    known = set(tokens)
    merges = msgspec.convert(merges, Merges)
    for left, right in merges:
        token = tokens[left] + tokens[right]
        if token not in known:  # two merges may give the same bytes
            known.add(token)
            tokens.append(token)
        if len(token) > MAX_TOKEN_BYTES:
            raise ValueError("a token is too long")
    if len(set(merges)) < len(merges):
        raise ValueError("a merge is there twice")
    return tokens


def code_points(text: str) -> npt.NDArray[np.uint32]:
    """Return the code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def _utf8(text: str) -> bytes:
    """Encode a text; lone surrogates (from a JSON escape or a broken command line) become '?'."""
    return text.encode("utf-8", "replace")
