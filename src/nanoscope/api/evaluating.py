"""`nanoscope.evaluate`: how well models predict a text. The command prints the same."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from nanoscope.api.shown import Shown
from nanoscope.config import POSITIVE
from nanoscope.errors import UsageError
from nanoscope.findings.scores import Score, ScoreDifference, Scores, scores_json
from nanoscope.hardware.probe import make_cpu_ready
from nanoscope.messages import Message
from nanoscope.views.scores import print_scores
from nanoscope.views.terminal_page import Page
from nanoscope.words.language import Language, choose_language


def evaluate(
    models: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    dataset: str | os.PathLike[str] = "",
    split: Literal["val", "train"] = "val",
    checkpoint: str = "best",
    windows: int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    lang: str | None = None,
) -> "Evaluation":
    """Measure the loss of a model over a whole split, or compare several models in the same windows.

    >>> nanoscope.evaluate("runs/laptop").loss
    >>> print(nanoscope.evaluate(["runs/a", "runs/b"], dataset="book.txt"))

    Models are given as to `load`; a folder of runs stands for the runs in it. `dataset` is a prepared dataset, a corpus
    or a text file; by default the data that the models were trained on. `windows`: measure only so many windows, spread
    evenly over the text. Ctrl-C returns what was measured so far.
    """
    given = [models] if isinstance(models, str | os.PathLike) else list(models)
    if not given:
        raise UsageError("Which model? Give a run, a checkpoint, nanoGPT's ckpt.pt or gpt2.")
    if windows is not None and windows < 1:
        raise UsageError(POSITIVE.refusal("windows", windows))
    language = choose_language(lang)
    make_cpu_ready(device, dtype)  # before torch is imported

    from nanoscope.findings.scores import rank
    from nanoscope.hardware.device import set_up_device
    from nanoscope.interop.models import open_models
    from nanoscope.training.console import StageDisplay
    from nanoscope.training.scoring import open_text, score

    opened = open_models([os.fspath(model) for model in given], checkpoint)
    choice, notes = set_up_device(device, dtype)
    with StageDisplay() as display:
        text = open_text(opened, os.fspath(dataset), split, display.show)
        found = rank(*score(opened, text, choice, windows, display.show))
    problems = [Message("warning: {text}", text=problem) for model in opened for problem in model.problems]
    return Evaluation(found, language, [*problems, *notes])


class Evaluation(Shown):
    """Models on the same text. `notes` says if something had to be used instead of what was asked for."""

    def __init__(self, found: Scores, language: Language, notes: Sequence[Message | str] = ()) -> None:
        self.found, self.language = found, language
        self.notes = [language.render(note) if isinstance(note, Message) else note for note in notes]

    @property
    def scores(self) -> tuple[Score, ...]:
        """One for each model, the best first: loss, error, perplexity, bits per character and byte."""
        return self.found.scores

    @property
    def differences(self) -> tuple[ScoreDifference, ...]:
        """How much worse than the best each other model is, and whether that is more than noise."""
        return self.found.differences

    @property
    def loss(self) -> float | None:
        """Of the (best) model, in nats per token; None if it is not a number."""
        return self.scores[0].loss

    @property
    def error(self) -> float | None:
        """The standard error of `loss`."""
        return self.scores[0].error

    @property
    def perplexity(self) -> float | None:
        return self.scores[0].perplexity

    @property
    def complete(self) -> bool:
        """Whether all windows were measured: Ctrl-C stops before."""
        return self.found.complete

    def json(self) -> dict[str, Any]:
        """The document of `nanoscope eval --json`."""
        return scores_json(self.found)

    def print_to(self, page: Page) -> None:
        print_scores(self.found, page)

    def __repr__(self) -> str:
        names = ", ".join(score.name for score in self.scores)
        return f"<Evaluation of {names} on {self.found.text}: loss {self.loss} ± {self.error}>"
