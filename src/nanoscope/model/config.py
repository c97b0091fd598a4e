"""The shape of a model: what a checkpoint fixes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelConfig:
    """Everything a model is made from; a checkpoint keeps it beside the weights."""

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
