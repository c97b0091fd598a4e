"""nanoscope against nanoGPT on this machine's CPU.

python -m benchmarks.nanogpt --nanogpt PATH [--only ROW ...] [--repeats 3] [--seeds 5] [--json] [--markdown FILE]

Prints a table, or with --json one flat object. For each comparison it has KEY_UNIT and KEY_nanogpt_UNIT (medians),
KEY_ratio (the median of the ratios turn by turn; above 1, nanoscope is better), KEY_ratio_low and KEY_ratio_high.
ROW_failed says why a row could not be measured. Needs a checkout: git clone https://github.com/karpathy/nanoGPT
"""

import argparse
import json
import shlex
import sys
import tempfile
from pathlib import Path

from benchmarks.nanogpt.results import table, write_markdown
from benchmarks.nanogpt.rows import GROUPS, LONG_ROWS, ROWS, Bench, measure
from benchmarks.nanogpt.workspace import Workspace, check_nanogpt
from nanoscope.errors import JobError, UsageError


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.nanogpt", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--nanogpt", type=Path, required=True, metavar="PATH", help="a checkout of nanoGPT; it is copied, not changed"
    )
    parser.add_argument(
        "--only", nargs="+", choices=[*ROWS, *GROUPS], metavar="ROW",
        help=f"{', '.join(ROWS)}; elsewhere: all its texts; by default all but those and babygpt, which take long",
    )  # fmt: skip
    parser.add_argument("--repeats", type=_positive, default=3, help="turns per row")
    parser.add_argument("--seeds", type=_positive, default=5, help="runs of rows that train presets, seeds 1, 2, …")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="update these rows in FILE, keep the others")
    return parser.parse_args(words)


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise ValueError
    return value


def main(words: list[str] | None = None) -> int:
    options = parse(words)
    try:
        check_nanogpt(options.nanogpt)
        return _measure(options)
    except (JobError, UsageError) as error:
        print(error, file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _measure(options: argparse.Namespace) -> int:
    chosen = options.only or [name for name in ROWS if name not in LONG_ROWS]
    names = list(dict.fromkeys(row for name in chosen for row in GROUPS.get(name, [name])))
    _progress(f"measuring {', '.join(names)}; leave the machine alone meanwhile")
    with tempfile.TemporaryDirectory(prefix="nanoscope-bench-", ignore_cleanup_errors=True) as folder:
        bench = Bench(Workspace(Path(folder), options.nanogpt), options.repeats, options.seeds, _progress)
        facts = bench.workspace.ours("machine")
        result = dict(facts)
        for name in names:
            row = measure(bench, name)
            if reason := row.get(f"{name}_failed"):
                _progress(f"{name}: not measured: {reason}")
            if options.markdown is not None:  # after each row: what is measured stays, however this ends
                write_markdown(options.markdown, facts, {name: row}, _command(options))
            result |= row
    print(json.dumps(result, ensure_ascii=False) if options.json else table(result))
    return 1 if any(key.endswith("_failed") for key in result) else 0


def _command(options: argparse.Namespace) -> str:
    """The command as a reader can repeat it, without the row's name."""
    repeats = ["--repeats", str(options.repeats)] * (options.repeats != 3)
    seeds = ["--seeds", str(options.seeds)] * (options.seeds != 5)
    return shlex.join(["python", "-m", "benchmarks.nanogpt", "--nanogpt", "PATH", *repeats, *seeds])


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
