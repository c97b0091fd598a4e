"""Choosing tokens, caching what was read, and streaming complete characters."""

import itertools
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from nanoscope.data.tokenizer import BpeTokenizer, ByteTokenizer, CharTokenizer, Tokenizer
from nanoscope.errors import UsageError
from nanoscope.generation import sampler
from nanoscope.generation.sampler import (
    Sampling,
    choose,
    encode_prompt,
    generate,
    generate_pieces,
    generate_text,
    window_start,
)
from nanoscope.model import LanguageModel, ModelConfig, build_model
from nanoscope.model.kvcache import KVCache

RECIPES = {
    "classic": ModelConfig(vocab_size=50, block_size=8, n_layer=2, n_head=2, n_embd=32),
    "classic with biases": ModelConfig(vocab_size=50, block_size=8, n_layer=2, n_head=2, n_embd=32, bias=True),
    "modern": ModelConfig(vocab_size=50, block_size=8, n_layer=2, n_head=2, n_embd=32, recipe="modern", ngrams=4),
    "token shift": ModelConfig(
        vocab_size=50, block_size=8, n_layer=2, n_head=2, n_embd=32, recipe="modern", ngrams=2, token_shift=3
    ),
}


@pytest.fixture(scope="module", params=RECIPES.values(), ids=RECIPES.keys())
def model(request: pytest.FixtureRequest) -> LanguageModel:
    """A model with large weights: its distributions are far from uniform, so that a wrong context shows."""
    torch.manual_seed(5)
    made = build_model(request.param)
    with torch.no_grad():
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
    return made


def written(model: LanguageModel, prompt: Tensor, settings: Sampling, vocab_size: int = 50) -> Tensor:
    return torch.stack(list(generate(model, prompt, settings, vocab_size)), dim=1)


# --- the window --------------------------------------------------------------------------------------------------


@given(length=st.integers(1, 10_000), block_size=st.integers(1, 1024))
def test_the_context_always_fits_and_is_never_shorter_than_half(length: int, block_size: int) -> None:
    context = length - window_start(length, block_size)
    assert 1 <= context <= block_size
    assert context == length or context >= block_size // 2


