"""The fast recipe: what made a small GPT learn sooner on a small machine (experiments in benchmarks/LOG.md).

Against GPT-2: rotary positions instead of learnt ones; embeddings of the last two, three and four tokens together, in
hashed tables; if asked for, a share of the last tokens in the input of each layer; norms without weights; ReLU² instead
of GELU; an output layer of its own; residual projections and output that begin at zero; no biases. Matrices are trained
by Muon, tables by Adagrad, the rest by AdamW (optim/).

Shapes: B sequences, T tokens of each, C = n_embd channels, H heads of D = C / H channels, V the vocabulary.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nanoscope.generation.kvcache import KVCache
from nanoscope.model import kernels
from nanoscope.model.config import ModelConfig

NGRAM_ROWS = 2**15  # of each table; more rows gained little at a megabyte of text
NGRAM_WIDTH = 64  # at most, and at most half the model's


def norm(x: Tensor) -> Tensor:
    """LayerNorm without weights: one fused kernel, where an RMSNorm would be several small ones on a CPU."""
    return F.layer_norm(x, x.shape[-1:])


class NgramEmbedding(nn.Module):
    """What the last 2, 3, … n tokens mean together: a row of a hashed table for each, projected to C channels."""

    def __init__(self, longest: int, width: int) -> None:
        super().__init__()
        self.longest = longest
        narrow = min(NGRAM_WIDTH, width // 2)
        self.table = nn.Parameter(torch.empty((longest - 1) * NGRAM_ROWS, narrow))
        self.proj = nn.Linear((longest - 1) * narrow, width, bias=False)
        self.sparse = False  # gradients of the rows that were read only; the session says where that works

    def forward(self, tokens: Tensor, before: Tensor, dropout: float) -> Tensor:
        """tokens (B, T) and the n - 1 tokens before them (B, n - 1) → (B, T, C).

        Dropout leaves out whole rows: a model that always had them would learn the text by heart through them.
        """
        rows = self.rows(torch.cat((before, tokens), dim=1))
        embedded = F.embedding(rows, self.table, sparse=self.sparse and self.training)  # (B, T, n - 1, W)
        if dropout > 0 and self.training:
            embedded = embedded * kernels.dropout_factors(embedded[..., :1], dropout)
        return self.proj(embedded.flatten(2))  # type: ignore[no-any-return]

    def rows(self, tokens: Tensor) -> Tensor:
        """The rows for each token but the first n - 1: (B, n - 1 + T) → (B, T, n - 1)."""
        skip = self.longest - 1
        code = tokens[:, skip:]
        rows = []
        for back in range(1, self.longest):
            code = (code * 1_000_003 + tokens[:, skip - back : -back] + 1) & 0x7FFF_FFFF  # no product passes 2^63
            hashed = (code * 2_654_435_761 & 0xFFFF_FFFF) >> 17  # Fibonacci hashing: the 15 highest of 32 bits
            rows.append(hashed + (back - 1) * NGRAM_ROWS)
        return torch.stack(rows, dim=-1)


class TokenShift(nn.Module):
    """Adds to each token a share of the last ones, learnt channel by channel: a look back that needs no attention."""

    def __init__(self, reach: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(reach, width))

    def forward(self, x: Tensor, place: str, cache: KVCache | None) -> Tensor:
        before = None if cache is None else cache.before(place, x, len(self.weight))
        return kernels.token_shift(x, self.weight, before)


class Block(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        C = config.n_embd
        self.shift_attention = TokenShift(config.token_shift, C) if config.token_shift else None
        self.shift_mlp = TokenShift(config.token_shift, C) if config.token_shift else None
        self.qkv = nn.Linear(C, 3 * C, bias=False)
        self.proj = nn.Linear(C, C, bias=False)
        self.up = nn.Linear(C, 4 * C, bias=False)
        self.down = nn.Linear(4 * C, C, bias=False)
        self.n_head, self.dropout = config.n_head, config.dropout

    def forward(self, x: Tensor, rotation: Tensor, layer: int, cache: KVCache | None) -> Tensor:
        normed = norm(x)
        if self.shift_attention is not None:
            normed = self.shift_attention(normed, f"attention {layer}", cache)
        qkv = self.qkv(normed)  # (B, T, 3C)
        if cache is None:
            y = kernels.causal_attention(qkv, self.n_head, rotation=rotation)
        else:
            y = kernels.cached_attention(qkv, self.n_head, layer, cache, rotation)
        x = x + kernels.dropout(self.proj(y), self.dropout, self.training)
        normed = norm(x)
        if self.shift_mlp is not None:
            normed = self.shift_mlp(normed, f"mlp {layer}", cache)
        y = self.down(kernels.relu_squared(self.up(normed)))
        return x + kernels.dropout(y, self.dropout, self.training)


class Modern(nn.Module):
    """tokens (B, T) → logits (B, T, V)."""

    rotation: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.n_embd)
        self.ngrams = NgramEmbedding(config.ngrams, config.n_embd) if config.ngrams > 1 else None
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        rotation = kernels.rotary_positions(config.block_size, config.n_embd // config.n_head)
        self.register_buffer("rotation", rotation, persistent=False)
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        """Every weight of the model:

        | embedding                     | normal, 1: it is normed before the first block                    |
        | qkv, up, the n-gram projection | uniform, standard deviation 1 / sqrt(inputs)                      |
        | proj, down, head, n-gram table | 0: each block begins as the identity, and all tokens equally likely |
        | shifts                         | 0: a token looks only at itself                                     |
        """
        for name, parameter in self.named_parameters():
            if name == "embedding.weight":
                nn.init.normal_(parameter)
            elif name.endswith(("qkv.weight", "up.weight", "ngrams.proj.weight")):
                bound = math.sqrt(3 / parameter.shape[1])
                nn.init.uniform_(parameter, -bound, bound)
            else:
                nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor, targets: Tensor | None = None, cache: KVCache | None = None) -> Tensor:
        """Logits; with targets their mean cross-entropy; with a cache only the logits after the last token (B, V)."""
        x = self.embedding(tokens)
        if self.ngrams is not None:
            count = self.config.ngrams - 1
            before = tokens.new_zeros(len(tokens), count) if cache is None else cache.before("tokens", tokens, count)
            x = x + self.ngrams(tokens, before, self.config.ngram_dropout)
        x = norm(x)
        first = 0 if cache is None else cache.length
        rotation = self.rotation[first : first + tokens.shape[1]]
        for layer, block in enumerate(self.blocks):
            x = block(x, rotation, layer, cache)
        if cache is not None:
            cache.length += tokens.shape[1]
            x = x[:, -1]
        logits: Tensor = self.head(norm(x))
        if targets is None:
            return logits
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))

    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def multiplied_parameters(self) -> int:
        """Those that each token is multiplied with: a table is only looked up in."""
        looked_up = self.embedding.weight.numel() + (0 if self.ngrams is None else self.ngrams.table.numel())
        return self.parameter_count() - looked_up
