"""The shape of a model: what a checkpoint fixes."""

import reprlib
from dataclasses import dataclass


@dataclass(frozen=True)
class ModelConfig:
    """Everything a model is made from; a checkpoint keeps it beside the weights. ValueError if none can be made."""

    vocab_size: int
    block_size: int
    n_layer: int
    n_head: int
    n_embd: int
    dropout: float = 0.0
    bias: bool = False
    recipe: str = "classic"
    ngrams: int = 1
    """The longest run of tokens that has an embedding of its own (modern); 1: none."""
    ngram_dropout: float = 0.0
    token_shift: int = 0
    """How many of the last tokens each block's input has a share of (modern)."""

    def __post_init__(self) -> None:
        for name in ("vocab_size", "block_size", "n_layer", "n_head", "n_embd", "ngrams"):
            size = getattr(self, name)
            if type(size) is not int or not 0 < size < 2**40:
                raise ValueError(f"its {name} is {reprlib.repr(size)}")
        if type(self.token_shift) is not int or not 0 <= self.token_shift <= 8:
            raise ValueError(f"its token_shift is {reprlib.repr(self.token_shift)}")
        if self.n_embd % self.n_head:
            raise ValueError(f"its n_embd {self.n_embd} is not divisible by its n_head {self.n_head}")
        for name in ("dropout", "ngram_dropout"):
            share = getattr(self, name)
            if type(share) not in (int, float) or not 0 <= share < 1:
                raise ValueError(f"its {name} is {reprlib.repr(share)}")
        if type(self.bias) is not bool:
            raise ValueError(f"its bias is {reprlib.repr(self.bias)}")
        if self.recipe not in ("classic", "modern"):
            raise ValueError(f"its recipe is {reprlib.repr(self.recipe)}")
        if self.recipe == "modern" and self.n_embd // self.n_head % 2:
            raise ValueError(f"its heads have {self.n_embd // self.n_head} channels, an odd number")