@given(block_size=st.integers(1, 64))
def test_the_window_moves_only_once_in_half_a_block(block_size: int) -> None:
    starts = [window_start(length, block_size) for length in range(1, 6 * block_size)]
    assert starts == sorted(starts)
    moves = [length for length, (old, new) in enumerate(itertools.pairwise(starts)) if new != old]
    assert all(later - earlier >= max(block_size // 2, 1) for earlier, later in itertools.pairwise(moves))


@pytest.mark.slow
@pytest.mark.parametrize("prompt_length", [1, 3, 8, 9, 30])
def test_cached_logits_equal_uncached_ones_across_the_context_limit(
    prompt_length: int, model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Tensor] = []

    def remember_and_choose(logits: Tensor, settings: Sampling, random: torch.Generator) -> Tensor:
        seen.append(logits.clone())
        return choose(logits, settings, random)

    monkeypatch.setattr(sampler, "choose", remember_and_choose)
    prompt = torch.randint(50, (3, prompt_length), generator=torch.Generator().manual_seed(2))
    settings = Sampling(max_new_tokens=25, top_k=0, temperature=1.0)
    tokens = torch.cat([prompt, written(model, prompt, settings)], dim=1)
    model.eval()
    for end, cached in enumerate(seen, start=prompt_length):
        with torch.no_grad():
            logits = model(tokens[:, window_start(end, model.config.block_size) : end])[:, -1, :50]
        torch.testing.assert_close(cached, logits, rtol=1e-3, atol=1e-4)
    assert len(seen) == 25


def test_sequences_of_a_batch_do_not_see_one_another(model: LanguageModel) -> None:
    prompt = torch.randint(50, (3, 5), generator=torch.Generator().manual_seed(2))
    settings = Sampling(max_new_tokens=20, temperature=0)
    alone = [written(model, row[None], settings) for row in prompt]
    assert written(model, prompt, settings).equal(torch.cat(alone))


def test_generation_leaves_the_model_in_the_mode_it_was_in(model: LanguageModel) -> None:
    model.train()
    tokens: Iterator[Tensor] = generate(model, torch.zeros(1, 1, dtype=torch.int64), Sampling(), 50)
    next(tokens)
    assert not model.training
    tokens.close()  # type: ignore[attr-defined]
    assert model.training


# --- choosing ----------------------------------------------------------------------------------------------------

SHARES = torch.tensor([[0.05, 0.5, 0.15, 0.3]])


def chosen_ids(settings: Sampling, shares: Tensor = SHARES, draws: int = 400) -> set[int]:
    random = torch.Generator().manual_seed(settings.seed)
    return set(choose(shares.log().repeat(draws, 1), settings, random).tolist())


@pytest.mark.parametrize(
    ("top_k", "kept"), [(1, {1}), (2, {1, 3}), (3, {1, 2, 3}), (4, {0, 1, 2, 3}), (9, {0, 1, 2, 3})]
)
def test_top_k_keeps_the_k_most_likely_tokens(top_k: int, kept: set[int]) -> None:
    assert chosen_ids(Sampling(temperature=1, top_k=top_k)) == kept


def test_top_k_of_zero_keeps_all() -> None:
    assert chosen_ids(Sampling(temperature=1, top_k=0)) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [(1e-9, {1}), (0.4, {1}), (0.6, {1, 3}), (0.9, {1, 2, 3}), (0.99, {0, 1, 2, 3}), (1.0, {0, 1, 2, 3})],
)
def test_top_p_keeps_the_most_likely_tokens_with_that_total_probability(top_p: float, kept: set[int]) -> None:
    assert chosen_ids(Sampling(temperature=1, top_k=0, top_p=top_p)) == kept


@pytest.mark.parametrize("temperature", [0.0, 1e-300, 1e-40, 1e-6])
def test_temperatures_near_zero_take_the_most_likely_token(temperature: float) -> None:
    assert chosen_ids(Sampling(temperature=temperature, top_k=0)) == {1}


def test_each_row_has_its_own_distribution() -> None:
    rows = torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.1, 0.9]]).log()
    assert choose(rows, Sampling(temperature=0), torch.Generator()).tolist() == [0, 2]
    assert choose(rows, Sampling(top_k=1), torch.Generator()).tolist() == [0, 2]
    assert choose(rows, Sampling(top_p=0.5), torch.Generator()).tolist() == [0, 2]


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    random = torch.Generator().manual_seed(0)
    drawn = choose(SHARES.log().repeat(20_000, 1), Sampling(temperature=1, top_k=0), random)
    torch.testing.assert_close(drawn.bincount() / 20_000, SHARES[0], rtol=0, atol=0.02)


def test_a_higher_temperature_flattens_the_distribution() -> None:
    random = torch.Generator().manual_seed(0)
    hot = choose(SHARES.log().repeat(20_000, 1), Sampling(temperature=2, top_k=0), random)
    expected = SHARES[0].sqrt() / SHARES[0].sqrt().sum()
    torch.testing.assert_close(hot.bincount() / 20_000, expected, rtol=0, atol=0.02)


def test_the_same_seed_writes_the_same_text_and_another_seed_another(model: LanguageModel) -> None:
    prompt = torch.zeros(2, 1, dtype=torch.int64)
    first, again, other = (written(model, prompt, Sampling(max_new_tokens=30, seed=seed)) for seed in (1, 1, 2))
    assert first.equal(again)
    assert not first.equal(other)


def test_the_samples_of_one_seed_differ_from_each_other(model: LanguageModel) -> None:
    both = written(model, torch.zeros(2, 1, dtype=torch.int64), Sampling(max_new_tokens=30))
    assert not both[0].equal(both[1])


@pytest.mark.parametrize(
    "settings",
    [
        {"max_new_tokens": 0},
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_p": float("nan")},
        {"seed": 2**63},
        {"seed": -(2**63)},
    ],
)
def test_invalid_settings_are_refused_by_name(settings: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(settings))):
        Sampling(**settings)  # type: ignore[arg-type]


# --- text --------------------------------------------------------------------------------------------------------


