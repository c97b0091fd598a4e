"""The page of `nanoscope watch` in a real browser, with real server processes."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

import example_logs
from conftest import TINY_MODEL, make_dataset
from nanoscope.runs.events import End
from watching import PATIENCE_SECONDS, Watch, begin_run, child_environment, go_on, training, until, watching
from written_runs import write_run

pytestmark = pytest.mark.slow

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install '.[web]'")

LANGUAGES = ("en", "ar", "hi")
HOSTILE_NAME = '<img src=x onerror="window.hacked=3"> & run=b%41#'
LAST_STEP = "Math.max(...[...charts].flatMap(({ spec }) => spec.lines.map(({ x }) => x[x.length - 1] || 0)))"
NETWORK = re.compile(r"Failed to load resource|net::ERR_|NetworkError|Failed to fetch")
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows allows no such name, or has no such signal")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three finished runs, one of them with hostile texts, and one that was stopped."""
    runs = tmp_path_factory.mktemp("shelf") / "runs"
    write_run(runs / "laptop", hostile=True)
    write_run(runs / "babygpt", steps=600)
    write_run(runs / "sweeps/wide", steps=450, slow_every=150)
    events = begin_run(runs / "halted", 60)
    events.write(End(t=4.0, reason="interrupted", step=60, wall_seconds=4.0, phases={"step": 3.0}))
    events.close()
    return runs


@pytest.fixture(scope="module")
def server(shelf: Path) -> Iterator[Watch]:
    with watching(shelf) as watch:
        yield watch


def entry(page, name: str):
    return page.locator(f".run-row[data-name={json.dumps(name)}]")


def shown_name(page) -> str:
    return page.locator("#content .run-name").first.inner_text()


def open_run(page, name: str) -> None:
    """Show a run alone, by its link."""
    entry(page, name).locator("a.open").click()
    page.locator("#content .run-name").first.get_by_text(name, exact=True).wait_for()
    page.locator("#content canvas").first.wait_for()


def switch_to(page, language: str) -> None:
    page.locator(f"#lang-{language}").click()
    page.wait_for_function(f"() => document.documentElement.lang === {language!r}")


def explained(page) -> None:
    """Wait until a log is shown, with an address of its own."""
    page.wait_for_function("() => /run=log%3A/.test(location.hash) && document.querySelector('#content .verdict')")
    page.locator(".run-row.chosen").wait_for()


def slow_notes(page) -> list[str]:
    """What the charts say about slow steps."""
    return page.evaluate(
        """() => [...charts].flatMap(({ spec }) => spec.lines.filter(({ notes }) => notes)
            .flatMap(({ x, notes }) => notes.map((note, i) => [x[i], note])))
            .sort((a, b) => a[0] - b[0]).map(([, note]) => note)"""
    )


def paste(page, log: str) -> None:
    page.locator("#log-open").click()
    page.locator("#log-text").fill(log)
    page.locator("#log-explain").click()
    explained(page)


def drop(page, target: str, text: str, file_name: str | None = None) -> None:
    """What a browser does when something is dropped onto an element."""
    page.evaluate(
        """([target, text, fileName]) => {
            const dataTransfer = new DataTransfer();
            if (fileName) dataTransfer.items.add(new File([text], fileName, { type: "text/plain" }));
            else dataTransfer.setData("text/plain", text);
            const options = { bubbles: true, cancelable: true, dataTransfer };
            for (const kind of ["dragenter", "dragover", "drop"])
                document.querySelector(target).dispatchEvent(new DragEvent(kind, options));
        }""",
        [target, text, file_name],
    )
    explained(page)


def plain(text: str) -> str:
    """Without the marks that isolate numbers and names in a right-to-left sentence."""
    return re.sub("[\u2066-\u2069]", "", text)


# --- live ---


