"""`nanoscope bench`: how fast this machine is."""

import sys
from json import dumps
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.cells import cell_len

from nanoscope.errors import UsageError
from nanoscope.messages import Message, Shown, joined, on_terminal, shown, verbatim
from nanoscope.suggest import did_you_mean

if TYPE_CHECKING:
    from nanoscope.planning.bench import Figures

GROUPS = ("peak", "step", "evaluation", "sample")
ROW = "{label}{pad} {figures}"
LABEL_COLUMNS = 36
FORMATS = {
    "gflops": verbatim("{value:10,.1f} GFLOPS"),
    "ms": Message("{value:10,.1f} ms"),
    "tokens_per_second": Message("{value:10,.1f} tokens/s"),
    "mfu": verbatim("{value:10.1%} MFU"),
    "mfu_peak_gflops": Message("of {value:,.1f} GFLOPS"),
    "skipped": Message("    skipped: {value}"),
    "failed": Message("    failed: {value}"),
}


def bench(
    *,
    only: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None,
    device: str = "auto",
    dtype: str = "auto",
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> int:
    """Measure how fast this machine multiplies matrices, trains, evaluates and samples.

    Takes about a minute on two cores; close other programs first. Ctrl-C prints what has been measured so far.

    Examples:

      nanoscope bench

      nanoscope bench --only peak step --json

    Shapes: 4×128 with 12×64 tokens a step, 6×384 with 16×256, 12×768 (GPT-2 124M) with 1×512. MFU is relative to
    the matmul peak measured here. benchmarks/nanogpt in the source tree compares with nanoGPT.

    Keys of --json: cpu, threads, platform, python, torch, nanoscope, device, device_name, dtype; peak_DTYPE_gflops;
    step_SHAPE_ms, step_SHAPE_tokens_per_second, step_SHAPE_mfu, step_SHAPE_mfu_peak_gflops (which the MFU is relative
    to); evaluation_SHAPE_tokens_per_second;
    sample_tokens_per_second, sample_16_tokens_per_second (16 texts at once). SHAPE is 4x128, 6x384 or 12x768.
    Where there is no figure, KEY_skipped or KEY_failed gives the reason.

    Parameters
    ----------
    only
        What to measure: peak, step, evaluation, sample. All by default.
    device
        auto, cpu, cuda, cuda:N or mps.
    dtype
        For step, evaluation and sample: auto, float32, bfloat16 or float16.
    as_json
        Print one JSON object.
    """
    for name in only or []:
        if name not in GROUPS:
            raise UsageError(
                "invalid value for --only: {name!r}.{hint}\nValid values: {choices}",
                name=name,
                hint=did_you_mean(name, GROUPS),
                choices=", ".join(GROUPS),
            )
    _progress(Message("looking at this machine"))
    from nanoscope.hardware.probe import make_cpu_ready

    for sixteen_bits in ("bfloat16", "float16"):
        make_cpu_ready(device, sixteen_bits)  # takes effect only before torch is imported

    from nanoscope.planning.bench import KEYS, MachineBench, label, machine

    here = MachineBench(device, dtype)
    for note in here.notes:
        _progress(Message("note: {text}", text=note))
    planned = [key for key in KEYS if key.startswith(tuple(only or GROUPS))]
    found: dict[str, Figures] = {}
    interrupted = False
    try:
        for number, key in enumerate(planned, start=1):
            _progress(Message("{place} {what}", place=f"[{number}/{len(planned)}]", what=label(key)))
            found[key] = here.figures(key)
    except KeyboardInterrupt:
        interrupted = True
    facts = machine(here.choice)
    if as_json:
        flat = {f"{key}_{unit}": value for key, figures in found.items() for unit, value in figures.items()}
        print(dumps(facts | flat, ensure_ascii=False, default=str))
    else:
        versions = "Python {python}, torch {torch}, nanoscope {nanoscope}".format(**facts)
        print(on_terminal(joined(", ", [facts["device_name"], facts["dtype"], facts["platform"], versions])))
        for key, figures in found.items():
            texts = [Message(FORMATS[unit].template, value=value) for unit, value in figures.items()]
            pad = " " * (LABEL_COLUMNS - cell_len(shown(label(key))))
            print(on_terminal(Message(ROW, label=label(key), pad=pad, figures=joined(" ", texts))))
    if interrupted:
        _progress(Message("nanoscope: interrupted"))
        return 130
    return 1 if any("failed" in figures for figures in found.values()) else 0


def _progress(text: Shown) -> None:
    print(on_terminal(text), file=sys.stderr, flush=True)
