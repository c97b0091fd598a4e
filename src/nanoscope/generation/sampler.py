"""Sampling: one token after another, several texts at once, with a cache of what was read."""

import codecs
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nanoscope.config import LARGEST_INTEGER
from nanoscope.data.tokenizer import Tokenizer
from nanoscope.errors import UsageError
from nanoscope.generation.few_rows import linear_for_few_rows
from nanoscope.generation.kvcache import KVCache
from nanoscope.model import LanguageModel

LOWEST_TEMPERATURE = 1e-5  # below it the division could overflow, and the likeliest token is certain anyway


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen from the model's distribution."""

    max_new_tokens: int = 500
    temperature: float = 0.8
    top_k: int = 200
    """Only the k likeliest tokens; 0: all."""
    top_p: float = 1.0
    """Only the likeliest tokens that together have this probability."""
    seed: int = 1337

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise UsageError(f"max_new_tokens must be positive, it is {self.max_new_tokens}")
        if not 0 <= self.temperature < math.inf:
            raise UsageError(
                f"temperature must be a number from 0 up, it is {self.temperature} (0 always takes the likeliest)"
            )
        if self.top_k < 0:
            raise UsageError(f"top_k must not be negative, it is {self.top_k} (0 keeps all tokens)")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top_p must be above 0 and at most 1, it is {self.top_p}")
        if abs(self.seed) > LARGEST_INTEGER:
            raise UsageError(f"seed must be below 2^63, it is {self.seed}")


def window_start(length: int, block_size: int) -> int:
    """Where the context for the next token begins, after `length` tokens.

    A model with learnt positions cannot slide its window by one without computing everything anew. So the context
    grows to block_size, then drops its older half: a cache has to be filled again only once in block_size / 2 tokens.
    """
    if length <= block_size:
        return 0
    stride = max(block_size // 2, 1)
    return -(-(length - block_size) // stride) * stride


@torch.inference_mode()
def generate(
    model: LanguageModel, prompt: Tensor, settings: Sampling, vocab_size: int, *, use_cache: bool = True
) -> Iterator[Tensor]:
    """Yield the next token of each sequence (B) until max_new_tokens; prompt is (B, T), T at least 1."""
    was_training = model.training
    model.eval()
    random = torch.Generator(device=prompt.device).manual_seed(settings.seed)
    block_size, length = model.config.block_size, prompt.shape[1]
    tokens = prompt.new_empty(len(prompt), length + settings.max_new_tokens)
    tokens[:, :length] = prompt
    cache, cached_from = KVCache(model.config.n_layer, block_size), 0
    try:
        with linear_for_few_rows(model):
            for end in range(length, length + settings.max_new_tokens):
                start = window_start(end, block_size)
                if not use_cache:
                    logits = model(tokens[:, start:end])[:, -1]  # (B, V)
                else:
                    if start != cached_from:
                        cache.clear()
                        cached_from = start
                    logits = model(tokens[:, start + cache.length : end], cache=cache)
                logits = logits[:, :vocab_size].float()  # padding of the vocabulary is not text
                tokens[:, end] = chosen = choose(logits, settings, random)
                yield chosen
    finally:
        model.train(was_training)


def choose(logits: Tensor, settings: Sampling, random: torch.Generator) -> Tensor:
    """One token for each row of logits (B, V)."""
    if settings.temperature < LOWEST_TEMPERATURE:
        return logits.argmax(dim=-1)
    logits = logits / settings.temperature
    if 0 < settings.top_k < logits.shape[-1]:
        lowest = logits.topk(settings.top_k).values[:, -1:]
        logits = logits.masked_fill(logits < lowest, -torch.inf)
    if settings.top_p < 1:
        ordered, order = logits.sort(descending=True)
        shares = ordered.softmax(-1)
        beyond = shares.cumsum(-1) - shares >= settings.top_p  # the first is always kept
        logits = logits.masked_fill(beyond.gather(-1, order.argsort(-1)), -torch.inf)
    return torch.multinomial(logits.softmax(-1), 1, generator=random).squeeze(1)


def generate_texts(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompt: str,
    settings: Sampling,
    count: int,
    stream: Callable[[str], None],
) -> list[str]:
    """`count` continuations of a prompt (each with the prompt); `stream` gets the first one as it grows."""
    ids = encode_prompt(tokenizer, prompt)
    device = next(model.parameters()).device
    start = torch.tensor(ids, dtype=torch.int64, device=device).repeat(count, 1)
    decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(count)]
    texts = [prompt] * count
    open_texts = set(range(count))
    stream(prompt)
    for chosen in generate(model, start, settings, tokenizer.vocab_size):
        for number, token in enumerate(chosen.tolist()):
            if number not in open_texts:
                continue
            if token == tokenizer.end_of_text:
                open_texts.discard(number)
                continue
            piece = decoders[number].decode(tokenizer.token_bytes(token))
            texts[number] += piece
            if number == 0 and piece:
                stream(piece)
        if not open_texts:
            break
    tails = [decoder.decode(b"", final=True) for decoder in decoders]
    stream(tails[0])
    return [text + tail for text, tail in zip(texts, tails, strict=True)]


def generate_text(model: LanguageModel, tokenizer: Tokenizer, prompt: str, settings: Sampling) -> str:
    """One continuation; a prompt that the vocabulary does not have gives way to one that it has."""
    if tokenizer.unknown(prompt):
        prompt = tokenizer.decode([0])
    return generate_texts(model, tokenizer, prompt, settings, 1, lambda piece: None)[0]


def encode_prompt(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """The prompt's tokens; a character that the model has never seen is explained, not guessed."""
    if unknown := tokenizer.unknown(prompt):
        shown = " ".join(repr(character) for character in unknown[:10])
        raise UsageError(
            f"the model does not know {shown}: its vocabulary is the {tokenizer.vocab_size} characters that its "
            "training text has\n"
            "Leave them out of the prompt, or train on a text that has them (or with --tokenizer=bpe)."
        )
    ids = [int(token) for token in tokenizer.encode(prompt)]
    if not ids:  # something must come first
        ids = [0 if tokenizer.end_of_text is None else tokenizer.end_of_text]
    return ids
