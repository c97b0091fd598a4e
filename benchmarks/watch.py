"""Measures `nanoscope watch` with 20 runs of 100,000 steps: seconds in the browser, memory and CPU of the server.

python benchmarks/watch.py [--growth SECONDS] [--training SECONDS] [--json] [--markdown benchmarks/WATCH.md]

The runs are generated in a temporary folder (about 600 MB, deleted at the end). Needs Chromium and playwright. Without
--growth and --training it takes about two minutes.
"""

import argparse
import json
import math
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import psutil
from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from nanoscope.hardware.probe import cpu_name
from watching import HANDLES, Watch, child_environment, watching

SPIKES = (0.12345, 0.31007, 0.50001, 0.77777, 0.9321)  # positions of the slow steps, as fractions of the run
SPIKE_SECONDS = 9.5  # unlike any other number in the charts
STEP_SECONDS = 0.030
PATIENCE_MS = 170_000
SETTLE_SECONDS = 3  # after opening the page, before steps are measured
SCROLL = """() => new Promise((resolve) => {
    const { scroller } = table_, begun = performance.now();
    let frames = 0;
    const step = (now) => {
        scroller.scrollTop = (frames += 1) * 90;
        if (now - begun < 1000) requestAnimationFrame(step); else resolve(1000 * frames / (now - begun));
    };
    requestAnimationFrame(step);
})"""
SLIDE = """() => new Promise((resolve) => {
    const slider = document.querySelector("#smoothing"), took = [], begun = performance.now();
    let before = begun;
    const step = (now) => {
        took.push(now - before);
        before = now;
        if (now - begun > 3000) return resolve(took.slice(2));
        const share = (took.length % 40) / 40;
        slider.value = String(Number(slider.min) + share * (Number(slider.max) - Number(slider.min)));
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
})"""
PAGE_OFF = "async () => (await import('/static/dashboard.js')).disconnect()"
PAGE_ON = "async () => (await import('/static/dashboard.js')).connect()"
MEGABYTE = 1e6
ABOUT = """\
Written by `python benchmarks/watch.py --growth 20 --training 6 --markdown benchmarks/WATCH.md`. The runs are generated:
every step is logged with all fields, every 1000th has an evaluation, and five steps of each run are slow. Server and
Chromium share the machine. Times are from the click, or from opening the address, until the result is on the page. They
are medians of three, each with a server that has just started, from files in the page cache. Memory is that of the
server."""

Row = tuple[str, str]


# --- the runs ---


def spikes_of(run: int, steps: int) -> list[int]:
    return [round(share * steps) + run for share in SPIKES]


def lines_of(run: int, first: int, last: int, steps: int, noise: list[float]) -> Iterator[str]:
    """Events of steps first … last - 1, as training writes them (faster than through `encode`)."""
    spikes = set(spikes_of(run, steps))
    for step in range(first, last):
        rough = noise[(step + 97 * run) % len(noise)]
        usual = 1.4 + 0.01 * run + 2.8 * math.exp(-8 * step / steps)
        clock = f"2026-01-01T{step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}.000+00:00"
        if step % 1000 == 0:
            yield (
                f'{{"event":"eval","t":{step * STEP_SECONDS:.4f},"time":"{clock}","step":{step},'
                f'"train_loss":{usual - 0.05:.5f},"train_stderr":0.0041,"val_loss":{usual + 0.02:.5f},'
                f'"val_stderr":0.0043,"windows":200,"seconds":0.41,"best":true}}\n'
            )
        seconds = SPIKE_SECONDS if step in spikes else STEP_SECONDS * (1 + 0.05 * rough)
        yield (
            f'{{"event":"iter","t":{step * STEP_SECONDS:.4f},"time":"{clock}","step":{step},'
            f'"loss":{usual + 0.06 * rough:.5f},"seconds":{seconds:.6f},"data_seconds":0.0001,"steps":1,'
            f'"mean_seconds":{seconds:.6f},"max_seconds":{seconds:.6f},"lr":{1e-3 * (1 - step / steps):.4e},'
            f'"grad_norm":{abs(0.8 + 0.2 * rough):.4f},"tokens_per_second":{768 / seconds:.1f},'
            f'"mfu":{0.4 - 0.02 * rough:.5f},"eta_seconds":{(steps - step) * STEP_SECONDS:.1f}}}\n'
        )