@contextmanager
def real_training(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """`nanoscope train` in folder/runs/live until it is stopped; for two minutes at most."""
    command = [
        sys.executable, "-m", "nanoscope", "train", "--dataset=data/song", *TINY_MODEL, "--max_iters=1000000",
        "--max_minutes=2", "--log_interval=10", "--eval_interval=100", "--out_dir=runs/live", "--device=cpu",
        "--compile=False", *words,
    ]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=folder, env=child_environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@posix
def test_the_charts_of_a_real_training_run_grow_in_place_while_the_page_is_open(
    tmp_path: Path, serve, open_watch
) -> None:
    make_dataset(tmp_path)
    (tmp_path / "runs").mkdir()
    page = open_watch(serve(tmp_path / "runs"))
    with real_training(tmp_path) as process:
        page.locator("#content canvas").first.wait_for()
        # With the first evaluation the chart gets more lines, and is drawn anew; from then on it only grows.
        page.locator("#content .legend").first.get_by_text("validation loss", exact=True).wait_for()
        page.evaluate("window.canvas = document.querySelector('#content canvas')")
        settings = page.locator("#content details[data-key=config]")
        settings.locator("summary").click()
        settings.locator("summary").focus()
        for _ in range(2):
            before = page.evaluate(LAST_STEP)
            page.wait_for_function(f"() => {LAST_STEP} >= {before + 50}")
        assert page.evaluate("canvas.isConnected && canvas === document.querySelector('#content canvas')")
        assert settings.get_attribute("open") is not None
        assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_SECONDS)
        entry(page, "live").get_by_label("Stopped").wait_for()
        last = json.loads((tmp_path / "runs/live/events.jsonl").read_text("utf-8").splitlines()[-1])
        page.wait_for_function(f"() => {LAST_STEP} >= {last['step'] - 10}")


def test_the_page_waits_for_a_run_that_has_no_steps_yet(tmp_path: Path, serve, open_watch) -> None:
    events = begin_run(tmp_path / "run", 0)
    with training(tmp_path / "run"):
        page = open_watch(serve(tmp_path))
        page.locator("#status").get_by_text("Starting.").wait_for()
        assert "batch_size 4" in page.locator("#status").inner_text()
        assert page.title() == "◌ run"
        go_on(events, range(20))
        page.locator("#content canvas").first.wait_for()
        page.wait_for_function("() => document.title === '◉ 19 % · run'")


def test_a_page_reconnects_by_itself_and_shows_what_it_missed(tmp_path: Path, serve, open_watch, pages) -> None:
    events = begin_run(tmp_path / "run", 20)
    server = serve(tmp_path)
    page = open_watch(server)
    open_run(page, "run")
    page.evaluate("window.loadedOnce = true")
    page.wait_for_function(f"() => {LAST_STEP} === 19")
    server.process.kill()
    server.process.wait()
    page.locator("#status").get_by_text("No answer since").wait_for()
    assert page.evaluate("ink('c1') === ink('ghost')")  # lines turn grey, their labels do not
    assert "nanoscope watch" in page.locator("#status").inner_text()
    go_on(events, range(20, 50))
    begin_run(tmp_path / "another", 20).close()
    serve(tmp_path, port=server.port)
    page.wait_for_function(f"() => {LAST_STEP} === 49")
    page.wait_for_function("() => document.querySelector('#connection').textContent === 'live'")
    page.locator("#status").get_by_text("No answer since").wait_for(state="detached")
    entry(page, "another").wait_for()
    assert page.evaluate("window.loadedOnce") is True
    pages.complaints[:] = [text for text in pages.complaints if not NETWORK.search(text)]


def test_the_shown_run_stays_when_another_becomes_the_newest(tmp_path: Path, serve, open_watch) -> None:
    events = begin_run(tmp_path / "older", 20)
    begin_run(tmp_path / "newer", 20).close()
    os.utime(tmp_path / "older/events.jsonl", (1e9, 1e9))
    page = open_watch(serve(tmp_path))
    page.locator("#content .run-name").get_by_text("newer", exact=True).wait_for()
    go_on(events, range(20, 21))
    page.wait_for_function("() => table_.shown[0].name === 'older'")
    page.wait_for_timeout(500)
    assert shown_name(page) == "newer"


