"""Sampling: one token at a time, several texts at once, with a KV cache."""

import codecs
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nanoscope.config import LARGEST_INTEGER, NOT_NEGATIVE, POSITIVE, Range
from nanoscope.data.tokenizer import Tokenizer
from nanoscope.errors import JobError, UsageError
from nanoscope.messages import Message
from nanoscope.model import LanguageModel
from nanoscope.model.kvcache import KVCache

RANGES = {
    "max_new_tokens": POSITIVE,
    "temperature": Range(NOT_NEGATIVE.description, lambda number: 0 <= number < math.inf),
    "top_k": NOT_NEGATIVE,
    "top_p": Range(Message("greater than 0 and at most 1"), lambda number: 0 < number <= 1),
    "seed": Range(Message("less than 2^63"), lambda number: abs(number) <= LARGEST_INTEGER),
}
LOWEST_TEMPERATURE = 1e-5  # below it logits could overflow, and the most likely token is certain anyway


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen from the model's distribution."""

    max_new_tokens: int = 500
    temperature: float = 0.8
    """0: the most likely token."""
    top_k: int = 200
    """Sample from the k most likely tokens; 0: from all."""
    top_p: float = 1.0
    """Sample from the most likely tokens with this total probability."""
    seed: int = 1337

    def __post_init__(self) -> None:
        for key, accepted in RANGES.items():
            value = getattr(self, key)
            if not accepted.contains(value):
                raise UsageError(accepted.refusal(key, value))


def window_start(length: int, block_size: int) -> int:
    """Return where the context of the next token starts, after `length` tokens.

    A model with learned positions cannot move its window by one token without recomputing everything. So the context
    grows to block_size, then drops its older half: the cache is refilled only once per block_size / 2 tokens.
    """
    if length <= block_size:
        return 0
    stride = max(block_size // 2, 1)
    return -(-(length - block_size) // stride) * stride


@torch.inference_mode()
def generate(model: LanguageModel, prompt: Tensor, settings: Sampling, vocab_size: int) -> Iterator[Tensor]:
    """Yield the next token of each sequence (B), max_new_tokens times. The prompt is (B, T) with T ≥ 1."""
    was_training = model.training
    model.eval()
    random = torch.Generator(device=prompt.device).manual_seed(settings.seed)
    block_size, length = model.config.block_size, prompt.shape[1]
    tokens = prompt.new_empty(len(prompt), length + settings.max_new_tokens)
    tokens[:, :length] = prompt
    cache, cached_from = KVCache(block_size), 0
    try:
        for end in range(length, length + settings.max_new_tokens):
            start = window_start(end, block_size)
            if start != cached_from:
                cache.clear()
                cached_from = start
            logits = model(tokens[:, start + cache.length : end], cache=cache)  # (B, V)
            logits = logits[:, :vocab_size].float()  # the padding of the vocabulary is not text
            tokens[:, end] = chosen = choose(logits, settings, random)
            yield chosen
    finally:
        model.train(was_training)


def choose(logits: Tensor, settings: Sampling, random: torch.Generator) -> Tensor:
    """Sample one token for each row of logits (B, V)."""
    if settings.temperature < LOWEST_TEMPERATURE:
        return logits.argmax(dim=-1)
    logits = logits / settings.temperature
    if 0 < settings.top_k < logits.shape[-1]:
        lowest = logits.topk(settings.top_k).values[:, -1:]
        logits = logits.masked_fill(logits < lowest, -torch.inf)
    if settings.top_p < 1:
        ordered, order = logits.sort(descending=True)
        probs = ordered.softmax(-1)
        beyond = probs.cumsum(-1) - probs >= settings.top_p  # the first token is always kept
        logits = logits.masked_fill(beyond.gather(-1, order.argsort(-1)), -torch.inf)
    try:
        return torch.multinomial(logits.softmax(-1), 1, generator=random).squeeze(1)
    except RuntimeError as error:
        if "probability tensor" not in str(error):
            raise
        raise JobError("can't sample: the model's weights give invalid probabilities") from None


DEFAULT_PROMPT = "\n"  # replaced by the first token if the model does not know it: nobody typed it


def generate_pieces(
    model: LanguageModel, tokenizer: Tokenizer, prompt: str, settings: Sampling, count: int
) -> Iterator[tuple[int, str]]:
    """Yield `count` texts that continue a prompt, piece by piece: the number of the text, and what comes next in it.

    Each text begins with the prompt.
    """
    if prompt == DEFAULT_PROMPT and tokenizer.unknown(prompt):
        prompt = tokenizer.decode([0])
    ids = encode_prompt(tokenizer, prompt)
    device = next(model.parameters()).device
    start = torch.tensor(ids, dtype=torch.int64, device=device).repeat(count, 1)
    decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(count)]
    yield from ((number, prompt) for number in range(count))
    ended: set[int] = set()
    for chosen in generate(model, start, settings, tokenizer.vocab_size):
        for number, token in enumerate(chosen.tolist()):
            if token == tokenizer.end_of_text:
                ended.add(number)
            elif number not in ended and (piece := decoders[number].decode(tokenizer.token_bytes(token))):
                yield number, piece
        if len(ended) == count:
            break
    tails = ((number, decoder.decode(b"", final=True)) for number, decoder in enumerate(decoders))
    yield from ((number, tail) for number, tail in tails if tail)


def generate_text(model: LanguageModel, tokenizer: Tokenizer, prompt: str, settings: Sampling) -> str:
    """Return one continuation."""
    return "".join(piece for _, piece in generate_pieces(model, tokenizer, prompt, settings, 1))


def encode_prompt(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """Return the tokens of a prompt. UsageError names characters that the model does not know."""
    if unknown := tokenizer.unknown(prompt):
        shown = " ".join(repr(character) for character in unknown[:10])
        raise UsageError(
            "the model does not know {shown}: its vocabulary is the {vocab_size} characters of its training text\n"
            "Remove them from the prompt, or train on a text that contains them or with --tokenizer=bpe.",
            shown=shown,
            vocab_size=tokenizer.vocab_size,
        )
    ids = [int(token) for token in tokenizer.encode(prompt)]
    if not ids:  # the model needs at least one token
        ids = [0 if tokenizer.end_of_text is None else tokenizer.end_of_text]
    return ids
