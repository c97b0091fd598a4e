"""`nanoscope eval`."""

import sys
from json import dumps
from typing import Annotated, Literal

from cyclopts import Parameter


def eval(
    *models: str,
    dataset: Annotated[str, Parameter(show_default=False)] = "",
    split: Literal["val", "train"] = "val",
    checkpoint: str = "best",
    windows: int | None = None,
    device: str = "auto",
    dtype: str = "auto",
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
    as_json
        Print one JSON object (schema nanoscope.eval/1).
    """
    from nanoscope.api.evaluating import evaluate
    from nanoscope.messages import on_terminal
    from nanoscope.views.terminal_page import Page

    found = evaluate(
        models, dataset=dataset, split=split, checkpoint=checkpoint, windows=windows, device=device, dtype=dtype,
    )  # fmt: skip
    for note in found.notes:
        print(on_terminal(note), file=sys.stderr)
    if as_json:
        print(dumps(found.json(), ensure_ascii=False, allow_nan=False))
    else:
        found.print_to(Page(found.language))
    return 0 if found.complete else 130
