"""The keys and values of the tokens read so far, so that a new token costs the work of one token.

A cache is an argument of a model's forward; `length` is the position of the first new token.
"""

import torch
from torch import Tensor


class KVCache:
    """Keys and values of up to `size` tokens in every layer. Memory is allocated on first use."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.length = 0
        self._before: dict[str, Tensor] = {}
        self._layers: dict[int, Tensor] = {}  # keys and values: (2, B, H, size, D)

    def clear(self) -> None:
        """Forget all tokens; the memory stays allocated."""
        self.length = 0
        self._before.clear()

    def before(self, place: str, new: Tensor, count: int) -> Tensor:
        """Return the `count` tokens before the new ones (B, T, …) at a place in the model: (B, count, …).

        They are zeros at the start of the text. The new ones are stored for the next call.
        """
        found = self._before.get(place)
        if found is None:
            found = new.new_zeros(len(new), count, *new.shape[2:])
        self._before[place] = torch.cat((found, new), dim=1)[:, -count:]
        return found

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append new keys and values (B, H, T, D); return all of them (B, H, length + T, D)."""
        B, H, T, D = keys.shape
        if layer not in self._layers:
            self._layers[layer] = keys.new_empty(2, B, H, self.size, D)
        both = self._layers[layer][:, :, :, : self.length + T]
        both[0, :, :, self.length :] = keys
        both[1, :, :, self.length :] = values
        return both[0], both[1]

    def mask(self, new: int, device: torch.device) -> Tensor | None:
        """Return which of length + new keys each new query may see; None if plain causal attention is the same."""
        if self.length == 0 or new == 1:
            return None
        keys = torch.arange(self.length + new, device=device)
        return keys[None, :] <= keys[self.length :, None]