def test_a_run_that_vanishes_leaves_the_list_and_another_can_be_opened(
    tmp_path: Path, serve, open_watch, pages
) -> None:
    begin_run(tmp_path / "run", 20).close()
    begin_run(tmp_path / "kept", 20).close()
    page = open_watch(serve(tmp_path))
    open_run(page, "run")
    (tmp_path / "run/events.jsonl").unlink()
    entry(page, "run").wait_for(state="detached")
    page.locator("#status").get_by_text("This run is not in the folder.").wait_for()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(3000)
    assert [url for url in asked if "/api/report" in url] == []  # nobody asks for what is not there
    page.locator("#show-another").click()
    page.locator("#content .run-name").get_by_text("kept", exact=True).wait_for()
    pages.complaints[:] = [text for text in pages.complaints if "404" not in text]  # Chromium tells of each


# --- logs of others ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_pasted_log_of_nanogpt_is_explained_with_its_spikes(server: Watch, open_watch, language: str) -> None:
    page = open_watch(server)
    switch_to(page, language)
    paste(page, example_logs.spiky())
    notes = [plain(note) for note in slow_notes(page)]
    assert len(notes) == 21
    cause = {"en": "evaluation + checkpoint", "ar": "تقييم + نقطة حفظ", "hi": "इवैल्यूएशन + चेकपॉइंट"}[language]
    assert cause in notes[1]
    assert "10000" in notes[-1].replace(",", "")


def test_max_iters_and_device_of_a_pasted_log_can_be_filled_in(server: Watch, open_watch) -> None:
    page = open_watch(server)
    page.locator("#log-open").click()
    page.locator("#log-max-iters").fill("6000")
    page.locator("#log-device").fill("RTX 4070 Ti")
    page.locator("#log-text").fill(example_logs.WAITING)
    page.locator("#log-explain").click()
    explained(page)
    assert re.search("6,?000", page.locator("main").inner_text())
    assert "4070" in page.locator("main").inner_text()


def test_a_text_without_training_is_reported_in_the_chosen_language(server: Watch, open_watch, pages) -> None:
    page = open_watch(server)
    page.locator("#log-open").click()
    page.locator("#log-text").fill("Shall I compare thee to a summer's day?")
    said = {}
    for language in ("en", "ar"):
        page.locator(f"#lang-{language}").click()
        page.locator("#log-explain").click()
        message = page.locator("#log-said").filter(has_text=re.compile(r"\S"))
        message.wait_for()
        said[language] = message.inner_text()
    assert said["en"] != said["ar"]
    pages.complaints[:] = [text for text in pages.complaints if "422" not in text]  # Chromium tells of each


def test_a_file_can_be_dropped_anywhere(server: Watch, open_watch) -> None:
    page = open_watch(server)
    for target in ("main", "header"):
        drop(page, target, example_logs.spiky(), f"{target}.log")
        page.wait_for_function(
            "name => document.querySelector('#content .run-name')?.textContent === name", arg=f"{target}.log"
        )
        assert len(slow_notes(page)) == 21


def test_text_can_be_dropped_too(server: Watch, open_watch) -> None:
    page = open_watch(server)
    drop(page, "main", example_logs.spiky())
    assert len(slow_notes(page)) == 21


def test_a_file_can_be_chosen(server: Watch, open_watch, tmp_path: Path) -> None:
    (tmp_path / "gpu.log").write_text(example_logs.gpu(), "utf-8")
    page = open_watch(server)
    page.locator("#log-open").click()
    page.locator("#log-file").set_input_files(tmp_path / "gpu.log")
    explained(page)
    assert shown_name(page) == "gpu.log"
    assert "Severe overfitting" in page.locator("main").inner_text()


# --- nothing that is shown is ever run ---


