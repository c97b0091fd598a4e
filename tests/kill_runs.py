"""Runs that are killed again and again, and must end exactly like an undisturbed run.

A configuration is trained twice: undisturbed, and killed with `kill -9` and resumed until it finishes.
tests/training/test_kills.py kills twelve times, benchmarks/soak.py as often as you like.
"""

import contextlib
import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from nanoscope.checkpoint_files import checkpoint_folders, read_pointer
from nanoscope.data.prepare import prepare
from nanoscope.runs.events import decode
from small_runs import Folder

WORDS = (
    "the", "cat", "sat", "on", "a", "mat", "and", "saw", "two", "birds", "fly", "over", "hills",
    "while", "rain", "fell",
)  # fmt: skip
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
ATTEMPT_SECONDS = 400  # a run that takes longer hangs
MOST_MISSES = 5  # runs that finish before they are killed

AIMS = {
    "any moment": "at any moment of the run, start-up included",
    "iteration": "after some line of events.jsonl",
    "start": "after the run's folder is created, before the first iteration",
    "half-written": "while a checkpoint is written",
    "renamed": "right after a checkpoint is renamed to its final name",
    "last": "while the pointer `last` is replaced",
    "best": "while the pointer `best` is replaced",
    "end": "after the last checkpoint, while the run ends",
}
PHASES = ("start-up", "step", "evaluation", "sample", "save", "finishing")


class StoppedError(Exception):
    """The user asked to stop."""


@dataclass(frozen=True)
class Configuration:
    settings: dict[str, Any]
    processes: int = 1

    def words(self, run: str) -> list[str]:
        return ["train", *(f"--{key}={value}" for key, value in self.settings.items()), f"--out_dir={run}"]

    def __str__(self) -> str:
        fixed = ("dataset", "device", "n_head", "n_layer", "log_interval", "learning_rate", "warmup_iters", "seed")
        shown = [f"{key}={value}" for key, value in self.settings.items() if key not in fixed]
        return " ".join([*shown, *([f"processes={self.processes}"] if self.processes > 1 else [])])


def any_configuration(chooser: random.Random, *, compiled: bool = False, processes: int = 1) -> Configuration:
    """Random values of the settings that could matter to a resume; a run of some seconds."""
    often = chooser.random() < 0.5  # a save with nearly every iteration: many kills hit one
    recipe, keep = chooser.choice(["modern", "classic"]), chooser.choice([1, 2, 0])
    settings = {
        "dataset": "data/tiny", "device": "cpu", "compile": compiled, "recipe": recipe,
        "seed": chooser.randrange(10**6), "n_layer": 2, "n_head": 2, "n_embd": chooser.choice([32, 64, 128]),
        "block_size": chooser.choice([16, 32]),
        "batch_size": chooser.choice([2, 4, 7]), "gradient_accumulation_steps": chooser.choice([1, 3]),
        "dropout": chooser.choice([0.0, 0.2]), "order": chooser.choice(["random", "epochs"]),
        "dtype": "float32" if compiled or chooser.random() < 0.75 else "float16", "max_iters": 40 if often else 120,
        "eval_interval": chooser.choice([1, 2, 3] if often else [8, 15, 25]), "eval_iters": chooser.choice([2, 30]),
        "keep_checkpoints": keep, "always_save_checkpoint": chooser.random() < 0.7,
        "sample_interval": chooser.choice([0, 0, 20]), "log_interval": 1, "learning_rate": 1e-2, "warmup_iters": 2,
    }  # fmt: skip
    if recipe == "modern" and (keep == 0 or chooser.random() < 0.3):  # its tables make checkpoints of 25 MB
        settings["ngrams"] = 1
    return Configuration(settings, processes)


@dataclass(frozen=True)
class Kill:
    aim: str
    hit: str
    """One of PHASES."""
    left: str
    """half-written: part of a checkpoint; unnamed: a complete one that `last` doesn't point to yet; or ''."""
    then: str
    """How the run continued: resumed, or from the beginning if nothing had been saved."""


@dataclass
class Ordeal:
    """The result for one configuration. `wrong` lists what was lost or differs; it must stay empty."""

    configuration: Configuration
    kills: list[Kill] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    losses_compared: int = 0
    files_compared: int = 0
    iterations_done_twice: int = 0
    seconds: float = 0.0


def make_folder(path: Path, environment: dict[str, str]) -> Folder:
    """A working directory with a small dataset."""
    path.mkdir(parents=True, exist_ok=True)
    chooser = random.Random(7)
    (path / "tiny.txt").write_text(" ".join(chooser.choice(WORDS) for _ in range(3000)), encoding="utf-8")
    prepare([path / "tiny.txt"], path / "data/tiny", tokenizer="char")
    return Folder(path, environment)


