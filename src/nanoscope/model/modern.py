"""The modern recipe: changes that make a small GPT learn faster on a small machine (experiments in benchmarks/LOG.md).

Compared with GPT-2: rotary instead of learned positions; hashed embeddings of the last two, three and four tokens;
optionally a share of the previous tokens in the input of each layer; norms without weights; ReLU² instead of GELU; an
untied output layer; residual projections and output initialised to zero; no biases. Muon trains the matrices, Adagrad
the n-gram tables, AdamW the rest (optim/).

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

NGRAM_ROWS = 2**15  # per table; more rows gained little on a megabyte of text
NGRAM_WIDTH = 64  # at most; and at most half of n_embd


def norm(x: Tensor) -> Tensor:
    """LayerNorm without weights: one fused kernel, where RMSNorm would take several small ones on a CPU."""
    return F.layer_norm(x, x.shape[-1:])


def relu_squared(x: Tensor) -> Tensor:
    """Compute max(x, 0)². CUDA's autocast would compute `square` in float32, and keep a copy."""
    positive = F.relu(x)
    return positive * positive


class NgramEmbedding(nn.Module):
    """An embedding of the last 2, 3, … n tokens: one row of a hashed table for each, projected to C channels."""

    def __init__(self, longest: int, width: int) -> None:
        super().__init__()
        self.longest = longest
        narrow = min(NGRAM_WIDTH, width // 2)
        self.table = nn.Parameter(torch.empty((longest - 1) * NGRAM_ROWS, narrow))
        self.proj = Linear((longest - 1) * narrow, width, bias=False)
        self.sparse = False  # gradients of only the rows that were read; training sets it where that works

    def forward(self, tokens: Tensor, before: Tensor, dropout: float) -> Tensor:
        """tokens (B, T) and the n - 1 tokens before them (B, n - 1) → (B, T, C).

        Dropout drops whole rows; otherwise the model would memorise the text through them.
        """
        rows = self.rows(torch.cat((before, tokens), dim=1))
        embedded = F.embedding(rows, self.table, sparse=self.sparse and self.training)  # (B, T, n - 1, W)
        if dropout > 0 and self.training:
            embedded = embedded * cpu_kernels.dropout_factors(embedded[..., :1], dropout)
        return self.proj(embedded.flatten(2))  # type: ignore[no-any-return]

    def rows(self, tokens: Tensor) -> Tensor:
        """Return the table rows of each token except the first n - 1: (B, n - 1 + T) → (B, T, n - 1)."""
        skip = self.longest - 1
        code = tokens[:, skip:]
        rows = []
        for back in range(1, self.longest):
            code = (code * 1_000_003 + tokens[:, skip - back : -back] + 1) & 0x7FFF_FFFF  # products stay below 2^63
            hashed = (code * 2_654_435_761 & 0xFFFF_FFFF) >> 17  # Fibonacci hashing: the top 15 of 32 bits
            rows.append(hashed + (back - 1) * NGRAM_ROWS)
        return torch.stack(rows, dim=-1)


class TokenShift(nn.Module):
    """Adds a share of the previous tokens to each token, learned per channel: a look back without attention."""

    def __init__(self, reach: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(reach, width))

    def forward(self, x: Tensor, place: str, cache: KVCache | None) -> Tensor:
        before = None if cache is None else cache.before(place, x, len(self.weight))
        return cpu_kernels.token_shift(x, self.weight, before)


class Block(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        C = config.n_embd
        self.shift_attention = TokenShift(config.token_shift, C) if config.token_shift else None
        self.shift_mlp = TokenShift(config.token_shift, C) if config.token_shift else None
        self.qkv = Linear(C, 3 * C, bias=False)
        self.proj = Linear(C, C, bias=False)
        self.up = Linear(C, 4 * C, bias=False)
        self.down = Linear(4 * C, C, bias=False)
        self.n_head, self.dropout = config.n_head, config.dropout

    def forward(self, x: Tensor, rotation: Tensor, layer: int, cache: KVCache | None) -> Tensor:
        normed = norm(x)
        if self.shift_attention is not None:
            normed = self.shift_attention(normed, f"attention {layer}", cache)
        qkv = self.qkv(normed)  # (B, T, 3C)
        y = cpu_kernels.causal_attention(qkv, self.n_head, rotation=rotation, layer=layer, cache=cache)
        x = x + cpu_kernels.dropout(self.proj(y), self.dropout, self.training)
        normed = norm(x)
        if self.shift_mlp is not None:
            normed = self.shift_mlp(normed, f"mlp {layer}", cache)
        y = self.down(relu_squared(self.up(normed)))
        return x + cpu_kernels.dropout(y, self.dropout, self.training)


class Modern(nn.Module):
    """tokens (B, T) → logits (B, T, V)."""

    rotation: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.n_embd)
        self.ngrams = NgramEmbedding(config.ngrams, config.n_embd) if config.ngrams > 1 else None
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.head = Linear(config.n_embd, config.vocab_size, bias=False)
        rotation = cpu_kernels.rotary_positions(config.block_size, config.n_embd // config.n_head)
        self.register_buffer("rotation", rotation, persistent=False)
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        """Initialise every weight:

        | embedding                      | normal, 1: it is normed before the first block                 |
        | qkv, up, n-gram projection     | uniform, standard deviation 1 / sqrt(inputs)                   |
        | proj, down, head, n-gram table | 0: blocks start as the identity, all tokens are equally likely |
        | shifts                         | 0: a token starts with only itself                             |
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
        """Return logits; with targets, their mean cross-entropy; with a cache, the logits of the last token (B, V)."""
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
        return cpu_kernels.cross_entropy(logits, targets)

    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def multiplied_parameters(self) -> int:
        """Return the number of parameters in matrices that multiply each token: tables are looked up, shifts scale."""
        return sum(module.weight.numel() for module in self.modules() if isinstance(module, Linear))