def test_hostile_lines_of_a_log_are_shown_and_do_nothing(server: Watch, open_watch) -> None:
    page = open_watch(server)
    script = "<script>window.hacked = 1</script>"
    log = (
        f"Overriding: dataset = {script}<img src=x onerror='window.hacked=2'>\n"
        + example_logs.spiky()
        + f"Traceback (most recent call last):\nRuntimeError: {script} \x1b[31mred \"quoted\" <b>'it'</b>\n"
    )
    paste(page, log)
    shown = page.locator("main").inner_text()
    assert "window.hacked = 1" in shown
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, main script, main b").count() == 0


@posix
def test_hostile_names_and_texts_of_runs_are_shown_and_do_nothing(tmp_path: Path, serve, open_watch) -> None:
    write_run(tmp_path / HOSTILE_NAME, hostile=True)
    write_run(tmp_path / "b%41", steps=60)
    with suppress(OSError):  # some file systems refuse it
        begin_run(tmp_path / os.fsdecode(b"not-\xff-utf8"), 20).close()
    page = open_watch(serve(tmp_path))
    open_run(page, HOSTILE_NAME)
    entry(page, "b%41").locator("input").check()
    page.locator("#content details.run").nth(1).wait_for()
    page.locator("#content details.run summary").first.click()
    page.locator("#content pre").first.wait_for()
    assert "<script>window.hacked = 1</script>" in page.locator("main").inner_text()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, main script").count() == 0


# --- the page ---


def test_the_table_shows_state_and_best_loss_of_every_run(server: Watch, open_watch) -> None:
    page = open_watch(server)
    entry(page, "laptop").wait_for()
    page.wait_for_function("() => table_.shown.filter((run) => run.state !== 'log').length === 4")
    page.wait_for_function("() => table_.shown.every((run) => run.state === 'log' || run.best !== null)")
    assert entry(page, "laptop").get_by_label("Finished").count() == 1
    assert entry(page, "halted").get_by_label("Stopped").count() == 1
    best = page.evaluate("table_.runs.get('laptop').best.toFixed(4)")
    assert entry(page, "laptop").locator(".cell-best").inner_text() == best
    assert page.locator(".group-row").get_by_text("sweeps/").count() == 1
    assert entry(page, "sweeps/wide").locator("a").inner_text() == "wide"


def test_runs_are_overlaid_and_the_language_switch_keeps_the_selection(server: Watch, open_watch) -> None:
    page = open_watch(server)
    open_run(page, "laptop")
    entry(page, "babygpt").locator("input").check()
    page.locator("#content .overlay").wait_for()
    legend = page.locator("#content .overlay .legend-item")
    assert legend.all_inner_texts() == ["laptop", "babygpt"]
    selection = page.evaluate("location.hash")
    assert selection.count("run=") == 2
    switch_to(page, "hi")
    assert page.evaluate("new URLSearchParams(location.hash.slice(1)).getAll('run')") == ["laptop", "babygpt"]
    assert legend.all_inner_texts() == ["laptop", "babygpt"]
    checked = [entry(page, name).locator("input").is_checked() for name in ("laptop", "babygpt", "halted")]
    assert checked == [True, True, False]
    page.reload()
    page.locator("#content .overlay").wait_for()
    assert legend.all_inner_texts() == ["laptop", "babygpt"]
    entry(page, "laptop").locator("input").uncheck()
    page.locator("#content .overlay").wait_for(state="detached")
    page.wait_for_function("() => document.querySelector('#content .run-name')?.textContent === 'babygpt'")


