"""How much arithmetic a token costs, and which share of the device's peak a run reaches."""

from nanoscope.model.config import ModelConfig


def flops_per_token(config: ModelConfig, parameters: int) -> int:
    """Training FLOPs per token, 6·N + 12·L·H·Q·T: forward and backward of the matmuls and of attention.

    N leaves position embeddings out; H·Q is n_embd (PaLM paper, appendix B; the same count as nanoGPT's).
    """
    return 6 * parameters + 12 * config.n_layer * config.n_embd * config.block_size


def mfu(tokens_per_second: float, flops_per_token: int, peak_flops: float | None) -> float | None:
    """Model FLOPs utilisation as a fraction; None where the peak is not known."""
    return tokens_per_second * flops_per_token / peak_flops if peak_flops else None
