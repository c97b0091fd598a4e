"""Kill training runs with kill -9, more than a hundred times, and check that nothing is lost and nothing differs.

python benchmarks/soak.py [--kills 150] [--minutes 25] [--workers 2] [--seed N]

Random configurations are trained undisturbed and under kills (tests/kill_runs.py). Ctrl-C stops and prints the table
so far. The same seed gives the same configurations and aims; the exact moments depend on the machine.
benchmarks/FAULTS.md has figures.
"""

import argparse
import itertools
import os
import platform
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kill_runs import AIMS, PHASES, Configuration, Ordeal, StoppedError, any_configuration, make_folder, torment
from nanoscope.hardware.probe import cpu_name

# A run could break while it saves; start-up is long but has nothing to lose.
WEIGHTS = {"any moment": 3, "iteration": 5, "start": 1, "half-written": 4, "renamed": 2, "last": 2, "best": 1, "end": 1}
KILLS_PER_CONFIGURATION = 7


class Soak:
    """The work of all workers, and its results."""

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        self.options, self.scratch = options, scratch
        self.began = time.monotonic()
        self.ordeals: list[Ordeal] = []
        self.kills = 0
        self.stop = threading.Event()
        self.numbers = itertools.count()
        self.lock = threading.Lock()

    @property
    def enough(self) -> bool:
        over = time.monotonic() - self.began > 60 * self.options.minutes
        return over or self.kills >= int(self.options.kills)

    def work(self) -> None:
        """One configuration after another; a configuration that was started is finished."""
        while not self.enough and not self.stop.is_set():
            number = next(self.numbers)
            chooser = random.Random(f"{self.options.seed}/{number}")
            special = number % 8  # of every eight, the first is compiled and the fifth uses two processes
            configuration = any_configuration(
                chooser, compiled=special == 0 and self.options.compile, processes=2 if special == 4 else 1
            )
            self.say(number, str(configuration))
            folder = make_folder(
                self.scratch / str(number), {"OMP_NUM_THREADS": "1", "NANOSCOPE_CACHE": str(self.scratch / "cache")}
            )
            try:
                ordeal = torment(
                    folder, configuration, self.aims(chooser), chooser, self.stop, partial(self.killed, number)
                )
            except StoppedError:
                return
            self.ordeals.append(ordeal)
            verdict = "; ".join(ordeal.wrong) or "nothing lost, nothing differs"
            self.say(number, f"{len(ordeal.kills)} kills in {ordeal.seconds:.0f} s: {verdict}")
            if not ordeal.wrong:  # else keep it for inspection
                shutil.rmtree(folder.path, ignore_errors=True)

    def aims(self, chooser: random.Random) -> Iterator[str]:
        for _ in range(KILLS_PER_CONFIGURATION):
            if self.enough:
                return
            yield chooser.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]

    def killed(self, number: int, line: str) -> None:
        with self.lock:
            self.kills += 1
        self.say(number, line)

    def say(self, number: int, line: str) -> None:
        print(f"{time.monotonic() - self.began:6.0f} s, {self.kills:3d} kills  #{number}: {line}", flush=True)