def test_arabic_runs_from_right_to_left_and_its_charts_from_left_to_right(server: Watch, open_watch) -> None:
    page = open_watch(server)
    open_run(page, "laptop")

    def left(selector: str) -> float:
        return page.locator(selector).first.bounding_box()["x"]

    assert left("nav#runs") < left("main")
    assert left("#theme") > 640
    switch_to(page, "ar")
    assert left("nav#runs") > left("main")
    assert left("#theme") < 640
    assert page.evaluate("getComputedStyle(document.querySelector('#content .plot')).direction") == "ltr"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_phone_needs_no_sideways_scrolling(server: Watch, open_watch, language: str) -> None:
    page = open_watch(server, "#run=laptop", width=360, touch=True)
    page.locator("#lang-pick").select_option(language)
    page.locator("#content canvas").first.wait_for()
    page.locator("#tab-explain").click()
    assert page.evaluate("document.activeElement.id") == "log-text"
    for names in (["laptop"], ["laptop", "sweeps/wide"]):
        page.wait_for_function(f"() => state.payload && state.payload.runs.length === {len(names)}")
        for summary in page.locator("#content summary:visible").all():
            summary.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.locator("#picker").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        entry(page, "sweeps/wide").locator("input").check()
        page.locator("#drawer-close").click()
    assert page.locator("html").get_attribute("lang") == language


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", ["babygpt", "halted"])
def test_the_heads_of_charts_fit_on_a_phone(server: Watch, open_watch, name: str, language: str) -> None:
    page = open_watch(server, f"#run={name}", width=360, touch=True)
    page.locator("#lang-pick").select_option(language)
    page.locator("#content canvas").first.wait_for()
    page.locator("[data-key=eta_s]").scroll_into_view_if_needed()
    page.locator("[data-key=eta_s] canvas").wait_for()  # with it comes the unit
    heads = "[...document.querySelectorAll('#content .card-head')]"
    assert page.evaluate(f"{heads}.length")
    assert (
        page.evaluate(f"{heads}.filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.innerText)")
        == []
    )


def test_a_language_chosen_before_the_list_arrives_keeps_the_run_of_the_address(server: Watch, open_watch) -> None:
    page = open_watch(server, "#run=laptop")
    page.route("**/api/stream", lambda route: None)  # no answer
    page.reload()
    switch_to(page, "hi")
    page.unroute("**/api/stream")
    page.evaluate("connect()")
    page.locator("#content canvas").first.wait_for()
    assert shown_name(page) == "laptop"


def test_what_is_touched_is_large_enough(server: Watch, open_watch) -> None:
    page = open_watch(server, "#run=laptop", width=390, touch=True)
    page.locator("#content canvas").first.wait_for()
    page.locator("#picker").click()
    small = page.evaluate(
        """() => [...document.querySelectorAll("#runs button, #runs select, #search, #picker, .tab")]
            .filter((element) => element.offsetParent && element.getBoundingClientRect().height < 40)
            .map((element) => element.outerHTML)"""
    )
    assert small == []
    row = entry(page, "laptop").bounding_box()
    assert row["height"] >= 40


