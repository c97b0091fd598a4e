"""`nanoscope.evaluate`: how well models predict a text. The command prints the same."""

import os
from collections.abc import Iterable
from functools import partial
from typing import Literal

from nanoscope.api.logs import Source, paths_of
from nanoscope.api.shown import Answer
from nanoscope.config import POSITIVE
from nanoscope.errors import UsageError
from nanoscope.findings.scores import Scores, scores_json
from nanoscope.hardware.probe import make_cpu_ready
from nanoscope.messages import Message
from nanoscope.views.scores import print_scores
from nanoscope.words.language import choose_language


def evaluate(
    models: Source | Iterable[Source],
    *,
    dataset: Source = "",
    split: Literal["val", "train"] = "val",
    checkpoint: str = "best",
    windows: int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    lang: str | None = None,
) -> Answer[Scores]:
    """Measure the loss of a model over a whole split, or compare several models in the same windows.

    >>> nanoscope.evaluate("runs/laptop").found.scores[0].loss
    >>> print(nanoscope.evaluate(["runs/a", "runs/b"], dataset="book.txt"))

    Models are given as to `load`; a folder of runs stands for the runs in it. `dataset` is a prepared dataset, a corpus
    or a text file; by default the data that the models were trained on. `windows`: measure only so many windows, spread
    evenly over the text. `found.scores` has a score for each model, the best first; `found.differences` says how much
    worse the others are, and whether that is more than noise. Ctrl-C returns what was measured so far.
    """
    given = paths_of(models)
    if not given:
        raise UsageError("Which model? Give a run, a checkpoint, nanoGPT's ckpt.pt or gpt2.")
    if windows is not None and windows < 1:
        raise UsageError(POSITIVE.refusal("windows", windows))
    language = choose_language(lang)
    make_cpu_ready(device, dtype)  # before torch is imported

    from nanoscope.findings.scores import rank
    from nanoscope.hardware.device import set_up_device
    from nanoscope.interop.models import open_models
    from nanoscope.training.console import stages
    from nanoscope.training.scoring import open_text, score

    opened = open_models(given, checkpoint)
    choice, notes = set_up_device(device, dtype)
    with stages() as show:
        text = open_text(opened, os.fspath(dataset), split, show)
        found = rank(*score(opened, text, choice, windows, show))
    problems = [Message("warning: {text}", text=problem) for model in opened for problem in model.problems]
    said = [language.render(note) if isinstance(note, Message) else note for note in [*problems, *notes]]
    return Answer(found, said, language, print_scores, partial(scores_json, found))
