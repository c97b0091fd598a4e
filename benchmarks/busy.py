"""Training on a quiet machine and beside other busy processes ("burners"), by how threads wait. Needs it for itself.

    python benchmarks/busy.py commands [--preset quick] [--burners 0,2] [--ways spin,auto] [--repeats 5]
    python benchmarks/busy.py starts [--burners 0,1,2] [--repeats 20]
    python benchmarks/busy.py steps [--preset quick]

`commands`: the wall time of the whole command, median (lowest to highest), and its ratio to the fair share of the
cores: the time on the quiet machine with threads that spin, which is torch's default, times (burners + cores) / cores.
A way is spin, sleep, auto, or a number of threads. The ways take turns, so that all of them see the machine's moods.
`starts`: how often the choice at the start is 'busy'. `steps`: steps that spin and steps that sleep, in turns in one
process, beside burners of several kinds, to check the limits in hardware/load.py.
"""

import argparse
import contextlib
import json
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
KINDS = [  # burners, the share of the time that they burn, their nice value
    (0, 1.0, 0), (1, 0.1, 0), (1, 0.25, 0), (1, 0.5, 0), (1, 1.0, 0), (2, 0.25, 0), (2, 0.5, 0), (2, 1.0, 0),
    (1, 1.0, 19), (2, 1.0, 10), (2, 1.0, 19), (0, 1.0, 0),
]  # fmt: skip
STEPS, LAPS = 15, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["commands", "starts", "steps"])
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--burners", default="0,2")
    parser.add_argument("--ways", default="spin,auto")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    burners = [int(each) for each in options.burners.split(",")]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was measured is printed all the same
    print(f"{CORES} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}")
    if options.what == "commands":
        commands(options.preset, burners, options.ways.split(","), options.repeats)
    elif options.what == "starts":
        for count in burners:
            starts(count, options.repeats)
    else:
        steps(options.preset)


@contextmanager
def burning(count: int, nice: int = 0, share: float = 1.0) -> Iterator[None]:
    """Other processes that want a core each, all the time or a share of it."""
    code = f"""import os, time
os.nice({nice})
while True:
    begin = time.monotonic()
    while {share} == 1 or time.monotonic() < begin + {0.1 * share}: pass
    time.sleep({0.1 * (1 - share)})"""
    burners = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


Results = dict[tuple[int, str], list[dict[str, Any]]]  # of burners and way


def commands(preset: str, burners: list[int], ways: list[str], repeats: int) -> None:
    found: Results = {(count, way): [] for count in burners for way in ways}
    with contextlib.suppress(KeyboardInterrupt):
        for turn in range(repeats):
            for count in burners:
                with burning(count):
                    for way in ways[:: 1 if turn % 2 else -1]:
                        found[count, way].append(command(preset, way))
                        print(count, way, json.dumps(found[count, way][-1]), file=sys.stderr, flush=True)
    print_table(found)


def command(preset: str, way: str) -> dict[str, Any]:
    """The wall time of one command, and its parts as the run itself records them."""
    flag = f"--threads={way}" if way.isdigit() else f"--waiting={way}"
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "nanoscope", "train", preset, f"--out_dir={folder}/run", flag],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        seconds = time.perf_counter() - began
        events = [json.loads(line) for line in Path(folder, "run/events.jsonl").read_text("utf-8").splitlines()]
    notes = [event["text"] for event in events if event["event"] == "note"]
    return {"seconds": round(seconds, 2), "phases": events[-1]["phases"], "notes": notes}


def print_table(found: Results) -> None:
    quiet = statistics.median([result["seconds"] for result in found.get((0, "spin"), [])] or [float("nan")])
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


# What a command does before it chooses.
START = """
from nanoscope.training.resume import resolve_and_make_ready
resolve_and_make_ready(["quick"])
from nanoscope.training import launch
from nanoscope.hardware import load
found, _ = load.load_since_begin()
print(found.others, found.is_busy(found.cores))
"""


def starts(count: int, repeats: int) -> None:
    """What is chosen at the start, over and over again."""
    child = [sys.executable, "-c", START]
    with burning(count):
        found = [subprocess.run(child, stdout=subprocess.PIPE, text=True).stdout.split() for _ in range(repeats)]
    others, busy = [float(each) for each, _ in found], [each for _, each in found].count("True")
    spread = f"{statistics.median(others):.2f} ({min(others):.2f} to {max(others):.2f})"
    print(f"{count} burners: busy at {busy} of {repeats} starts; others used {spread} cores", flush=True)


def steps(preset: str) -> None:
    from nanoscope.training.resume import resolve_and_make_ready

    words = [preset, "--waiting=spin", "--max_iters=1000000", f"--out_dir={tempfile.mkdtemp()}/run"]
    resolved = resolve_and_make_ready(words)

    from nanoscope.hardware import load
    from nanoscope.hardware.openmp import Switch
    from nanoscope.training.console import open_terminal
    from nanoscope.training.phases import PhaseClock
    from nanoscope.training.startup import start_session
    from nanoscope.training.stopping import StopRequest
    from nanoscope.training.trainer import advance, optimizer_step

    stop, switch = StopRequest(), Switch()
    session = start_session(resolved, open_terminal(stop), PhaseClock())

    def lap() -> tuple[float, float]:
        """Milliseconds of a step, and the cores that others used."""
        before = load.read()
        for _ in range(STEPS):
            optimizer_step(session, session.loader.next(), 1e-3, stop)
            advance(session)
        after = load.read()
        return 1000 * (after.seconds - before.seconds) / STEPS, load.load_between(before, after).others

    lap()
    print("| burners | burning | nice | spin, ms | others use | sleep, ms | others use | sleep / spin |")
    print("| --- " * 8 + "|", flush=True)
    with session.resources:
        for count, share, nice in KINDS:
            found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
            with burning(count, nice, share):
                for turn in range(LAPS):
                    for sleeping in (turn % 2 == 0, turn % 2 != 0):
                        switch.set(sleeping)
                        found[sleeping].append(lap())
            switch.set(sleeping=False)
            columns, middles = [f"{count} | {share:.0%} | {nice}"], []
            for laps in found.values():
                times, others = zip(*laps, strict=True)
                middles.append(statistics.median(times))
                columns.append(f"{middles[-1]:.0f} ({min(times):.0f} to {max(times):.0f})")
                columns.append(f"{statistics.median(others):.2f}")
            print(f"| {' | '.join(columns)} | {middles[1] / middles[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
