"""`nanoscope eval`."""

from typing import Annotated, Literal

from cyclopts import Parameter

from nanoscope.cli.completion import complete_path
from nanoscope.cli.logs import latest_run, print_answer


def eval(
    *models: Annotated[str, Parameter(completer=complete_path)],
    dataset: Annotated[str, Parameter(show_default=False)] = "",
    split: Literal["val", "train"] = "val",
    checkpoint: str = "best",
    windows: int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    json: bool = False,
) -> int:
    """Measure how well models predict a text: loss, perplexity, bits per character and byte, over the whole split.

    Several models are measured in the same windows and compared window by window, which shows whether a difference is
    more than noise. Nothing is written into a run.

    For example:
      nanoscope eval runs/laptop
      nanoscope eval runs/a runs/b out-shakespeare-char --dataset=shakespeare
      nanoscope eval gpt2 gpt2-medium --dataset=book.txt --windows=200
      nanoscope eval runs --json

    Parameters
    ----------
    models
        Runs, folders of runs, checkpoints, nanoGPT's ckpt.pt, gpt2, gpt2-medium, gpt2-large, gpt2-xl. Default: the
        latest run.
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
    json
        Print one JSON object (schema nanoscope.eval/1).
    """
    from nanoscope.api.evaluating import evaluate

    found = evaluate(
        models or [latest_run("checkpoints/last")],
        dataset=dataset,
        split=split,
        checkpoint=checkpoint,
        windows=windows,
        device=device,
        dtype=dtype,
    )
    print_answer(found, json)
    return 0 if found.found.complete else 130