def test_dark_follows_the_system_until_the_switch_is_used(server: Watch, open_watch) -> None:
    page = open_watch(server, "#run=babygpt", color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(13, 16, 21)"
    page.locator("#theme").click()
    assert page.evaluate(background) == "rgb(246, 247, 249)"


@pytest.mark.parametrize(
    ("selection", "language", "scheme"),
    [("#run=laptop", "en", "light"), ("#run=laptop", "ar", "dark"), ("#run=laptop&run=babygpt", "hi", "light")],
)
def test_axe_finds_nothing_serious(
    server: Watch, open_watch, serious_findings, selection: str, language: str, scheme: str
) -> None:
    page = open_watch(server, selection, color_scheme=scheme)
    switch_to(page, language)
    page.locator("#log-open").click()
    page.locator("#content canvas").first.wait_for()
    page.locator("#content summary").first.click()
    assert serious_findings(page) == []


@pytest.mark.parametrize("width", [1024, 390])
def test_axe_finds_nothing_serious_in_the_list_of_a_narrow_screen(
    server: Watch, open_watch, serious_findings, width: int
) -> None:
    page = open_watch(server, "#run=laptop", width=width)
    page.locator("#content canvas").first.wait_for()
    page.keyboard.press("b")
    page.locator(".drawer-open #search").wait_for()
    assert serious_findings(page) == []


# --- downloads and samples ---


@pytest.mark.parametrize("shown", ["run", "log"])
def test_the_shown_report_can_be_downloaded_and_needs_no_server(
    server: Watch, open_watch, open_file, tmp_path: Path, shown: str
) -> None:
    page = open_watch(server)
    if shown == "run":
        open_run(page, "babygpt")
    else:
        paste(page, example_logs.spiky())
    switch_to(page, "ar")
    page.locator("#y-log").click()
    with page.expect_download() as waiting:
        page.locator("#download").click()
    file = tmp_path / "report.html"
    waiting.value.save_as(file)
    report = open_file(file)
    assert report.locator("html").get_attribute("lang") == "ar"
    assert report.locator("#y-log").get_attribute("aria-pressed") == "true"  # the view goes with it
    assert report.locator(".plot").count() == page.locator("#content .plot").count()


@pytest.fixture(scope="module")
def writer(small_run: Path) -> Iterator[Watch]:
    with watching(small_run.parent) as watch:
        yield watch


def test_a_trained_model_generates_text_on_demand(writer: Watch, open_watch) -> None:
    page = open_watch(writer)
    open_run(page, "run")
    page.locator("#sample-prompt").fill("Verse 1: ")
    idle = page.locator("#sample-go").inner_text()
    page.locator("#sample-go").click()
    page.wait_for_function(f"() => document.querySelector('#sample-go').textContent !== {idle!r}")
    page.wait_for_function("() => document.querySelector('#sample-text').textContent.length > 100")
    page.wait_for_function(f"() => document.querySelector('#sample-go').textContent === {idle!r}")
    assert page.locator("#sample-text").inner_text().startswith("Verse 1: ")


def test_generating_text_can_be_stopped(writer: Watch, open_watch) -> None:
    page = open_watch(writer)
    open_run(page, "run")
    page.locator("#sample-go").click()
    server = psutil.Process(writer.process.pid)
    until(server.children, "the child has started")
    page.locator("#sample-go").click()
    until(lambda: not server.children(), "the child is gone")


# --- the README's pictures ---


def test_screenshots_are_taken(tmp_path: Path, serve, open_watch, open_file, nanoscope) -> None:
    folder = Path(os.environ.get("NANOSCOPE_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    runs = tmp_path / "runs"
    write_run(runs / "laptop", steps=2000, slow_every=500)
    write_run(runs / "babygpt", steps=1500, slow_every=400)
    write_run(runs / "sweeps/wide", steps=900)
    begin_run(runs / "night", 1300, of=2000, eval_interval=100).close()
    server = serve(runs)
    with training(runs / "night"):
        for name, selection, language, scheme in (
            ("watch.png", "#run=night", "en", "light"),
            ("watch-ar-dark.png", "#run=laptop&run=babygpt", "ar", "dark"),
        ):
            page = open_watch(server, selection, width=1440, height=900, color_scheme=scheme)
            switch_to(page, language)
            page.locator("#content canvas").first.wait_for()
            page.wait_for_function("() => [...table_.runs.values()].filter((run) => run.spark.length).length === 4")
            page.evaluate("document.activeElement.blur()")
            page.screenshot(path=folder / name)
        switch_to(page, "hi")
        drop(page, "main", example_logs.gpu(), "gpu.log")
        with page.expect_download() as waiting:
            page.locator("#download").click()
        waiting.value.save_as(tmp_path / "report.html")
    open_file(tmp_path / "report.html", width=360).screenshot(path=folder / "report-phone-hi.png")
    log = Path(__file__).parents[2] / "docs" / "examples" / "nanogpt.log"
    nanoscope("report", log, "-o", "explain.html", "--lang", "en", cwd=tmp_path)
    page = open_file(tmp_path / "explain.html")
    page.locator("canvas").first.wait_for()
    page.screenshot(path=folder / "explain.png")
    for name in ("watch.png", "watch-ar-dark.png", "report-phone-hi.png", "explain.png"):
        assert (folder / name).stat().st_size > 10_000
