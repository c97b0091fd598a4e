"""`nanoscope bench`: how fast this machine is."""

import sys
from json import dumps
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.cells import cell_len

from nanoscope.messages import Message, Shown, joined, on_terminal, shown, verbatim

if TYPE_CHECKING:
    from nanoscope.planning.bench import Figures

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
    *, device: str = "auto", dtype: str = "auto", as_json: Annotated[bool, Parameter(name="--json")] = False
) -> int:
    """Measure how fast this machine multiplies matrices and trains.

    Takes about half a minute on two cores; close other programs first. Ctrl-C prints what has been measured so far.

    Examples:

      nanoscope bench

      nanoscope bench --device=cpu --json

    Shapes: 4×128 with 12×64 tokens a step, 6×384 with 16×256, 12×768 (GPT-2 124M) with 1×512. MFU is relative to
    the matmul peak measured here. benchmarks/nanogpt in the source tree compares with nanoGPT.

    Keys of --json: cpu, threads, platform, python, torch, nanoscope, device, device_name, dtype; peak_DTYPE_gflops;
    step_SHAPE_ms, step_SHAPE_tokens_per_second, step_SHAPE_mfu, step_SHAPE_mfu_peak_gflops (which the MFU is relative
    to). SHAPE is 4x128, 6x384 or 12x768. Where there is no figure, KEY_skipped or KEY_failed gives the reason.

    Parameters
    ----------
    device
        auto, cpu, cuda, cuda:N or mps.
    dtype
        For the steps: auto, float32, bfloat16 or float16.
    as_json
        Print one JSON object.
    """
    _progress(Message("looking at this machine"))
    from nanoscope.hardware.probe import make_cpu_ready

    for sixteen_bits in ("bfloat16", "float16"):
        make_cpu_ready(device, sixteen_bits)  # takes effect only before torch is imported

    from nanoscope.planning.bench import MachineBench, machine

    here = MachineBench(device, dtype)
    for note in here.notes:
        _progress(Message("note: {text}", text=note))
    found: dict[str, tuple[Message, Figures]] = {}
    interrupted = False
    planned = here.measurements()
    try:
        for number, (key, (label, measure)) in enumerate(planned.items(), start=1):
            _progress(Message("{place} {what}", place=f"[{number}/{len(planned)}]", what=label))
            found[key] = label, measure()
    except KeyboardInterrupt:
        interrupted = True
    facts = machine(here.choice)
    if as_json:
        flat = {f"{key}_{unit}": value for key, (_, figures) in found.items() for unit, value in figures.items()}
        print(dumps(facts | flat, ensure_ascii=False, default=str))
    else:
        versions = "Python {python}, torch {torch}, nanoscope {nanoscope}".format(**facts)
        print(on_terminal(joined(", ", [facts["device_name"], facts["dtype"], facts["platform"], versions])))
        for label, figures in found.values():
            texts = [Message(FORMATS[unit].template, value=value) for unit, value in figures.items()]
            pad = " " * (LABEL_COLUMNS - cell_len(shown(label)))
            print(on_terminal(Message(ROW, label=label, pad=pad, figures=joined(" ", texts))))
    if interrupted:
        _progress(Message("nanoscope: interrupted"))
        return 130
    return 1 if any("failed" in figures for _, figures in found.values()) else 0


def _progress(text: Shown) -> None:
    print(on_terminal(text), file=sys.stderr, flush=True)
