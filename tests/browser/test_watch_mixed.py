"""A folder that is not tidy: runs that diverged, broke, hang or are short, logs in other units, hundreds of runs."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import example_logs
from nanoscope.runs.events import End, Eval, Iter, Start
from nanoscope.words.language import Language
from watching import Watch, begin_run, training, watching, write_small_run
from written_runs import EventFile

pytestmark = pytest.mark.slow

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install '.[web]'")

ALL = ["good/a", "good/b", "good/auto", "good/exploded", "good/broken", "good/brief"]
ADDRESS = "#" + "&".join(f"run={name}" for name in ALL)
FAILED_LOG = (
    "\n".join(f"step {step} loss {3 - step / 10:.2f}" for step in range(1, 5))
    + '\nTraceback (most recent call last):\n  File "train.py", line 6, in main\nValueError: the batch is empty\n'
)
TWO_LINES = "step 100 loss 3.20 lr 0.001 time 20ms\nstep 200 loss 3.10 lr 0.001 time 21ms\n"
BITS_PER_BYTE = "\n".join(
    f"Step {step:05d} | Validation bpb: {1.2 - step / 10000:.4f}\n"
    f"step {step:05d}/01000 ({step / 10:.2f}%) | loss: {3 - step / 1000:.6f} | dt: 480.00ms | tok/sec: 1,090,000"
    for step in range(0, 1000, 100)
)


def write_exploded(folder: Path) -> None:
    """A run whose losses rise beyond all measure, but stay finite."""
    events = EventFile(folder)
    config = {"max_iters": 200, "eval_interval": 20, "n_layer": 2, "learning_rate": 1e9, "dataset": "song"}
    events.write(Start(t=0.0, config=config, tokens_per_step=64, device="cpu", dataset_fingerprint="5077"))
    for step in range(0, 200, 2):
        loss, now = 4.0 if step < 4 else 1.20767e10 + step, 0.05 * step
        if step % 20 == 0 and step:
            events.write(Eval(t=now, step=step, train_loss=loss, val_loss=loss, val_stderr=0.01, seconds=0.1))
        events.write(Iter(t=now, step=step, loss=loss, seconds=0.05, lr=1e9, tokens_per_second=1280.0))
    events.write(End(t=10.0, reason="finished", step=200, wall_seconds=10.0, phases={"step": 10.0}))
    events.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("mixed")
    write_small_run(folder / "good/a", 1.5, learning_rate=0.01, eval_interval=20, steps=2000)
    write_small_run(folder / "good/b", 1.6, learning_rate=0.003, eval_interval=10)
    write_small_run(folder / "good/auto", 1.55, learning_rate="auto", steps=400)  # type: ignore[arg-type]
    write_small_run(folder / "good/brief", 1.9, learning_rate=0.3, steps=60)
    write_small_run(folder / "good/broken", 1.7, broken=True, learning_rate=0.1, matrix_lr=1e30, grad_clip=1.0)
    write_exploded(folder / "good/exploded")
    begin_run(folder / "hung", 2).close()
    os.utime(folder / "hung/events.jsonl", (time.time() - 1000,) * 2)
    (folder / "good/b/checkpoints/step-000200").mkdir(parents=True)
    (folder / "good/b/checkpoints/last").write_text("step-000200")
    with training(folder / "hung"):
        yield folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Watch]:
    with watching(folder) as watch:
        yield watch


def explained(page, text: str, name: str = "") -> None:
    """Explain a text, and wait for its page."""
    page.evaluate("([name, text]) => explain(name, text)", [name, text])
    page.wait_for_function("() => /run=log%3A/.test(location.hash) && document.querySelector('#content .verdict')")
    page.locator(".run-row.chosen").wait_for()


def overlay_drawn(page) -> None:
    page.locator("#content .overlay canvas").wait_for()
    page.wait_for_function("() => [...charts].every((c) => !c.inSight || (c.plot && !c.stale))")


def test_the_header_stays_at_the_end_of_a_long_page(server: Watch, open_watch) -> None:
    for width in (1440, 390):
        page = open_watch(server, "#run=good/a", width=width)
        page.locator("#content .details").wait_for()
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        assert page.evaluate("scrollY") > 300
        assert page.locator("header.top").bounding_box()["y"] == 0
        if width == 1440:
            assert page.locator("#runs").bounding_box()["y"] == pytest.approx(45, abs=1)


def test_a_diverged_run_flattens_neither_sparklines_nor_the_overlay_and_its_loss_fits(
    server: Watch, open_watch
) -> None:
    page = open_watch(server, ADDRESS, width=1440, height=900)
    overlay_drawn(page)
    cells = page.evaluate(
        """() => [...document.querySelectorAll(".run-space .cell-best")].map((cell) =>
            [cell.textContent, cell.firstChild.getBoundingClientRect().width <= cell.clientWidth])"""
    )
    assert "1.2e10" in [text for text, _ in cells]
    assert all(fits for _, fits in cells)
    good = page.locator("[data-name='good/a'] .spark path").bounding_box()
    assert good["height"] > 6
    assert page.locator("[data-name='good/exploded'] .spark.beyond").count() == 1
    assert page.evaluate("[...charts].find((c) => c.spec.key === 'overlay').plot.scales.y.max") < 10


def test_the_end_of_every_run_that_is_shown_is_inside_the_overlay(server: Watch, open_watch) -> None:
    page = open_watch(server, ADDRESS + "&chart=val", width=1440, height=900)
    overlay_drawn(page)
    inside = page.evaluate(
        """() => {
            const c = [...charts].find((c) => c.spec.key === 'overlay');
            const { min, max } = c.plot.scales.y;
            const within = (x, y) => x >= c.range[0] && y >= min && y <= max;
            return Object.fromEntries(c.drawn.map(({ line, from, to }) =>
                [line.key, to > from && within(line.x[to - 1], line.y[to - 1])]));
        }"""
    )
    assert inside.pop("good/exploded") is False
    assert inside == dict.fromkeys(set(ALL) - {"good/exploded"}, True)


def test_settings_are_in_order_and_only_a_run_without_a_number_is_called_nan(server: Watch, open_watch) -> None:
    page = open_watch(server, ADDRESS, width=1440, height=900)
    page.locator("#content .setting").first.wait_for()
    page.wait_for_function("() => [...charts].some((c) => c.spec.key === 'setting learning_rate')")
    spec = page.evaluate(
        """() => {
            const { spec } = [...charts].find((c) => c.spec.key === 'setting learning_rate');
            return [spec.xLabels, Object.fromEntries(spec.points.map(({ key, text }) => [key, text]))];
        }"""
    )
    assert spec[0] == ["0.003", "0.01", "0.1", "0.3", "1e9", "auto"]
    assert spec[1]["good/broken"] == "NaN"
    assert spec[1]["good/exploded"] == "Diverged"
    assert page.locator("[data-key='setting eval_interval']").count() == 0


def test_what_to_do_about_a_failed_run_is_what_the_findings_say(server: Watch, open_watch) -> None:
    page = open_watch(server, "#run=good/broken")
    page.locator("#content .verdict").first.wait_for()
    card = page.locator("#status .state-card")
    advice = server.report("good/broken")["words"]["en"]["runs"][0]["advice"]
    assert advice
    assert advice[0] in card.inner_text()
    assert "not a number" not in card.inner_text().lower()  # the verdict says that


def test_a_run_that_hangs_in_its_first_lines_is_stalled_and_promises_no_end(server: Watch, open_watch) -> None:
    page = open_watch(server, "#run=hung")
    page.locator("#content .tiles").wait_for()
    assert "Stalled" in page.locator(".tile-state").inner_text()
    assert "done about" not in page.locator(".tile-left").inner_text()
    assert page.locator("#status").get_by_text("No line for").is_visible()


def test_few_points_are_drawn_as_dots_and_none_is_left_out(server: Watch, open_watch) -> None:
    page = open_watch(server)
    explained(page, TWO_LINES, "two.log")
    overlay = "[...charts].filter((c) => c.plot && !c.spec.xRange)"
    page.wait_for_function(f"() => {overlay}.length > 0 && {overlay}.every((c) => !c.stale)")
    shown = page.evaluate(
        f"""() => {overlay}.map((c) => [c.spec.key, c.drawn.every(({{ line, from, to }}) =>
            to - from === line.x.length && line.x[from] >= c.range[0] && line.x[to - 1] <= c.range[1])])"""
    )
    assert len(shown) >= 3
    assert all(whole for _, whole in shown), shown
    blank = page.evaluate(
        """() => [...document.querySelectorAll("#content section[data-key=lr] canvas")].map((canvas) => {
            const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            let dots = 0;
            for (let i = 0; i < data.length; i += 4) if (data[i + 2] > data[i] + 60 && data[i + 3] > 200) dots += 1;
            return dots;
        })"""
    )
    assert blank[0] > 10  # of the colour of its line
    page.evaluate("choose(['good/brief'])")
    evaluations = "[...charts].flatMap(({ drawn }) => drawn).find(({ line }) => line.key === 'val')"
    page.wait_for_function(f"() => {evaluations}")
    assert page.evaluate(f"{evaluations}.to - {evaluations}.from") == 3


def test_the_words_of_an_exception_are_shown_first(server: Watch, open_watch) -> None:
    page = open_watch(server)
    explained(page, FAILED_LOG, "failed.log")
    verdict = page.locator("#content .verdict").first.inner_text()
    assert "Ended by an error" in verdict
    assert "ValueError: the batch is empty" in verdict


def test_losses_in_another_unit_are_not_ranked_with_the_others(server: Watch, open_watch) -> None:
    page = open_watch(server, width=1440)
    explained(page, BITS_PER_BYTE, "bytes.log")
    assert "Bits per byte" in page.locator(".tile-val").inner_text()
    page.locator("#group").select_option("none")
    page.locator("[data-sort=best]").click()
    names = page.evaluate("table_.shown.map((run) => run.label)")
    assert names[0] == "good/a"
    assert names.index("bytes.log") > names.index("good/exploded")
    assert page.locator(".run-space .lead").count() == 1
    assert page.locator("[data-name='good/a'] .lead").count() == 1


def test_of_hundreds_of_runs_the_best_are_shown_and_that_is_said(tmp_path: Path, serve, open_watch) -> None:
    for i in range(56):
        write_small_run(tmp_path / f"run-{i:02d}", 1.5 + (i * 7 % 56) / 100, steps=20)
        os.utime(tmp_path / f"run-{i:02d}/events.jsonl", (time.time() - 1000 + i,) * 2)
    page = open_watch(serve(tmp_path), "#run=run-03", width=1440)
    page.wait_for_function("() => table_.runs.size === 56 && [...table_.runs.values()].every((run) => run.best)")
    page.locator("#show-all").click()
    page.get_by_text("The best 50 of 56 runs").wait_for()
    worst = {f"run-{i:02d}" for i in range(56) if i * 7 % 56 >= 50}
    assert not worst & set(page.evaluate("state.chosen"))
    assert len(page.evaluate("state.chosen")) == 50


def test_text_that_cannot_be_written_is_told_beside_the_button(server: Watch, open_watch, pages) -> None:
    page = open_watch(server, "#run=good/a")
    page.locator("#content .verdict").first.wait_for()
    assert not page.locator("#sample").is_visible()  # it has no checkpoint
    page.evaluate("choose(['good/b'])")
    page.locator("#sample-go").click()
    page.get_by_text("loading the model").wait_for()
    said = page.locator("#sample-said.tone-bad")
    said.wait_for()
    beside = page.locator("#sample-go").bounding_box()
    assert abs(said.bounding_box()["y"] - beside["y"]) < 60
    assert page.locator("#sample-go").inner_text() == "Write"
    pages.complaints[:] = [text for text in pages.complaints if "422" not in text]


def test_an_arabic_list_of_pairs_runs_from_right_to_left(server: Watch, open_watch) -> None:
    page = open_watch(server, ADDRESS + "&lang=ar", width=1440)
    page.locator("#content .verdicts").wait_for()
    language = Language("ar")
    said = [f"{language.isolate(loss)} مع {language.isolate(rate)}" for loss, rate in (("1.77", "1"), ("1.76", "2"))]
    lefts = page.evaluate(
        """said => {
            const text = document.createElement("p");
            text.textContent = said;
            document.querySelector("#content").append(text);
            const node = text.firstChild;
            return ["1.77", "1.76"].map((part) => {
                const range = document.createRange();
                range.setStart(node, node.data.indexOf(part));
                range.setEnd(node, node.data.indexOf(part) + 4);
                return range.getBoundingClientRect().left;
            });
        }""",
        "الخسارة: " + language.isolate("، ".join(map(language.isolate, said))),
    )
    assert lefts[0] > lefts[1]


def test_pasted_logs_have_names_of_their_own_and_outlive_the_server(tmp_path: Path, serve, open_watch, pages) -> None:
    watch = serve(tmp_path)
    page = open_watch(watch)
    for text in (example_logs.spiky(), BITS_PER_BYTE, example_logs.laptop()):
        explained(page, text)
        page.evaluate("state.chosen = []")
        page.evaluate("location.hash = ''")
    page.wait_for_function("() => table_.runs.size === 3")
    labels = sorted(page.evaluate("[...table_.runs.values()].map(({ label }) => label)"))
    assert len(set(labels)) == 3
    assert {label.split()[0] for label in labels} == {"build-nanogpt", "nanogpt"}
    first = page.evaluate("[...table_.runs.keys()][0]")
    page.close()
    watch.stop()
    page = open_watch(serve(tmp_path), f"#run={first.replace(':', '%3A')}")
    page.locator("#content .verdict").first.wait_for()
    assert page.evaluate("table_.runs.size") == 3


def test_a_printed_page_of_watch_is_light_and_wholly_drawn(server: Watch, open_watch, tmp_path: Path) -> None:
    page = open_watch(server, "#run=good/a", color_scheme="dark", width=1440)
    page.locator("#content canvas").first.wait_for()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(246, 247, 249)"
    assert page.evaluate("[...charts].every((c) => c.plot && c.plot.width <= 680)")
    assert page.evaluate("[...charts].every((c) => c.plot.width === c.holder.clientWidth)")
    assert not page.locator("#runs").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 16, 21)"
    assert page.locator("#runs").is_visible()
