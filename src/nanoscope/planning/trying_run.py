"""From the folder of a run to the results of its trials. The folder is only read."""

import math
import shlex
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nanoscope.analysis.analyse import analyse
from nanoscope.analysis.findings import Advice
from nanoscope.checkpoint_files import NANOGPT
from nanoscope.config import TrainConfig
from nanoscope.config_sources import read_run_config, resolve
from nanoscope.data.find import find_dataset
from nanoscope.errors import JobError, UsageError
from nanoscope.messages import Text
from nanoscope.planning.trying import ARMS_OF_ALL, FEWEST_ITERS, Length, Results, Trial, choose_length, untouched
from nanoscope.planning.trying_arms import flags
from nanoscope.planning.trying_lab import Lab, Worker
from nanoscope.runs.reader import read_log

FEWEST_WINDOWS, MOST_WINDOWS = 64, 400  # on which the arms are compared
CONFIRMING_ROOM = 0.95  # of the time is planned

OnStart = Callable[[Length, float], None]


def find_run(name: str) -> Path:
    """The folder of a run of ours that a path means. Says what to do where there is only a log."""
    path = Path(name)
    folder = path.parent if path.name in ("events.jsonl", "console.log", "config.toml") else path
    if (folder / "events.jsonl").is_file() and read_run_config(folder)[0]:
        return folder
    if (path / NANOGPT).is_file():
        raise JobError(
            "{path} is a run of nanoGPT: its checkpoint doesn't hold the text or the schedule to train it again.\n"
            "Train it here, for as few iterations as you like, then try that run:\n"
            "  nanoscope train config/CONFIG.py --max_iters=200 && nanoscope try runs/CONFIG",
            path=path,
        )
    read_log(name)  # which has better words for what is not there
    raise JobError(
        "{path} is only a log: without the run's settings and its text, advice can't be tried.\n"
        "Train it with nanoscope (nanoGPT's config files work), then try that run:\n"
        "  nanoscope train config/CONFIG.py && nanoscope try runs/CONFIG",
        path=Text("standard input") if name == "-" else path,
    )


def advice_of(folder: Path) -> tuple[Advice, ...]:
    """What `explain` advises."""
    log = read_log(str(folder))
    return analyse(log.runs[-1], log=log).advice if log.runs else ()


def try_run(
    folder: Path,
    advice: tuple[Advice, ...],
    minutes: float,
    on_start: OnStart = lambda length, seconds: None,
    on_progress: Callable[[str, float], None] | None = None,
) -> Results:
    """Train the trials, in at most about so many minutes."""
    began = time.monotonic()
    run = resolve([str(folder)]).config
    data = find_dataset(run.dataset, run.tokenizer, run=folder)
    config = replace(untouched(run), dataset=str(data), tokenizer="auto")
    worker = Worker(folder, config)
    try:
        lab = Lab(worker, _windows(run), began + 60 * minutes, on_progress)
        lab.seconds_per_iteration = lab.pace(config)
        length = choose_length(run.max_iters, lab.seconds_per_iteration, CONFIRMING_ROOM * lab.seconds_left)
        if length.iters < min(FEWEST_ITERS, run.max_iters):
            needed = ARMS_OF_ALL * FEWEST_ITERS * lab.seconds_per_iteration / 60
            raise JobError(
                "an iteration takes {seconds:rough}: trials of at least {n:d} iterations, which is little for a run "
                "of {total:d}, take about {needed:duration}\nAllow that: --minutes={minutes:d}",
                seconds=lab.seconds_per_iteration,
                n=FEWEST_ITERS,
                total=run.max_iters,
                needed=60 * needed,
                minutes=math.ceil(needed / CONFIRMING_ROOM) + 1,
            )
        on_start(length, lab.seconds_per_iteration)
        return Trial(lab, length, config).ask_all(advice)
    finally:
        worker.close()


def command(folder: Path, results: Results) -> str | None:
    """How to train the run with what was confirmed; None if nothing was."""
    if results.proposed is None:
        return None
    run = resolve([str(folder)]).config
    words = flags(results.proposed, results.run)
    found = None
    with suppress(UsageError, JobError):
        found = find_dataset(run.dataset, run.tokenizer)
    if found is None or found.resolve() != Path(results.run.dataset).resolve():
        words.append(f"--dataset={results.run.dataset}")
    return shlex.join(["nanoscope", "train", str(folder), f"--out_dir={_unused(folder)}", *words])


def _windows(run: TrainConfig) -> int:
    own = MOST_WINDOWS if run.eval_iters == "full" else run.eval_iters * run.batch_size
    return min(max(own, FEWEST_WINDOWS), MOST_WINDOWS)


def _unused(folder: Path) -> Path:
    base = folder if folder.name else folder.resolve()
    places = (base.with_name(f"{base.name}-tried{number}") for number in ("", *range(2, 1000)))
    return next(place for place in places if not place.exists())