class Scripted(nn.Module):
    """A stand-in for a model that is certain of the next token, whatever it has read."""

    def __init__(self, script: list[list[int]], vocab_size: int, favourite: int | None = None) -> None:
        super().__init__()
        self.config = ModelConfig(vocab_size=vocab_size, block_size=64, n_layer=1, n_head=1, n_embd=1)
        self.nothing = nn.Parameter(torch.zeros(1))
        self.script, self.favourite, self.written = script, favourite, 0

    def forward(self, tokens: Tensor, cache: KVCache) -> Tensor:
        cache.length += tokens.shape[1]
        logits = torch.zeros(tokens.shape[0], self.config.vocab_size)
        for row, script in enumerate(self.script):
            logits[row, script[self.written]] = 50.0
        if self.favourite is not None:
            logits[:, self.favourite] = 90.0
        self.written += 1
        return logits


def streamed(
    tokenizer: Tokenizer, *scripts: list[int], prompt: str = "x", padding: int = 0
) -> tuple[list[str], list[str]]:
    """Return the texts, and the pieces in which the first was streamed."""
    texts, pieces = [""] * len(scripts), []
    model = Scripted(list(scripts), tokenizer.vocab_size + padding, tokenizer.vocab_size if padding else None)
    settings = Sampling(max_new_tokens=len(scripts[0]))
    for number, piece in generate_pieces(model, tokenizer, prompt, settings, len(scripts)):  # type: ignore[arg-type]
        texts[number] += piece
        if number == 0:
            pieces.append(piece)
    return texts, pieces


UNICODE = "né 😀 नमस्ते مرحبا"


def test_a_character_of_several_bytes_is_shown_when_it_is_complete() -> None:
    texts, pieces = streamed(ByteTokenizer(), list(UNICODE.encode()))
    assert texts == ["x" + UNICODE]
    assert "".join(pieces) == "x" + UNICODE
    assert pieces[0] == "x"
    assert [piece for piece in pieces[1:] if piece] == list(UNICODE)


def test_texts_generated_in_parallel_are_decoded_separately() -> None:
    first, second = "é😀aé".encode(), "aé😀é".encode()
    texts, _ = streamed(ByteTokenizer(), list(first), list(second))
    assert texts == ["xé😀aé", "xaé😀é"]


def test_an_incomplete_last_character_becomes_one_replacement_character() -> None:
    texts, pieces = streamed(ByteTokenizer(), list("a😀".encode()[:-1]))
    assert texts == ["xa\ufffd"]
    assert "".join(pieces) == "xa\ufffd"


def test_invalid_bytes_become_replacement_characters() -> None:
    texts, _ = streamed(ByteTokenizer(), [0xFF, 0x41, 0x80, 0x42])
    assert texts == ["x\ufffdA\ufffdB"]


def test_a_text_ends_at_end_of_text_and_the_others_continue() -> None:
    tokenizer = BpeTokenizer.train(["aaa bbb"], 258)
    end = tokenizer.end_of_text
    assert end is not None
    a, b = tokenizer.encode("a")[0], tokenizer.encode("b")[0]
    texts, pieces = streamed(tokenizer, [a, end, a, a], [b, b, end, b])
    assert texts == ["xa", "xbb"]
    assert "".join(pieces) == "xa"


def test_the_padding_of_a_vocabulary_is_never_sampled() -> None:
    texts, _ = streamed(CharTokenizer("xyz"), [1, 2, 1], padding=61)
    assert texts == ["xyzy"]


def test_unknown_characters_in_a_prompt_are_named_with_advice() -> None:
    with pytest.raises(UsageError) as caught:
        encode_prompt(CharTokenizer("abc"), "aédé")
    assert "does not know 'é' 'd': its vocabulary is the 3 characters" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3


def test_an_empty_prompt_starts_with_end_of_text_or_the_first_token() -> None:
    bpe = BpeTokenizer.train(["aaa"], 258)
    assert encode_prompt(bpe, "") == [bpe.end_of_text]
    assert encode_prompt(CharTokenizer("abc"), "") == [0]


def test_a_sample_during_training_replaces_a_prompt_with_unknown_characters(model: LanguageModel) -> None:
    alphabet = "".join(chr(0x900 + number) for number in range(50))
    text = generate_text(model, CharTokenizer(alphabet), "\n", Sampling(max_new_tokens=5))
    assert len(text) == 6
    assert text[0] == alphabet[0]
