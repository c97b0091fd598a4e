"""The shape of a model, which a checkpoint stores next to the weights."""

import reprlib
from dataclasses import dataclass


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a model. ValueError if no such model can exist: checkpoints come from anywhere."""

    vocab_size: int
    block_size: int
    n_layer: int
    n_head: int
    n_embd: int
    dropout: float = 0.0
    bias: bool = False
    recipe: str = "classic"
    ngrams: int = 1
    """Length of the longest n-gram with an embedding (modern); 1: none."""
    ngram_dropout: float = 0.0
    token_shift: int = 0
    """How many previous tokens each layer's input has a share of (modern)."""

    @property
    def estimated_parameters(self) -> int:
        """The approximate number of parameters: the matrices of the blocks, a token table and a position table."""
        return 12 * self.n_layer * self.n_embd**2 + (self.vocab_size + self.block_size) * self.n_embd

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "block_size", "n_layer", "n_head", "n_embd", "ngrams")
        valid = {name: type(size := getattr(self, name)) is int and 0 < size < 2**40 for name in sizes}
        valid["token_shift"] = type(self.token_shift) is int and 0 <= self.token_shift <= 8
        for name in ("dropout", "ngram_dropout"):
            valid[name] = type(getattr(self, name)) in (int, float) and 0 <= getattr(self, name) < 1
        valid["bias"] = type(self.bias) is bool
        valid["recipe"] = self.recipe in ("classic", "modern")
        for name, is_valid in valid.items():
            if not is_valid:
                raise ValueError(f"its {name} is {reprlib.repr(getattr(self, name))}")
        if self.n_embd % self.n_head:
            raise ValueError(f"its n_embd {self.n_embd} is not divisible by its n_head {self.n_head}")
        if self.recipe == "modern" and self.n_embd // self.n_head % 2:
            raise ValueError(f"its heads have {self.n_embd // self.n_head} channels, an odd number")