def torment(
    folder: Folder,
    configuration: Configuration,
    aims: Iterable[str],
    chooser: random.Random,
    stop: threading.Event | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Ordeal:
    """Train in `whole` undisturbed; train in `killed`, killed once for each aim; compare."""
    began, ordeal = time.monotonic(), Ordeal(configuration)
    stop = stop or threading.Event()
    whole = Attempt(folder, configuration, "whole", stop)
    if problem := whole.finish():
        ordeal.wrong.append(f"the undisturbed run {problem}")
        return ordeal
    life_seconds, right = time.monotonic() - began, losses(whole.run)

    misses, waiting = 0, deque(aims)
    while waiting and not ordeal.wrong:
        attempt = Attempt(folder, configuration, "killed", stop)
        hit = attempt.wait_and_kill(waiting[0], chooser, life_seconds)
        ordeal.wrong += attempt.problems(right)
        if hit is None:  # it finished first: check it, and aim at a new run
            life_seconds, misses = time.time() - attempt.began, misses + 1
            if not ordeal.wrong:
                compare(whole.run, attempt.run, ordeal)
            shutil.rmtree(attempt.run)
            if misses > MOST_MISSES:
                break
            continue
        again = "resumed" if checkpoint_folders(attempt.checkpoints) else "from the beginning"
        ordeal.kills.append(Kill(waiting.popleft(), hit, attempt.left(), again))
        tell(f"killed in {hit} (aim: {ordeal.kills[-1].aim}), {again}")
        if again == "from the beginning":
            ordeal.iterations_done_twice += len(steps_done(attempt.run))

    if not ordeal.wrong:
        attempt = Attempt(folder, configuration, "killed", stop)
        if problem := attempt.finish():
            ordeal.wrong.append(f"the run after {len(ordeal.kills)} kills {problem}")
        ordeal.wrong += attempt.problems(right)
    if not ordeal.wrong:
        compare(whole.run, attempt.run, ordeal)
    ordeal.seconds = time.monotonic() - began
    return ordeal


class Attempt:
    """One process (or two, under torchrun) that starts or resumes a run."""

    def __init__(self, folder: Folder, configuration: Configuration, run: str, stop: threading.Event) -> None:
        self.configuration, self.run, self.stop = configuration, folder.path / run, stop
        self.checkpoints, self.events = self.run / "checkpoints", self.run / "events.jsonl"
        self.saved_before = set(names(self.checkpoints))
        self.last_before = read_pointer(self.checkpoints, "last")
        words = [*configuration.words(run), "--init_from=auto"]
        if checkpoint_folders(self.checkpoints):
            words = ["train", run, "--init_from=resume"]
        module = TORCHRUN if configuration.processes > 1 else ()
        self.output = folder.path / f"{run}.output"
        self.began, self.killed = time.time(), False
        with self.output.open("wb") as output:
            self.process = psutil.Popen(
                [sys.executable, *module, "-m", "nanoscope", *words], cwd=folder.path, env=folder.environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is only for us
            )  # fmt: skip

    def finish(self) -> str:
        """Wait for the end; returns what was wrong with it."""
        if self._waited_until(lambda: False, ATTEMPT_SECONDS):
            return f"did not end in {ATTEMPT_SECONDS} s"
        return self._failure()

    def wait_and_kill(self, aim: str, chooser: random.Random, life_seconds: float) -> str | None:
        """Kill at a moment of that kind; returns the phase that was hit, or None if the run ended first."""
        moment, delay_seconds = self._moment(aim, chooser), chooser.uniform(0, 0.05)
        if aim == "any moment":
            delay_seconds = chooser.uniform(0, life_seconds)
        if aim in ("renamed", "last", "best"):  # over in milliseconds
            delay_seconds = 0
        if not self._waited_until(moment, ATTEMPT_SECONDS) or not self._waited_until(lambda: False, delay_seconds):
            return None
        self._kill()
        return self._phase()

    def problems(self, right: list[tuple[Any, ...]]) -> list[str]:
        """Did this attempt fail by itself, resume before `last`, or reach a wrong loss?"""
        found = [f"a resumed run {self._failure()}"] if not self.killed and self.process.returncode else []
        resumed = [event["step"] for event in self._own_events() if event["event"] == "resume"]
        if resumed and self.last_before and resumed[0] < int(self.last_before[5:]):
            found.append(f"resumed at {resumed[0]} although `last` named {self.last_before}")
        differing = sorted(set(losses(self.run)) - set(right))
        return found + ([f"{len(differing)} losses differ, first {differing[0]}"] if differing else [])

    def left(self) -> str:
        if any(name.startswith(".step") for name in self._fresh()):
            return "half-written"
        newest = checkpoint_folders(self.checkpoints)
        return "unnamed" if newest and newest[0].name != read_pointer(self.checkpoints, "last") else ""

    def _moment(self, aim: str, chooser: random.Random) -> Callable[[], bool]:
        """The condition to wait for. It is checked every millisecond, so it must be cheap."""
        passing, seen = chooser.randrange(3), set[object]()  # saves to let pass, and those that have passed
        if aim == "iteration":
            passing = chooser.randrange(3, 25)
            return lambda: seen.add(size_of(self.events)) or len(seen) > passing  # type: ignore[func-returns-value]
        if aim == "start":
            return lambda: changed_since(self.run / "config.toml", self.began)
        if aim == "end":
            last = self.checkpoints / f"step-{self.configuration.settings['max_iters']:06d}"
            return last.exists
        prefix = {"half-written": ".step-", "renamed": "step-", "last": ".last", "best": ".best"}.get(aim)
        if prefix is None:
            return lambda: True
        pointer = self.checkpoints / aim

        def saved() -> bool:
            seen.update(name for name in names(self.checkpoints) if name.startswith(prefix))
            if aim in ("last", "best") and changed_since(pointer, self.began):  # the temporary file was missed
                seen.add(pointer.stat().st_mtime_ns)
            return len(seen - self.saved_before) > passing

        return saved

    def _waited_until(self, moment: Callable[[], bool], seconds: float) -> bool:
        """True: the moment has come, or the time is up. False: the process has ended."""
        over = time.monotonic() + seconds
        while self.process.poll() is None:
            if moment() or time.monotonic() >= over:
                return True
            if self.stop.is_set():
                self._kill()
                raise StoppedError
            time.sleep(0.001)
        return False

    def _kill(self) -> None:
        """SIGKILL for the process and its children, which torchrun puts into sessions of their own."""
        self.killed = True
        with contextlib.suppress(psutil.NoSuchProcess):
            self.process.suspend()  # so that it starts and saves nothing while we look for children
            family = [self.process, *self.process.children(recursive=True)]
            for member in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
            psutil.wait_procs(family, timeout=60)

    def _failure(self) -> str:
        if self.process.returncode == 0:
            return ""
        said = self.output.read_text("utf-8", errors="replace").strip().splitlines()[-3:]
        return f"ended with status {self.process.returncode}: {' / '.join(said)}"

    def _own_events(self) -> list[dict[str, Any]]:
        began = datetime.fromtimestamp(self.began, UTC)
        return [event for event in all_events(self.run) if datetime.fromisoformat(event["time"]) >= began]

    def _fresh(self) -> list[str]:
        """Temporary files and folders of this attempt in the folder of checkpoints."""
        temporary = [name for name in names(self.checkpoints) if name.startswith(".")]
        return [name for name in temporary if changed_since(self.checkpoints / name, self.began)]

    def _phase(self) -> str:
        """What the process was doing, judging by what it had written."""
        events = self._own_events()
        kinds = {event["event"] for event in events}
        if "end" in kinds:
            return "finishing"
        if not kinds - {"start", "resume"}:
            return "start-up"
        if self._fresh() or self.left():
            return "save"
        settings, step = self.configuration.settings, max(event.get("step", 0) for event in events)
        done = {event["event"] for event in events if event.get("step") == step and event["event"] != "iter"}
        if not done:  # the last event is an iteration: what is due after it comes next
            step += 1
        if step == settings["max_iters"] and "eval" in done:
            return "finishing"
        if (step % settings["eval_interval"] == 0 or step == settings["max_iters"]) and not done:
            return "evaluation"
        return "sample" if settings["sample_interval"] and step % settings["sample_interval"] == 0 else "step"


def compare(whole: Path, killed: Path, ordeal: Ordeal) -> None:
    """Compare every loss written in any session of the run, the last checkpoint and the samples."""
    right, got = losses(whole), losses(killed)
    ordeal.losses_compared += len(got)
    ordeal.iterations_done_twice += len(steps_done(killed)) - len(set(steps_done(killed)))
    if missing := set(right) - set(got):
        ordeal.wrong.append(f"{len(missing)} losses are missing, first {min(missing)}")
    last = f"checkpoints/step-{ordeal.configuration.settings['max_iters']:06d}"
    samples = [f"samples/{path.name}" for path in (whole / "samples").glob("*")]
    for name in [f"{last}/model.safetensors", f"{last}/optimizer.safetensors", "checkpoints/best", *samples]:
        ordeal.files_compared += 1
        if content(whole / name) != content(killed / name):
            ordeal.wrong.append(f"{name} differs")
    states = [json.loads((run / last / "state.json").read_text("utf-8")) for run in (whole, killed)]
    ordeal.wrong += [
        f"{key} of the last state differs" for key in ("progress", "scaler") if states[0][key] != states[1][key]
    ]
    ordeal.wrong += [f"{name} was left behind" for name in names(killed / "checkpoints") if name.startswith(".")]


def losses(run: Path) -> list[tuple[Any, ...]]:
    """('iter', step, loss) and ('eval', step, train loss, val loss), as often as each was written."""
    keys = {"iter": ("loss",), "eval": ("train_loss", "val_loss")}
    return [
        (event["event"], event["step"], *(event[key] for key in keys[event["event"]]))
        for event in all_events(run)
        if event["event"] in keys
    ]


def steps_done(run: Path) -> list[int]:
    return [event["step"] for event in all_events(run) if event["event"] == "iter"]


def all_events(run: Path) -> list[dict[str, Any]]:
    """Of whole lines: a kill may have torn one."""
    file = run / "events.jsonl"
    lines = file.read_bytes().splitlines() if file.exists() else []
    return [json.loads(line) for line in lines if decode(line) is not None]


def names(folder: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return [path.name for path in folder.iterdir()]
    return []


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def size_of(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def changed_since(path: Path, moment: float) -> bool:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime >= moment
    return False
