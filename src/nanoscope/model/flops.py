"""The arithmetic per token, and the share of the device's peak that a run reaches."""

from nanoscope.model.config import ModelConfig


def flops_per_token(config: ModelConfig, parameters: int) -> int:
    """Return training FLOPs per token, 6·N + 12·L·H·Q·T: forward and backward pass of the matmuls and attention.

    N excludes position embeddings; H·Q is n_embd (PaLM paper, appendix B; nanoGPT counts the same).
    """
    return 6 * parameters + 12 * config.n_layer * config.n_embd * config.block_size


def mfu(tokens_per_second: float, flops_per_token: int, peak_flops: float | None) -> float | None:
    """Return model FLOPs utilisation as a fraction; None if the peak is unknown."""
    return tokens_per_second * flops_per_token / peak_flops if peak_flops else None
