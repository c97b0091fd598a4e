"""`nanoscope eval`."""

import sys
from json import dumps
from typing import Annotated, Literal

from cyclopts import Parameter

from nanoscope.errors import UsageError


def eval(
    *models: str,
    dataset: Annotated[str, Parameter(show_default=False)] = "",
    split: Literal["val", "train"] = "val",
    checkpoint: str = "best",
    windows: int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    lang: str | None = None,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> int:
    """Measure how well models predict a text: loss, perplexity, bits per character and byte, over the whole split.

    Several models are measured in the same windows and compared window by window, which shows whether a difference is
    more than noise. Nothing is written into a run.

    Examples:
      nanoscope eval runs/laptop
      nanoscope eval runs/a runs/b out-shakespeare-char --dataset=shakespeare
      nanoscope eval gpt2 gpt2-medium --dataset=book.txt --windows=200
      nanoscope eval runs --json

    Parameters
    ----------
    models
        Runs, folders of runs, checkpoints, nanoGPT's ckpt.pt, gpt2, gpt2-medium, gpt2-large, gpt2-xl.
    dataset
        A prepared dataset, a corpus or a text file. Default: the data that the models were trained on.
    split
        val or train.
    checkpoint
        Of runs: best, last, or a name such as step-000500.
    windows
        Measure only so many windows, spread evenly over the text. Default: all.
    device
        auto, cpu, cuda, cuda:N or mps.
    dtype
        auto, float32, bfloat16 or float16.
    lang
        en, ar or hi; default: the language of your locale.
    as_json
        Print one JSON object (schema nanoscope.eval/1).
    """
    if not models:
        raise UsageError("Which model? Give a run, a checkpoint, nanoGPT's ckpt.pt or gpt2.")
    if windows is not None and windows < 1:
        raise UsageError(f"windows must be positive, got {windows}")
    from nanoscope.words.language import choose_language

    language = choose_language(lang)

    from nanoscope.hardware.probe import make_cpu_ready, with_fallbacks

    make_cpu_ready(device, dtype)  # before torch is imported

    from nanoscope.analysis.scores import rank, scores_json
    from nanoscope.hardware.device import decide, look
    from nanoscope.interop.models import open_models
    from nanoscope.training.console import StageDisplay
    from nanoscope.training.scoring import open_text, score
    from nanoscope.untrusted import printable
    from nanoscope.views.scores import print_scores
    from nanoscope.views.terminal_page import Page

    opened = open_models(models, checkpoint)
    choice, notes = with_fallbacks(decide(device, dtype, False, look()))
    for note in [*(f"warning: {problem}" for model in opened for problem in model.problems), *notes]:
        print(printable(note), file=sys.stderr)
    with StageDisplay() as display:
        text = open_text(opened, dataset, split, display.show)
        scores = rank(*score(opened, text, choice, windows=windows, on_progress=display.show))
    if as_json:
        print(dumps(scores_json(scores), ensure_ascii=False, allow_nan=False))
    else:
        print_scores(scores, Page(language))
    return 0 if scores.complete else 130
