import codecs
import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanoscope.cli import run
from nanoscope.data.tokenizer import (
    BpeTokenizer,
    ByteTokenizer,
    CharTokenizer,
    Gpt2Tokenizer,
    tokenizer_from_json,
    word_splitter,
)
from nanoscope.errors import JobError

# Words, marks, joiners and every kind of white space that regular expression engines disagree about
AWKWARD_TEXT = st.text(st.sampled_from("ab'sté1२ \n\t\r\v\x1c\x1f\x85\xa0\u2003!।नि\u0301كِ\u200c\u200d👩€<|>"))


@pytest.fixture(scope="module")
def bpe(text_of):
    return BpeTokenizer.train([text_of(name, 300) for name in ("hindi", "arabic", "english")], 600)


@pytest.fixture(scope="module")
def gpt2(gpt2_vocabulary):
    return Gpt2Tokenizer()


def test_char_ids_are_indices_in_the_alphabet_as_in_nanogpt():
    assert CharTokenizer("\n abc").encode("cab a\n").tolist() == [4, 2, 3, 1, 2, 0]


def test_char_encodes_alphabets_beyond_a_byte_and_beyond_uint16():
    for size, dtype in ((300, "uint16"), (1 << 16, "uint16"), ((1 << 16) + 1, "uint32")):
        tokenizer = CharTokenizer("".join(map(chr, range(0x10000, 0x10000 + size))))
        ids = tokenizer.encode(tokenizer.alphabet)
        assert ids.dtype == dtype
        assert ids.tolist() == list(range(size))


@pytest.mark.parametrize("text", ["abx", "abé", "ab\ud800"])
def test_char_names_the_characters_that_it_cannot_encode(text):
    tokenizer = CharTokenizer("ab")
    assert tokenizer.unknown(text) == [text[-1]]
    with pytest.raises(JobError, match="these characters of the text: ") as caught:
        tokenizer.encode(text)
    assert repr(text[-1]) in str(caught.value)


def test_the_last_id_of_an_alphabet_is_not_taken_for_an_unknown_character():
    for size in (255, 256, 257, 65535, 65536):
        alphabet = "".join(map(chr, range(0x20, 0x20 + 96))) + "".join(map(chr, range(0x10000, 0x10000 + size - 96)))
        assert CharTokenizer(alphabet).encode(alphabet[-1]).tolist() == [size - 1]


@settings(deadline=None)
@given(st.text(min_size=1))
def test_char_and_byte_decode_to_the_original_text(text):
    for tokenizer in (CharTokenizer("".join(sorted(set(text)))), ByteTokenizer()):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@settings(deadline=None)
@given(st.text() | AWKWARD_TEXT)
def test_bpe_decodes_to_the_original_text(bpe, text):
    ids = bpe.encode(text)
    assert bpe.decode(ids) == text
    assert all(ids < bpe.vocab_size)


def test_gpt2_ids_are_the_published_ones(gpt2):
    assert gpt2.encode("Hello world").tolist() == [15496, 995]
    assert gpt2.decode([15496, 995, gpt2.end_of_text]) == "Hello world<|endoftext|>"


def test_gpt2_without_tiktoken_says_how_to_install_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    (tmp_path / "a.txt").write_text("some words " * 20, "utf-8")
    assert run(["prepare", "a.txt", "--tokenizer=gpt2"]) == 1
    assert "needs the package tiktoken" in (error := capsys.readouterr().err)
    assert "pip install 'nanoscope[data]'" in error


def test_text_cannot_contain_the_end_of_text_token(bpe, gpt2):
    for tokenizer in (bpe, gpt2):
        assert tokenizer.end_of_text not in tokenizer.encode("a<|endoftext|>b")
        assert tokenizer.token_bytes(tokenizer.end_of_text) == b"<|endoftext|>"


def test_words_of_hindi_arabic_and_persian_are_not_split(sentences):
    words = [word.strip("।.,?؟") for name in ("hindi", "arabic") for line in sentences[name] for word in line.split()]
    for word in [*words, "می‌خواهم", "क्‍ष"]:
        pieces = word_splitter().pre_tokenize_str(f"x {word}।")
        assert (1, len(word) + 2) in [span for _, span in pieces], word


def test_bpe_learns_whole_words_of_hindi_and_arabic(bpe, sentences):
    for name in ("hindi", "arabic"):
        line = sentences[name][0]
        assert len(bpe.encode(line)) < len(line) / 2


def test_an_incomplete_character_decodes_to_the_replacement_character(bpe):
    for tokenizer in (ByteTokenizer(), bpe):
        assert tokenizer.decode([0xE0, 0xA4]) == "\ufffd"


def test_token_bytes_can_be_streamed(bpe, text_of):
    text = text_of("hindi", 20)
    stream = codecs.getincrementaldecoder("utf-8")("replace")
    assert "".join(stream.decode(bpe.token_bytes(token)) for token in bpe.encode(text)) == text


def test_an_id_beyond_the_vocabulary_decodes_to_the_replacement_character(bpe):
    for tokenizer in (CharTokenizer("ab"), ByteTokenizer(), bpe):
        assert tokenizer.decode(np.array([tokenizer.vocab_size, -1])) == "\ufffd\ufffd"


def test_a_lone_surrogate_does_not_stop_byte_level_tokenizers(bpe):
    for tokenizer in (ByteTokenizer(), bpe):
        assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a?b"


def test_a_tokenizer_survives_json(bpe):
    for tokenizer in (CharTokenizer("कख\n"), ByteTokenizer(), bpe):
        again = tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json())))
        text = "कख\nखक" * 3
        assert (again.kind, again.vocab_size, again.end_of_text) == (
            tokenizer.kind,
            tokenizer.vocab_size,
            tokenizer.end_of_text,
        )
        assert again.encode(text).tolist() == tokenizer.encode(text).tolist()


def test_training_bpe_twice_gives_the_same_tokenizer(text_of):
    first, second = (BpeTokenizer.train([text_of("english", 200)], 400) for _ in range(2))
    assert first.to_json() == second.to_json()


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"kind": "sentencepiece"},
        {"kind": ["char"]},
        {"kind": "char"},
        {"kind": "char", "alphabet": ""},
        {"kind": "char", "alphabet": "aa"},
        {"kind": "char", "alphabet": ["a"]},
        {"kind": "char", "alphabet": "\ud800"},
        {"kind": "bpe", "words": 99, "merges": []},
        {"kind": "bpe", "words": 1},
        {"kind": "bpe", "words": 1, "merges": "ab"},
        {"kind": "bpe", "words": 1, "merges": [[97, 256]]},  # refers to itself
        {"kind": "bpe", "words": 1, "merges": [[97, -1]]},
        {"kind": "bpe", "words": 1, "merges": [[97, 98, 99]]},
        {"kind": "bpe", "words": 1, "merges": [["a", "b"]]},
        {"kind": "bpe", "words": 1, "merges": [[97, 98], [97, 98]]},
        {"kind": "bpe", "words": 1, "merges": [[97, 97]] + [[256 + i, 256 + i] for i in range(40)]},  # 2⁴¹ bytes
    ],
)
def test_damaged_or_hostile_json_is_refused(data):
    with pytest.raises(JobError):
        tokenizer_from_json(data)
