"""The shape of a model, which a checkpoint stores next to the weights."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

Size = Annotated[int, Meta(gt=0, lt=2**40)]
Probability = Annotated[float, Meta(ge=0, lt=1)]


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a model. What comes from a file is checked by msgspec.convert; ValueError for an impossible one."""

    vocab_size: Size
    block_size: Size
    n_layer: Size
    n_head: Size
    n_embd: Size
    dropout: Probability = 0.0
    bias: bool = False
    recipe: Literal["classic", "modern"] = "classic"
    ngrams: Size = 1
    """Length of the longest n-gram with an embedding (modern); 1: none."""
    ngram_dropout: Probability = 0.0
    token_shift: Annotated[int, Meta(ge=0, le=8)] = 0
    """How many previous tokens each layer's input has a share of (modern)."""

    @property
    def estimated_parameters(self) -> int:
        """The approximate number of parameters: the matrices of the blocks, a token table and a position table."""
        return 12 * self.n_layer * self.n_embd**2 + (self.vocab_size + self.block_size) * self.n_embd

    def __post_init__(self) -> None:
        if self.n_embd % self.n_head:
            raise ValueError(f"its n_embd {self.n_embd} is not divisible by its n_head {self.n_head}")
        if self.recipe == "modern" and self.n_embd // self.n_head % 2:
            raise ValueError(f"its heads have {self.n_embd // self.n_head} channels, an odd number")