def write_runs(folder: Path, runs: int, steps: int) -> float:
    """Write all runs, each a little newer than the one before; return the megabytes written."""
    chooser = random.Random(0)
    noise = [chooser.gauss(0, 1) for _ in range(9973)]
    config = {"max_iters": steps, "batch_size": 12, "block_size": 64, "learning_rate": 1e-3, "device": "cpu"}
    written = 0
    for run in range(runs):
        file = folder / f"run-{run:02d}" / "events.jsonl"
        file.parent.mkdir(parents=True)
        start = {
            "event": "start",
            "t": 0.0,
            "time": "2026-01-01T00:00:00.000+00:00",
            "version": 1,
            "run": file.parent.name,
        }
        start |= {"config": config, "device": "cpu", "first_step": 0, "parameters": 795904, "tokens_per_step": 768}
        end = {"event": "end", "t": steps * STEP_SECONDS, "time": "2026-01-02T00:00:00.000+00:00", "reason": "finished"}
        end |= {"step": steps, "wall_seconds": steps * STEP_SECONDS, "phases": {"step": steps * STEP_SECONDS}}
        with file.open("w", encoding="utf-8") as out:
            out.write(json.dumps(start) + "\n")
            out.writelines(lines_of(run, 0, steps, steps, noise))
            if run < runs - 1:  # the newest goes on
                out.write(json.dumps(end) + "\n")
        written += file.stat().st_size
        os.utime(file, (time.time() - 3600 + run,) * 2)
    return written / MEGABYTE


# --- measurements ---


