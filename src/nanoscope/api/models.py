"""`nanoscope.load`: a trained model, ready to write."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nanoscope.config import POSITIVE
from nanoscope.errors import UsageError
from nanoscope.hardware.probe import make_cpu_ready

if TYPE_CHECKING:
    from nanoscope.hardware.device import DeviceConfig
    from nanoscope.interop.models import OpenedModel
    from nanoscope.model import LanguageModel


def load(
    model: str | os.PathLike[str], *, checkpoint: str = "best", device: str = "auto", dtype: str = "auto"
) -> "Model":
    """Load a trained model.

    >>> model = nanoscope.load("runs/laptop")
    >>> print(model.generate("ROMEO:", max_new_tokens=200))

    `model` is a run, one of its checkpoints, nanoGPT's ckpt.pt, a folder with GPT-2's weights, or gpt2, gpt2-medium,
    gpt2-large, gpt2-xl. `checkpoint` ('best', 'last', 'step-000500') chooses one of a run's checkpoints.
    """
    make_cpu_ready(device, dtype)  # before torch is imported

    from nanoscope.hardware.device import set_up_device
    from nanoscope.interop.models import open_model

    choice, notes = set_up_device(device, dtype)
    return Model(open_model(os.fspath(model), checkpoint), choice, notes)


class Model:
    """A trained model: `module` is the torch module; `opened` has its name, its `step` and its `val_loss`.

    `notes` say what differs from what was asked for.
    """

    def __init__(self, opened: "OpenedModel", choice: "DeviceConfig", notes: Sequence[object]) -> None:
        self.opened, self._choice = opened, choice
        self.notes = [*map(str, opened.problems), *map(str, notes)]
        self.module: LanguageModel = opened.build(choice.device)

    def generate(self, prompt: str = "\n", **sampling: Any) -> str:
        """Continue a prompt. Returns the text, which begins with the prompt.

        max_new_tokens: how many tokens to generate, 500 by default.
        temperature: lower values are more predictable; 0 takes the most likely token. Default: 0.8.
        top_k: sample from the k most likely tokens; 0: from all. Default: 200.
        top_p: sample from the most likely tokens with this total probability. Default: 1.
        seed: the same seed gives the same text.
        """
        return self.samples(prompt, 1, **sampling)[0]

    def samples(self, prompt: str, count: int, **sampling: Any) -> list[str]:
        """Continue a prompt several times, in parallel."""
        if count < 1:
            raise UsageError(POSITIVE.refusal("count", count))
        texts = [""] * count
        for number, piece in self._pieces(prompt, sampling, count):
            texts[number] += piece
        return texts

    def stream(self, prompt: str = "\n", **sampling: Any) -> Iterator[str]:
        """The text that `generate` returns, piece by piece as it is generated; the first piece is the prompt.

        >>> for piece in model.stream("ROMEO:"):
        ...     print(piece, end="", flush=True)
        """
        return (piece for _, piece in self._pieces(prompt, sampling, 1))

    def _pieces(self, prompt: str, sampling: dict[str, Any], count: int) -> Iterator[tuple[int, str]]:
        from nanoscope.generation.sampler import Sampling, generate_pieces
        from nanoscope.hardware.device import autocast

        tokenizer = self.opened.known_tokenizer()
        pieces = generate_pieces(self.module, tokenizer, prompt, Sampling(**sampling), count)
        while True:
            with autocast(self._choice):  # not while the caller has the piece
                found = next(pieces, None)
            if found is None:
                return
            yield found

    def __repr__(self) -> str:
        return f"<Model {self.opened.describe()}: {self.module.parameter_count():,} parameters>"
