"""A whole `nanoscope train` on a quiet machine and beside other busy processes, by how threads wait.

    python benchmarks/busy.py [--preset quick] [--burners 0,2] [--ways spin,auto] [--repeats 5] [--nice 0] [--json]

Prints the median of the whole command's wall time (lowest to highest), and its ratio to the fair share of the cores:
the time on the quiet machine with threads that spin, times (burners + cores) / cores. `spin` is what torch does by
default. The ways take turns, so that all of them see the same moods of the machine. Needs it for itself.
"""

import argparse
import json
import os
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

Case = tuple[int, str]  # burners, way


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--flags", default="", help="more flags of nanoscope train")
    parser.add_argument("--burners", default="0,2")
    parser.add_argument("--ways", default="spin,auto", help="of waiting: spin, sleep, auto; or 1 for one thread")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--nice", type=int, default=0, help="of the burners")
    parser.add_argument("--duty", type=float, default=1.0, help="share of the time that a burner burns")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    burners, ways = [int(each) for each in options.burners.split(",")], options.ways.split(",")
    found: dict[Case, list[dict[str, Any]]] = {(count, way): [] for count in burners for way in ways}
    for turn in range(options.repeats):
        for count in burners:
            with burning(count, options.nice, options.duty):
                for way in ways[:: 1 if turn % 2 else -1]:
                    result = run([options.preset, *options.flags.split()], way)
                    found[count, way].append(result)
                    print(count, way, json.dumps(result), file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps([{"burners": count, "way": way, "runs": runs} for (count, way), runs in found.items()]))
    else:
        print_table(found)


@contextmanager
def burning(count: int, nice: int, duty: float) -> Iterator[None]:
    """Other processes that want a core each."""
    period = 0.1
    code = f"""import os, time
os.nice({nice})
while True:
    begin = time.monotonic()
    while {duty} == 1 or time.monotonic() < begin + {period * duty}: pass
    time.sleep({period * (1 - duty)})"""
    burners = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def run(words: list[str], way: str) -> dict[str, Any]:
    """The wall time of one command, and its parts as the run itself records them."""
    with tempfile.TemporaryDirectory() as folder:
        flag = f"--threads={way}" if way.isdigit() else f"--waiting={way}"
        command = [sys.executable, "-m", "nanoscope", "train", *words, f"--out_dir={folder}/run", flag]
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
        events = [json.loads(line) for line in Path(folder, "run/events.jsonl").read_text("utf-8").splitlines()]
    phases = {name: round(value, 2) for name, value in events[-1]["phases"].items()}
    notes = [event["text"] for event in events if event["event"] == "note"]
    return {"seconds": round(seconds, 2), "phases": phases, "notes": notes}


def print_table(found: dict[Case, list[dict[str, Any]]]) -> None:
    cores = psutil.cpu_count() or 1
    seconds = {case: [result["seconds"] for result in results] for case, results in found.items()}
    quiet = statistics.median(seconds.get((0, "spin"), [float("nan")]))
    print(f"{cores} cores, {os.uname().machine}; seconds of the whole command, ratio to the fair share")
    print(
        "| burners | way | median (lowest to highest) | ratio | start-up | steps | rest |\n| --- " * 1
        + "| --- " * 6
        + "|"
    )
    for (count, way), times in seconds.items():
        fair = quiet * max(1.0, (count + cores) / cores)
        middle = statistics.median(times)
        parts = [
            statistics.median(result["phases"][name] for result in found[count, way]) for name in ("startup", "step")
        ]
        parts.append(middle - sum(parts))
        shown = " | ".join(f"{part:.1f}" for part in parts)
        print(
            f"| {count} | {way} | {middle:.1f} ({min(times):.1f} to {max(times):.1f}) | {middle / fair:.2f} | {shown} |"
        )


if __name__ == "__main__":
    main()
