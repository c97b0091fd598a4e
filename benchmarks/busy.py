"""The whole `train` command on a quiet machine and beside other busy processes ("burners"). Needs it for itself.

    python benchmarks/busy.py [--preset quick] [--burners 0,2] [--ways 300000,auto] [--repeats 5]

A way is how often GNU's OpenMP looks again before a thread that waits goes to sleep (GOMP_SPINCOUNT; its own default is
300000), or `auto`, what nanoscope sets. The ways take turns, so that all of them see the machine's moods. Printed are
the wall time, median (lowest to highest), and its ratio to the fair share of the cores: the quiet time with OpenMP's
default times (burners + cores) / cores.
"""

import argparse
import contextlib
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

CORES = psutil.cpu_count() or 1
DEFAULT = "300000"

Results = dict[tuple[int, str], list[dict[str, Any]]]  # of burners and way


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--burners", default="0,2")
    parser.add_argument("--ways", default=f"{DEFAULT},auto")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    ways = options.ways.split(",")
    found: Results = {(int(count), way): [] for count in options.burners.split(",") for way in ways}
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was measured is printed all the same
    print(f"{CORES} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}")
    with contextlib.suppress(KeyboardInterrupt):
        for turn in range(options.repeats):
            for count in dict.fromkeys(count for count, _ in found):
                with burning(count):
                    for way in ways[:: 1 if turn % 2 else -1]:
                        found[count, way].append(command(options.preset, way))
                        print(count, way, json.dumps(found[count, way][-1]), file=sys.stderr, flush=True)
    print_table(found)


@contextmanager
def burning(count: int) -> Iterator[None]:
    """Other processes that want a core each, all the time."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def command(preset: str, way: str) -> dict[str, Any]:
    """The wall time of one command, and its parts as the run itself records them."""
    variables = {} if way == "auto" else {"GOMP_SPINCOUNT": way}
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "nanoscope", "train", preset, f"--out_dir={folder}/run"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | variables,
        )
        seconds = time.perf_counter() - began
        events = [json.loads(line) for line in Path(folder, "run/events.jsonl").read_text("utf-8").splitlines()]
    return {"seconds": round(seconds, 2), "phases": events[-1]["phases"]}


def print_table(found: Results) -> None:
    quiet = statistics.median([result["seconds"] for result in found.get((0, DEFAULT), [])] or [float("nan")])
    print("| burners | way | seconds | of its fair share | start-up | steps | rest | runs |")
    print("| --- " * 8 + "|")
    for (count, way), results in found.items():
        if not results:
            continue
        times = [result["seconds"] for result in results]
        middle, fair = statistics.median(times), quiet * (count + CORES) / CORES
        startup, step = (statistics.median(each["phases"][name] for each in results) for name in ("startup", "step"))
        spread = f"{middle:.1f} ({min(times):.1f} to {max(times):.1f})"
        parts = f"{startup:.1f} | {step:.1f} | {middle - startup - step:.1f}"
        print(f"| {count} | {way} | {spread} | {middle / fair:.2f} | {parts} | {len(times)} |")


if __name__ == "__main__":
    main()