def report(soak: Soak) -> str:
    """The results as Markdown."""
    ordeals = soak.ordeals
    kills = [kill for ordeal in ordeals for kill in ordeal.kills]
    hit, aimed = Counter(kill.hit for kill in kills), Counter(kill.aim for kill in kills)
    left, then = Counter(kill.left for kill in kills), Counter(kill.then for kill in kills)
    wrong = [(ordeal, problem) for ordeal in ordeals for problem in ordeal.wrong]
    minutes = (time.monotonic() - soak.began) / 60
    versions = f"{platform.system()}, Python {platform.python_version()}, torch {version('torch')}"
    how = f"runs at a time: {soak.options.workers}, one thread each; {minutes:.0f} minutes"
    lines = [
        f"- {date.today()}, {cpu_name()}, {os.cpu_count()} cores, {versions}; {how}",
        f"- to repeat: `python benchmarks/soak.py --seed {soak.options.seed} --kills {soak.options.kills}`",
        "",
        "| what | number |",
        "| --- | ---: |",
        f"| configurations | {len(ordeals)} |",
        f"| kills | {len(kills)} |",
        f"| resumed from a checkpoint | {then['resumed']} |",
        f"| started again, nothing saved yet | {then['from the beginning']} |",
        f"| resumed past a half-written checkpoint | {left['half-written']} |",
        f"| killed between a complete checkpoint and the pointer to it | {left['unnamed']} |",
        f"| losses compared | {sum(ordeal.losses_compared for ordeal in ordeals):,} |",
        f"| files compared byte for byte | {sum(ordeal.files_compared for ordeal in ordeals)} |",
        f"| iterations repeated | {sum(ordeal.iterations_done_twice for ordeal in ordeals):,} |",
        f"| **runs lost or differing** | **{len({id(ordeal) for ordeal, _ in wrong})}** |",
        "",
        "What the run was doing when it was killed:",
        "",
        "| " + " | ".join(PHASES) + " |",
        "|" + " ---: |" * len(PHASES),
        "| " + " | ".join(str(hit[phase]) for phase in PHASES) + " |",
        "",
        "| aimed at | kills |",
        "| --- | ---: |",
        *(f"| {meaning} | {aimed[aim]} |" for aim, meaning in AIMS.items()),
        "",
        "| configuration | kills | losses | repeated | seconds | result |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
        *(_row(ordeal) for ordeal in ordeals),
        "",
    ]
    return "\n".join(lines)


def _row(ordeal: Ordeal) -> str:
    verdict = "; ".join(ordeal.wrong).replace("|", "¦") or "the same"
    return (
        f"| {_short(ordeal.configuration)} | {len(ordeal.kills)} | {ordeal.losses_compared} "
        f"| {ordeal.iterations_done_twice} | {ordeal.seconds:.0f} | {verdict} |"
    )


def _short(configuration: Configuration) -> str:
    """The settings that differ between rows."""
    s = configuration.settings
    words = [
        s["recipe"], s["dtype"], s["order"], f"{s['batch_size']}×{s['gradient_accumulation_steps']}",
        f"width {s['n_embd']}", f"{s['max_iters']} iterations", f"eval every {s['eval_interval']}",
        f"keep {s['keep_checkpoints']}",
    ]  # fmt: skip
    words += ["dropout"] if s["dropout"] else []
    words += ["compiled"] if s["compile"] else []
    words += ["saves only the best"] if not s["always_save_checkpoint"] else []
    words += ["samples"] if s["sample_interval"] else []
    words += ["two processes"] if configuration.processes > 1 else []
    return ", ".join(words)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=150)
    parser.add_argument("--minutes", type=float, default=25, help="no new kills after this time")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="leave compiled runs out")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # then, too, children are killed and folders removed
    scratch = Path(tempfile.mkdtemp(prefix="nanoscope-soak-"))
    soak, interrupted = Soak(options, scratch), False
    with ThreadPoolExecutor(options.workers) as pool:
        workers = [pool.submit(soak.work) for _ in range(options.workers)]
        try:
            for worker in workers:
                worker.result()
        except KeyboardInterrupt:
            for number in (signal.SIGINT, signal.SIGTERM):  # the workers need a moment to kill their children
                signal.signal(number, signal.SIG_IGN)
            interrupted = True
            print("stopping; the table so far:", flush=True)
        finally:
            soak.stop.set()
    failed = any(ordeal.wrong for ordeal in soak.ordeals)
    if failed:
        print(f"runs that were lost or differ are kept in {scratch}")
    else:
        shutil.rmtree(scratch, ignore_errors=True)
    print(report(soak))
    return 1 if failed else 130 if interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
