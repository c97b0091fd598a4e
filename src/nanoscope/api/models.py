"""`nanoscope.load`: a trained model, ready to write."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack, overload

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


class Options(TypedDict, total=False):
    """How the next token is chosen, as in `nanoscope sample`."""

    max_new_tokens: int
    temperature: float
    top_k: int
    top_p: float
    seed: int


class Model:
    """A trained model. `module` is the torch module; `notes` says what differs from what was asked for."""

    def __init__(self, opened: "OpenedModel", choice: "DeviceConfig", notes: Sequence[object]) -> None:
        self._opened, self._choice = opened, choice
        self.notes = [*map(str, opened.problems), *map(str, notes)]
        self.module: LanguageModel = opened.build(choice.device)

    @property
    def name(self) -> str:
        return self._opened.name

    @property
    def step(self) -> int | None:
        """How many iterations it was trained for, if known."""
        return self._opened.step

    @property
    def val_loss(self) -> float | None:
        """Its validation loss as measured in training, if known. `nanoscope.evaluate` measures it anew."""
        return self._opened.val_loss

    @property
    def parameters(self) -> int:
        return self.module.parameter_count()

    @property
    def device(self) -> str:
        return self._choice.device

    @overload
    def generate(self, prompt: str = ..., *, num_samples: None = ..., **sampling: Unpack[Options]) -> str: ...

    @overload
    def generate(self, prompt: str = ..., *, num_samples: int, **sampling: Unpack[Options]) -> list[str]: ...

    def generate(
        self, prompt: str = "\n", *, num_samples: int | None = None, **sampling: Unpack[Options]
    ) -> str | list[str]:
        """Continue a prompt. Returns the text, which begins with the prompt; with `num_samples`, a list of texts.

        max_new_tokens: how many tokens to generate, 500 by default.
        temperature: lower values are more predictable; 0 takes the most likely token. Default: 0.8.
        top_k: sample from the k most likely tokens; 0: from all. Default: 200.
        top_p: sample from the most likely tokens with this total probability. Default: 1.
        seed: the same seed gives the same text.
        """
        count = 1 if num_samples is None else num_samples
        if count < 1:
            raise UsageError(POSITIVE.refusal("num_samples", count))
        texts = [""] * count
        for number, piece in self._pieces(prompt, sampling, count):
            texts[number] += piece
        return texts[0] if num_samples is None else texts

    def stream(self, prompt: str = "\n", **sampling: Unpack[Options]) -> Iterator[str]:
        """The text that `generate` returns, piece by piece as it is generated; the first piece is the prompt.

        >>> for piece in model.stream("ROMEO:"):
        ...     print(piece, end="", flush=True)
        """
        return (piece for _, piece in self._pieces(prompt, sampling, 1))

    def _pieces(self, prompt: str, sampling: Options, count: int) -> Iterator[tuple[int, str]]:
        from nanoscope.generation.sampler import Sampling, generate_pieces
        from nanoscope.hardware.device import autocast

        tokenizer = self._opened.known_tokenizer()
        pieces = generate_pieces(self.module, tokenizer, prompt, Sampling(**sampling), count)
        while True:
            with autocast(self._choice):  # not while the caller has the piece
                found = next(pieces, None)
            if found is None:
                return
            yield found

    def __repr__(self) -> str:
        facts = [f"{self.parameters:,} parameters"]
        facts += [] if self.step is None else [f"{self.step} iterations"]
        facts += [] if self.val_loss is None else [f"val loss {self.val_loss:.4f}"]
        return f"<Model {self.name}: {', '.join(facts)}>"
