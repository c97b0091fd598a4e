"""`nanoscope bench`: how fast this machine is, and nanoGPT beside it."""

import shlex
import sys
import tempfile
from json import dumps
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from nanoscope.errors import UsageError, did_you_mean


def bench(
    *,
    nanogpt: Path | None = None,
    only: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None,
    repeats: int = 3,
    seeds: int = 5,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    markdown: Path | None = None,
) -> int:
    """How fast this machine is (its CPU), side by side with nanoGPT if you have it.

    Examples:

      nanoscope bench --only peak step

      nanoscope bench --nanogpt ../nanoGPT --only sample --json

      nanoscope bench --nanogpt ../nanoGPT --markdown benchmarks/RESULTS.md

    Rows: peak, step, step_compiled (against nanoGPT compiled), memory, sample,
    sample16, evaluation, checkpoint, neighbours, prepare, time_to_loss; and
    babygpt, which takes hours and is measured only when named.

    Keys of --json: the machine (cpu, threads, platform, python, torch, nanoscope).
    For each comparison KEY_UNIT and KEY_nanogpt_UNIT (medians), KEY_ratio (median
    turn by turn, above 1: nanoscope is better), KEY_ratio_low, KEY_ratio_high.
    KEY is step_4x128, step_6x384, step_12x768, step_against_compiled_4x128 …,
    memory, sample, sample16, evaluation, evaluation_6x384, neighbours, prepare,
    time_to_loss, babygpt. Besides:

      peak_gflops_float32, sample_tokens_per_second

      checkpoint_blocked_share: training stands still, of a synchronous save

      checkpoint_held_up_share: the same, and slower steps while it is written

      checkpoint_4x128_…, checkpoint_6x384_…: both for each shape

      neighbour_step_ratio: the step after an evaluation ÷ the median (1 is best)

      time_to_loss_target, _values, _losses, _reached ("5 of 5")

      ROW_failed: why a row could not be measured

    Parameters
    ----------
    nanogpt
        A checkout of nanoGPT. It is copied: nothing is written into it, and its data need not be prepared.
    only
        The rows to measure; all but babygpt unless given.
    repeats
        Turns of each row.
    seeds
        Runs of time_to_loss and babygpt, with the seeds 1, 2, …
    as_json
        One JSON object for programs.
    markdown
        Write the results into this file too; rows that are not measured now stay as they are in it.
    """
    from nanoscope.bench.results import table, write_markdown
    from nanoscope.bench.rows import ROWS, Bench, expected_minutes, measure
    from nanoscope.bench.workspace import Workspace, check_nanogpt

    for name in only or []:
        if name not in ROWS:
            raise UsageError(f"there is no row {name!r}{did_you_mean(name, ROWS)}\nRows: {', '.join(ROWS)}")
    if repeats < 1 or seeds < 1:
        raise UsageError(f"repeats and seeds must be positive, they are {repeats} and {seeds}")
    if nanogpt is not None:
        check_nanogpt(nanogpt)
    names = list(dict.fromkeys(only or (name for name, row in ROWS.items() if not row.long)))
    minutes = expected_minutes(names, repeats, seeds)
    _say(f"{', '.join(names)}: about {minutes:.2g} min on two cores; leave the machine alone meanwhile")
    with tempfile.TemporaryDirectory(prefix="nanoscope-bench-", ignore_cleanup_errors=True) as folder:
        work = Bench(Workspace(Path(folder), nanogpt), repeats, seeds, _say)
        facts = work.workspace.ours("machine")
        rows = {name: measure(work, name) for name in names}
    result = facts | {key: value for row in rows.values() for key, value in row.items()}
    if markdown is not None:
        side = ["--nanogpt", "PATH"] if nanogpt else []
        counts = ["--repeats", str(repeats)] * (repeats != 3) + ["--seeds", str(seeds)] * (seeds != 5)
        write_markdown(markdown, facts, rows, shlex.join(["nanoscope", "bench", *side, *counts]))
    print(dumps(result, ensure_ascii=False) if as_json else table(result))
    return 1 if any(key.endswith("_failed") for key in result) else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