def peak_megabytes(server: Watch) -> float:
    """Peak memory of the server, plus the current memory of its children."""
    process = psutil.Process(server.process.pid)
    status = Path(f"/proc/{server.process.pid}/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text("utf-8").splitlines() if ":" in line)
        own = int(fields["VmHWM"].split()[0]) * 1024
    else:
        memory = process.memory_info()
        own = getattr(memory, "peak_wset", memory.rss)
    return float(own + sum(child.memory_info().rss for child in process.children(recursive=True))) / MEGABYTE


def wait_until_shown(page: Page, name: str) -> None:
    """Wait until the charts of a run are drawn."""
    page.wait_for_function(
        """name => {
            const shown = document.querySelector("#content .run-name");
            return shown && shown.textContent === name && document.querySelector("#content .tall canvas");
        }""",
        arg=name,
    )


def wait_until_listed(page: Page, runs: int) -> None:
    """Wait until the table knows all runs and has drawn those in sight."""
    page.wait_for_function(
        f"() => window.handled && table_.runs.size === {runs} && document.querySelector('.run-space .run-row')"
    )


def drawn_spikes(page: Page, run: int, steps: int) -> int:
    """Count the slow steps of a run that its charts show."""
    points = page.evaluate(
        f"""() => [...charts].flatMap(({{ spec }}) => spec.lines.filter(({{ key }}) => key.startsWith("slow"))
            .flatMap(({{ x, y }}) => Array.from(x).filter((_, i) => Math.abs(y[i] - {SPIKE_SECONDS}) < 0.01)))"""
    )
    return len(set(points) & set(spikes_of(run, steps)))


def spikes_in_overlay(server: Watch, runs: int, steps: int) -> int:
    """The same for all runs, in the data of the overlay."""
    reports = server.report(*(f"run-{run:02d}" for run in range(runs)))["runs"]
    return sum(
        len({step for step, *_ in report["slow"]} & set(spikes_of(run, steps))) for run, report in enumerate(reports)
    )


@contextmanager
def opened(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    try:
        page = context.new_page()
        page.add_init_script(HANDLES)
        yield page
    finally:
        context.close()


def look(browser: Browser, folder: Path, runs: int, steps: int) -> dict[str, float]:
    """Open the page, click another run, overlay all."""
    found: dict[str, float] = {}
    newest, another = f"run-{runs - 1:02d}", f"run-{runs // 2:02d}"
    with watching(folder) as server, opened(browser) as page:
        found["server_idle_mb"] = peak_megabytes(server)
        begun = time.perf_counter()
        page.goto(server.url)
        wait_until_listed(page, runs)
        found["list_s"] = time.perf_counter() - begun
        found["list_mb"] = peak_megabytes(server)
        wait_until_shown(page, newest)
        found["newest_drawn_s"] = time.perf_counter() - begun
        found["newest_mb"] = peak_megabytes(server)
        found["drawn_spikes"] = drawn_spikes(page, runs - 1, steps)
        begun = time.perf_counter()
        page.locator(f".run-row[data-name='{another}'] a.open").click()
        page.wait_for_selector(f".run-row.chosen[data-name='{another}']")
        found["click_answered_s"] = time.perf_counter() - begun
        wait_until_shown(page, another)
        found["another_drawn_s"] = time.perf_counter() - begun
        found["drawn_spikes"] += drawn_spikes(page, runs // 2, steps)
        begun = time.perf_counter()
        page.locator(f".run-row[data-name='{newest}'] a.open").click()
        wait_until_shown(page, newest)
        found["back_drawn_s"] = time.perf_counter() - begun
        found["slide_frames_per_s"], found["slide_slowest_ms"] = slide(page)
        selection = urlencode([("run", f"run-{run:02d}") for run in range(runs)])
        process = psutil.Process(server.process.pid)
        used = sum(process.cpu_times()[:4])
        begun = time.perf_counter()
        page.evaluate("hash => { location.hash = hash; }", selection)
        page.wait_for_function(f"() => document.querySelectorAll('#content details.run').length === {runs}")
        page.wait_for_selector("#content .overlay canvas")
        found["overlay_drawn_s"] = time.perf_counter() - begun
        found["overlay_cpu_s"] = sum(process.cpu_times()[:4]) - used  # with that of the children
        found["overlay_mb"] = peak_megabytes(server)
        found["overlay_spikes"] = spikes_in_overlay(server, runs, steps)
        found["peak_mb"] = peak_megabytes(server)
        found["overlay_slide_frames_per_s"], found["overlay_slide_slowest_ms"] = slide(page)
    return found


def slide(page: Page) -> tuple[float, float]:
    """Move the smoothing slider with every frame: frames per second, and the 95th percentile of a frame in ms."""
    took = sorted(page.evaluate(SLIDE))
    return 1000 / statistics.mean(took), took[int(0.95 * len(took))]


def list_many(browser: Browser, scratch: Path, runs: int) -> dict[str, float]:
    """A folder of many small runs: seconds until the table is there, and how it scrolls."""
    chooser = random.Random(3)
    noise = [chooser.gauss(0, 1) for _ in range(997)]
    folder = scratch / "many"
    for run in range(runs):
        file = folder / f"sweep-{run // 100:02d}" / f"run-{run:04d}" / "events.jsonl"
        file.parent.mkdir(parents=True)
        config = {"max_iters": 200, "learning_rate": 10 ** -(1 + run % 4), "dropout": run % 5 / 10, "seed": run}
        start = {"event": "start", "t": 0.0, "version": 1, "run": file.parent.name, "config": config}
        evals = [
            f'{{"event":"eval","step":{s},"val_loss":{1.5 + 3 / (1 + s) + run % 7 / 100}}}\n' for s in range(0, 200, 20)
        ]
        end = {"event": "end", "reason": "finished", "step": 200, "wall_seconds": 6.0, "phases": {"step": 6.0}}
        lines = [json.dumps(start) + "\n", *lines_of(run, 1, 200, 200, noise), *evals, json.dumps(end) + "\n"]
        file.write_text("".join(lines), "utf-8")
    found: dict[str, float] = {}
    with watching(folder) as server, opened(browser) as page:
        begun = time.perf_counter()
        page.goto(server.url)
        wait_until_listed(page, runs)
        found["many_list_s"] = time.perf_counter() - begun
        page.wait_for_function("() => [...table_.runs.values()].every((run) => run.spark.length)")
        found["many_sparks_s"] = time.perf_counter() - begun
        page.wait_for_timeout(2000)
        found["many_frames_per_s"] = page.evaluate(SCROLL)
        begun = time.perf_counter()
        page.locator("#search").fill("learning_rate=0.01 dropout=0.2")
        page.wait_for_function(f"() => table_.shown.length < {runs // 4}")
        found["many_filter_s"] = time.perf_counter() - begun
        process = psutil.Process(server.process.pid)
        used = sum(process.cpu_times()[:2])
        page.wait_for_timeout(10_000)
        found["many_idle_cpu_s_per_min"] = 6 * (sum(process.cpu_times()[:2]) - used)
        found["many_mb"] = peak_megabytes(server)
    return found


def grow(browser: Browser, folder: Path, runs: int, steps: int, seconds: float) -> dict[str, float]:
    """CPU of the server while the newest run grows by ten lines per second and the page shows it."""
    stop = threading.Event()
    chooser = random.Random(1)
    noise = [chooser.gauss(0, 1) for _ in range(9973)]
    file = folder / f"run-{runs - 1:02d}" / "events.jsonl"

    def write() -> None:
        with file.open("a", encoding="utf-8") as out:
            for line in lines_of(runs - 1, steps, 10 * steps, steps, noise):
                out.write(line)
                out.flush()
                if stop.wait(0.1):
                    return

    with watching(folder) as server, opened(browser) as page:
        page.goto(f"{server.url}#run=run-{runs - 1:02d}")
        wait_until_shown(page, f"run-{runs - 1:02d}")
        last_drawn = "Math.max(...[...charts].flatMap(({ spec }) => spec.lines.map(({ x }) => x[x.length - 1] || 0)))"
        writer = threading.Thread(target=write)
        process = psutil.Process(server.process.pid)
        used = sum(process.cpu_times()[:2])
        begun = time.perf_counter()
        writer.start()
        try:
            page.wait_for_timeout(1000 * seconds)
            took = time.perf_counter() - begun
            used = sum(process.cpu_times()[:2]) - used
            behind_s = steps + 10 * took - page.evaluate(last_drawn)
        finally:
            stop.set()
            writer.join()
        return {
            "growth_cpu_s_per_min": 60 * used / took,
            "growth_behind_s": behind_s / 10,
            "growth_peak_mb": peak_megabytes(server),
        }


@contextmanager
def trained(folder: Path) -> Iterator[Path]:
    """Train a real run on all cores; its events file."""
    chooser = random.Random(2)
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "two", "birds", "fly", "over", "hills"]
    (folder / "words.txt").write_text(" ".join(chooser.choice(words) for _ in range(60_000)), "utf-8")
    environment = {key: value for key, value in child_environment().items() if key != "OMP_NUM_THREADS"}
    program = [sys.executable, "-m", "nanoscope"]
    quiet = {"cwd": folder, "env": environment, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    subprocess.run([*program, "prepare", "words.txt", "--out", "data/words"], check=True, timeout=120, **quiet)  # type: ignore[call-overload]
    settings = [
        "--dataset=data/words", "--n_layer=4", "--n_head=4", "--n_embd=128", "--block_size=64", "--batch_size=12",
        "--max_iters=1000000", "--max_minutes=10", "--eval_interval=500", "--eval_iters=10", "--log_interval=1",
        "--device=cpu", "--compile=False", "--out_dir=runs/live",
    ]  # fmt: skip
    process = subprocess.Popen([*program, "train", *settings], stderr=subprocess.DEVNULL, **quiet)  # type: ignore[call-overload]
    events = folder / "runs/live/events.jsonl"
    try:
        deadline = time.monotonic() + 120
        while not (events.exists() and b'"iter"' in events.read_bytes()):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("training did not begin")
            time.sleep(0.2)
        yield events
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def step_milliseconds(events: Path, seconds: float, wait: Callable[[float], Any]) -> float:
    """The mean step of the coming seconds."""
    for _ in range(5):
        begin = events.stat().st_size
        wait(seconds)
        with events.open("rb") as file:
            file.seek(begin)
            lines = file.read().splitlines()[1:-1]  # the first and the last may be cut
        took = [event["seconds"] for event in map(json.loads, lines) if event["event"] == "iter"]
        if took:
            break
    else:
        raise SystemExit(f"no step in {5 * seconds:.0f} s: something else keeps this machine busy")
    return 1000 * statistics.mean(took)


@contextmanager
def asked_from_elsewhere(server: Watch) -> Iterator[None]:
    """Send the requests of a page on another machine, without the work of a browser on this one."""
    stop = threading.Event()

    def ask() -> None:
        pause = 0.0
        while not stop.wait(max(pause, 1.0)):
            pause = max(5.0, server.report("live")["leisure_seconds"])

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        stop.set()
        asking.join()


def cpu_seconds(server: Watch) -> float:
    return sum(psutil.Process(server.process.pid).cpu_times()[:4])


def disturb(browser: Browser, scratch: Path, seconds: float, turns: int = 16) -> dict[str, Any]:
    """Step time of a real run in turns: nobody looks, watched from another machine, shown by a browser on this one.

    The page stays open; while nobody looks it is not connected. Each turn has one of each, in changing order.
    """
    folder = scratch / "training"
    folder.mkdir()
    found: dict[str, list[float]] = {"alone": [], "asked": [], "shown": []}
    used: dict[str, float] = dict.fromkeys(found, 0.0)
    with trained(folder) as events, watching(events.parents[1]) as server, opened(browser) as page:
        page.goto(f"{server.url}#run=live")
        wait_until_shown(page, "live")
        page.evaluate(PAGE_OFF)
        page.wait_for_timeout(1000 * SETTLE_SECONDS)
        for turn in range(turns):
            for kind in found if turn % 2 else reversed(found):
                before = cpu_seconds(server)
                if kind == "shown":
                    page.evaluate(PAGE_ON)
                with asked_from_elsewhere(server) if kind == "asked" else nullcontext():
                    took = step_milliseconds(events, seconds, lambda s: page.wait_for_timeout(1000 * s))
                if kind == "shown":
                    page.evaluate(PAGE_OFF)
                found[kind].append(took)
                used[kind] += cpu_seconds(server) - before
    return {f"step_{kind}_ms": statistics.median(took) for kind, took in found.items()} | {
        "asked_ratios": [b / a for a, b in zip(found["alone"], found["asked"], strict=True)],
        "shown_ratios": [b / a for a, b in zip(found["alone"], found["shown"], strict=True)],
        "asked_cpu_s_per_min": 60 * used["asked"] / (turns * seconds),
        "shown_cpu_s_per_min": 60 * used["shown"] / (turns * seconds),
    }


# --- results ---


def table(found: dict[str, Any], runs: int, steps: int) -> list[Row]:
    """The figures that were measured, as table rows."""
    spikes = len(SPIKES)
    rows = [
        ("runs × steps, size on disk", f"{runs} × {steps:,}, {found['disk_mb']:.0f} MB"),
        ("time until the list of runs is shown", f"{found['list_s']:.2f} s"),
        ("time until the newest run is drawn", f"{found['newest_drawn_s']:.2f} s"),
        ("response to a click on another run", f"{found['click_answered_s']:.2f} s"),
        ("time until that run is drawn", f"{found['another_drawn_s']:.2f} s"),
        ("back to the first run", f"{found['back_drawn_s']:.2f} s"),
        ("… smoothing slider moved with every frame, 5 % of frames slower than", _frames(found, "slide")),
        (f"time until all {runs} are overlaid", f"{found['overlay_drawn_s']:.1f} s"),
        ("… smoothing slider there", _frames(found, "overlay_slide")),
        ("… CPU time of the server for that", f"{found['overlay_cpu_s']:.1f} s"),
        ("peak memory of the server: started", f"{found['server_idle_mb']:.0f} MB"),
        ("… with the list", f"{found['list_mb']:.0f} MB"),
        ("… with one run", f"{found['newest_mb']:.0f} MB"),
        (f"… with all {runs}", f"{found['peak_mb']:.0f} MB"),
        ("slow steps drawn, of two runs", f"{found['drawn_spikes']:.0f} of {2 * spikes}"),
        (f"slow steps in the overlay of all {runs}", f"{found['overlay_spikes']:.0f} of {runs * spikes}"),
    ]  # fmt: skip
    if "many_list_s" in found:
        rows += [
            (f"{found['many']:,.0f} runs of 200 steps: time until the table is shown", f"{found['many_list_s']:.2f} s"),
            ("… until all have their sparklines", f"{found['many_sparks_s']:.1f} s"),
            ("… filtered by two settings", f"{found['many_filter_s']:.2f} s"),
            ("… scrolled", f"{found['many_frames_per_s']:.0f} frames/s"),
            ("… server CPU while nothing happens", f"{found['many_idle_cpu_s_per_min']:.1f} s/min"),
            ("… peak memory of the server", f"{found['many_mb']:.0f} MB"),
        ]
    if "growth_cpu_s_per_min" in found:
        rows += [
            ("server CPU while a run grows by 10 lines per second", f"{found['growth_cpu_s_per_min']:.1f} s/min"),
            ("delay of the page behind that run", f"{found['growth_behind_s']:.1f} s"),
            ("peak memory of the server meanwhile", f"{found['growth_peak_mb']:.0f} MB"),
        ]  # fmt: skip
    if "shown_ratios" in found:
        rows += [
            ("a step of a real run on all cores", f"{found['step_alone_ms']:.2f} ms"),
            ("… watched from another machine", f"{found['step_asked_ms']:.2f} ms"),
            (f"… as a ratio: median of {len(found['asked_ratios'])} pairs, quartiles", _spread(found["asked_ratios"])),
            ("… server CPU meanwhile", f"{found['asked_cpu_s_per_min']:.1f} s/min"),
            ("… shown by a browser on the same cores", f"{found['step_shown_ms']:.2f} ms"),
            (f"… as a ratio: median of {len(found['shown_ratios'])} pairs, quartiles", _spread(found["shown_ratios"])),
            ("… server CPU meanwhile", f"{found['shown_cpu_s_per_min']:.1f} s/min"),
        ]
    return rows


def _frames(found: dict[str, Any], name: str) -> str:
    return f"{found[f'{name}_frames_per_s']:.0f} frames/s, {found[f'{name}_slowest_ms']:.0f} ms"


def _spread(ratios: list[float]) -> str:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def markdown(rows: list[Row]) -> str:
    versions = f"{platform.system()}, Python {platform.python_version()}, torch {version('torch')}"
    head = [
        "# The cost of watching",
        "",
        ABOUT,
        "",
        f"- {date.today()}, {cpu_name()}, {os.cpu_count()} cores, {versions}",
        *(
            [f"- Load at the end: {os.getloadavg()[2]:.1f}; above the number of cores, others kept the machine busy."]
            if hasattr(os, "getloadavg")
            else []
        ),
    ]
    lines = [*head, "", "| what | measured |", "| --- | ---: |", *(f"| {what} | {value} |" for what, value in rows)]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3, help="of opening the page; medians are reported")
    parser.add_argument("--many", type=int, default=2000, metavar="RUNS", help="small runs in one folder; 0: skip this")
    parser.add_argument("--growth", type=float, default=0, metavar="SECONDS", help="let a run grow for this long")
    parser.add_argument("--training", type=float, default=0, metavar="SECONDS", help="of training in each of 48 turns")
    parser.add_argument("--json", action="store_true", help="print only JSON")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    options = parser.parse_args()
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise SystemExit("This needs Chromium (Debian: apt-get install chromium)")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends children and removes files on SIGTERM too
    flags = ["--disable-gpu", *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else [])]
    with tempfile.TemporaryDirectory(prefix="nanoscope-watch-") as name, sync_playwright() as driver:
        scratch = Path(name)
        found = {"disk_mb": write_runs(scratch / "runs", options.runs, options.steps)}
        browser = driver.chromium.launch(executable_path=chromium, args=flags)
        looks = [look(browser, scratch / "runs", options.runs, options.steps) for _ in range(options.repeats)]
        found |= {key: statistics.median(each[key] for each in looks) for key in looks[0]}
        if options.many:
            found |= {"many": options.many, **list_many(browser, scratch, options.many)}
        if options.growth:
            found |= grow(browser, scratch / "runs", options.runs, options.steps, options.growth)
        if options.training:
            found |= disturb(browser, scratch, options.training)
        browser.close()
    rows = table(found, options.runs, options.steps)
    if not options.json:
        print("\n".join(f"{what:<60} {value:>20}" for what, value in rows))
    print(json.dumps({key: np.round(value, 4).tolist() for key, value in found.items()}))
    if options.markdown:
        options.markdown.write_text(markdown(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
