"""What `nanoscope eval` measures: the loss of a model in each window of a text."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasuredText:
    """The text that models were measured on."""

    name: str
    split: str
    """train or val; "" for a text file."""
    block_size: int
    """Tokens of a window, each predicted from those before it in the window."""
    contexts: tuple[int, ...]
    """The context length of each model; the shortest is the block_size."""


@dataclass(frozen=True)
class Measured:
    """One model on that text, window by window."""

    name: str
    path: str
    step: int | None
    tokens: str
    """Equal for models that read the text in the same tokens, and so in the same windows."""
    available: int
    """Windows that fit into the text."""
    wanted: int
    """Windows to measure: all, or a part spread evenly over the text."""
    losses: list[float]
    """Cross-entropy per token, in nats, of each window; fewer than wanted if measuring was interrupted."""
    bytes: list[int]
    """UTF-8 bytes that the tokens of each window stand for; empty if the tokenizer is unknown."""
    characters: list[int]
