"""Every page and state in three languages, light and dark, at three widths.

On each: nothing is wider than the screen, axe finds nothing serious, and the console is silent. With
NANOSCOPE_SCREENSHOTS=DIR the pictures are kept for a person to look at: `make screenshots`.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import example_logs
from nanoscope.runs.events import End, Start
from watching import Watch, begin_run, training, watching, write_sweep
from written_runs import EventFile, write_run

pytestmark = pytest.mark.slow

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install '.[web]'")

WIDTHS = {1440: 900, 1024: 768, 390: 844}
SWEEP = "&".join(f"run=sweep/lr{rate}_s{seed}" for rate in ("0.0001", "0.001", "0.01") for seed in (1, 2))
# Name, address, and what is there once the page is complete.
PAGES = {
    "run": ("#run=laptop", "#content canvas"),
    "live": ("#run=night", "#content canvas"),
    "overlay": ("#run=laptop&run=babygpt&run=night", "#content canvas"),
    "sweep": (f"#{SWEEP}", "#content canvas"),
    "log": ("", "#content .verdict"),
    "starting": ("#run=dawn", "#status .card"),
    "stalled": ("#run=silent", "#status .card"),
    "stopped": ("#run=halted", "#status .card"),
    "failed": ("#run=sweep/lr0.01_s2", "#status .card"),
    "missing": ("#run=nowhere", "#status .card"),
    "list": ("#run=laptop", "#content canvas"),
    "keys": ("#run=laptop", "#content canvas"),
    "gone": ("#run=laptop", "#content canvas"),
    "empty": ("", "#status .empty"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = write_sweep(tmp_path_factory.mktemp("gallery") / "runs")
    write_run(folder / "laptop", steps=2000, slow_every=500)
    write_run(folder / "babygpt", steps=1500, slow_every=400)
    begin_run(folder / "night", 1300, of=2000, eval_interval=100).close()
    begin_run(folder / "silent", 30).close()
    os.utime(folder / "silent/events.jsonl", (time.time() - 1000,) * 2)
    begin_run(folder / "halted", 40).write(End(t=4.0, reason="interrupted", step=40, wall_seconds=4.0))
    config = {"max_iters": 2000, "batch_size": 12, "n_layer": 4, "compile": True, "learning_rate": 1e-3}
    EventFile(folder / "dawn").write(Start(t=0.0, run="dawn", config=config, device="cpu", tokens_per_step=768))
    with training(folder / "night"), training(folder / "silent"), training(folder / "dawn"):
        yield folder


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[Watch]:
    with watching(runs) as watch:
        yield watch


def prepare(page, name: str, server: Watch) -> None:
    """Do what a person does to see this state."""
    if name == "log":
        page.locator("#log-open").click()
        page.locator("#log-text").fill(example_logs.spiky())
        page.locator("#log-explain").click()
    elif name == "list":
        page.keyboard.press("b")
    elif name == "keys":
        page.keyboard.press("?")
        page.locator("dialog[open]").wait_for()
    elif name == "gone":
        server.stop()
        page.locator("html.stale").wait_for()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("language", ["en", "ar", "hi"])
def test_a_page_fits_every_screen_and_axe_finds_nothing_serious(
    name: str, language: str, server: Watch, serve, open_watch, pages, serious_findings, tmp_path: Path, runs: Path
) -> None:
    folder = Path(os.environ.get("NANOSCOPE_SCREENSHOTS") or tmp_path) / "gallery"
    selection, complete = PAGES[name]
    if name == "empty":
        (tmp_path / "nothing").mkdir()
        server = serve(tmp_path / "nothing")
    elif name == "gone":
        server = serve(runs)
    page = open_watch(server, f"{selection}{'&' if selection else '#'}lang={language}", width=1440, height=900)
    if name != "empty":
        page.wait_for_function("() => table_.runs.size >= 13")
    if name != "log":
        page.locator(complete).first.wait_for()
    prepare(page, name, server)
    page.locator(complete).first.wait_for()
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        if name == "list" and width < 1440:
            page.evaluate("openDrawer(true)")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            page.screenshot(path=folder / f"{name}-{language}-{width}-{scheme}.png")
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{wide} px wider than {width}"
    if name != "empty":
        assert page.locator("#picker").bounding_box()["width"] > 150
    if name == "list":
        assert page.locator(".drawer-open #search").is_visible()  # through all changes of colours
        assert page.locator(".run-row[data-name] .cell-name").first.bounding_box()["width"] > 100
    assert page.locator("html").get_attribute("lang") == language
    assert serious_findings(page) == []  # of the narrowest, dark
    if name == "gone":  # the browser reports that the server does not answer
        page.close()
        pages.complaints.clear()
