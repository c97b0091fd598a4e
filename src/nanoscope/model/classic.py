"""GPT-2 with the parameter names of nanoGPT and Hugging Face, so that weights can be exchanged unchanged.

Shapes: B sequences of T tokens, C = n_embd channels, H heads of D = C / H channels, V tokens in the vocabulary.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nanoscope.model import cpu_kernels
from nanoscope.model.config import ModelConfig
from nanoscope.model.cpu_kernels import Linear
from nanoscope.model.kvcache import KVCache


class CausalSelfAttention(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.c_attn = Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)  # q, k, v in one matmul
        self.c_proj = Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.n_head = config.n_head
        self.dropout = config.dropout

    def forward(self, x: Tensor, layer: int, cache: KVCache | None) -> Tensor:
        qkv = self.c_attn(x)  # (B, T, 3C)
        dropout = self.dropout if self.training else 0.0
        y = cpu_kernels.causal_attention(qkv, self.n_head, dropout, layer=layer, cache=cache)
        return cpu_kernels.dropout(self.c_proj(y), self.dropout, self.training)


class MLP(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.c_fc = Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.c_proj = Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.dropout = config.dropout

    def forward(self, x: Tensor) -> Tensor:
        return cpu_kernels.dropout(self.c_proj(F.gelu(self.c_fc(x))), self.dropout, self.training)


class Block(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, layer: int, cache: KVCache | None) -> Tensor:
        x = x + self.attn(self.ln_1(x), layer, cache)
        return x + self.mlp(self.ln_2(x))  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """The layers, under the names of GPT-2's weights."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.h = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd, bias=config.bias)


class GPT(nn.Module):
    """tokens (B, T) → logits (B, T, V)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.transformer = Transformer(config)
        self.lm_head = Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.transformer.wte.weight  # tied, as in GPT-2
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        """Initialise every weight as GPT-2 does:

        | wte, wpe, Linear           | normal, 0.02                                                        |
        | c_proj (into the residual) | normal, 0.02 / sqrt(2 n_layer): the residual is the sum of 2 n_layer |
        | LayerNorm                  | 1, biases 0                                                         |
        """
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() < 2:
                nn.init.ones_(parameter)
            else:
                residual = name.endswith("c_proj.weight")
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * self.config.n_layer) if residual else 0.02)

    def forward(self, tokens: Tensor, targets: Tensor | None = None, cache: KVCache | None = None) -> Tensor:
        """Return logits; with targets, their mean cross-entropy; with a cache, the logits of the last token (B, V)."""
        first = 0 if cache is None else cache.length
        positions = torch.arange(first, first + tokens.shape[1], device=tokens.device)
        x = self.transformer.wte(tokens) + self.transformer.wpe(positions)
        x = cpu_kernels.dropout(x, self.config.dropout, self.training)
        for layer, block in enumerate(self.transformer.h):
            x = block(x, layer, cache)
        if cache is not None:
            cache.length += tokens.shape[1]
            x = x[:, -1]
        logits: Tensor = self.lm_head(self.transformer.ln_f(x))
        if targets is None:
            return logits
        return cpu_kernels.cross_entropy(logits, targets)

    def parameter_count(self) -> int:
        """Return the number of parameters without position embeddings, as nanoGPT counts them."""
        return sum(p.numel() for p in self.parameters()) - self.transformer.wpe.weight.numel()

    def multiplied_parameters(self) -> int:
        """Return the number of parameters that multiply each token: all, as the token table is the output layer."""
        return self.parameter_count()
