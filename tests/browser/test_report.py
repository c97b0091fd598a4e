"""The page of a run and of several runs, as a file: what it shows, and how it is read by mouse, touch and keyboard."""

import contextlib
import io
import json
import xml.etree.ElementTree as ElementTree
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path

import pytest

import example_logs
from nanoscope import cli
from written_runs import write_run, write_sweep

pytestmark = pytest.mark.slow

LANGUAGES = ("en", "ar", "hi")
SMALL_CHARTS = ("time_s", "lr", "grad_norm", "tok_s", "mfu_pct", "phases")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Reports: a run with hostile texts, a nanoGPT log with slow steps, a log with more columns, two runs, a sweep."""
    folder = tmp_path_factory.mktemp("reports")
    write_run(folder / "run", hostile=True)
    write_sweep(folder / "sweep")
    for name in ("spiky", "laptop", "gpu"):
        (folder / f"{name}.log").write_text(getattr(example_logs, name)(), "utf-8")
    lines = [f"step {i} | loss {3 - i / 100:.3f} | mem 2.{i % 9} GB | loss_scale {2**16}" for i in range(60)]
    (folder / "more.log").write_text("\n".join(lines), "utf-8")
    jobs = (["run"], ["spiky.log"], ["more.log"], ["laptop.log", "gpu.log"], ["sweep"])
    with contextlib.chdir(folder), redirect_stdout(io.StringIO()):
        for words, name in zip(jobs, ("run", "spiky", "more", "two", "many"), strict=True):
            assert cli.run(["report", *words, "-o", f"{name}.html", "--lang", "en"]) == 0
    return folder


def chart(page, key: str):
    """The plot of a chart."""
    return page.locator(f"section[data-key='{key}'] .plot")


def drawn(page, key: str = "loss") -> dict:
    """What a chart shows, once it has been drawn: its part of x, its lines, its ticks."""
    page.wait_for_function(
        """key => [...charts].every((c) => !c.inSight || !c.stale)
            && [...charts].some((c) => c.spec.key === key && c.plot)""",
        arg=key,
    )
    return page.evaluate(
        """key => {
            const c = [...charts].find((c) => c.spec.key === key && c.plot);
            const { box } = c.places();
            const { min, max } = c.plot.scales.y;
            return {
                range: c.range, y: [min, max], log: c.logarithmic, box,
                lines: c.drawn.map(({ line, mean }) => {
                    const { key, colour, dash } = line;
                    return { key, colour, dash, smooth: mean !== null, alpha: c.alpha(line) };
                }),
                xTicks: c.xTicks(c.range[0], c.range[1], box.width), yTicks: c.yTicks(min, max),
            };
        }""",
        key,
    )


def point_at(page, key: str, share: float, height: float = 0.5) -> None:
    """Move the mouse over a chart, to a share of its width."""
    box = drawn(page, key)["box"]
    at = chart(page, key).bounding_box()
    page.mouse.move(at["x"] + box["left"] + share * box["width"], at["y"] + box["top"] + height * box["height"])


def drag(page, key: str, start: float, end: float) -> None:
    point_at(page, key, start)
    page.mouse.down()
    point_at(page, key, (start + end) / 2)
    point_at(page, key, end)
    page.mouse.up()


def open_everything(page) -> None:
    """Open all that is folded, and what is folded inside."""
    page.wait_for_function(
        """() => {
            const parts = [...document.querySelectorAll("details")];
            for (const part of parts) part.open = true;
            return parts.every((part) => part.children.length > 1);
        }"""
    )


def tooltip(page) -> str:
    page.locator(".tooltip").wait_for()
    return page.locator(".tooltip").inner_text()


# --- at a glance ---


def test_a_laptops_screen_shows_tiles_verdict_loss_and_six_small_charts_without_scrolling(folder, open_file):
    page = open_file(folder / "run.html", width=1440, height=900)
    drawn(page)
    for selector in (
        ".tiles",
        ".verdicts",
        ".toolbar",
        "section.tall",
        *(f"section[data-key='{key}']" for key in SMALL_CHARTS),
    ):
        box = page.locator(selector).first.bounding_box()
        assert box["y"] + box["height"] <= 900, selector
    assert chart(page, "loss").bounding_box()["height"] >= 290


def test_the_tiles_have_the_figures_of_the_findings(folder, open_file):
    page = open_file(folder / "run.html")
    texts = {tile.split("\n")[0]: tile for tile in page.locator(".tile").all_inner_texts()}
    assert set(texts) == {"Val loss, best", "Step", "Time left", "Tokens/s", "Time in all", "State"}
    assert "± 0.020" in texts["Val loss, best"]
    assert "300 / 300" in texts["Step"].replace("\n", " ")
    assert "MFU 40%" in texts["Tokens/s"]
    assert "25.9\u00a0s" in texts["Time in all"]
    assert "Finished" in texts["State"]


def test_the_verdict_shows_its_evidence_on_demand(folder, open_file):
    page = open_file(folder / "run.html")
    assert not page.locator(".evidence").is_visible()
    page.get_by_text("Why").click()
    page.locator(".evidence dt").first.wait_for()  # it is built when it opens
    assert page.locator(".evidence dt").all_inner_texts()[:2] == ["Validation", "Training"]


def test_the_verdict_ends_with_the_full_stop_of_its_language(folder, open_file):
    page = open_file(folder / "run.html")
    page.locator("#lang-hi").click()
    assert page.locator(".verdict strong").first.inner_text().strip().endswith("।")


def test_a_report_has_samples_and_settings_below_its_charts(folder, open_file):
    page = open_file(folder / "run.html")
    assert "ROMEO, at 300" in page.locator("pre").last.inner_text()
    page.get_by_text("Configuration").click()
    page.get_by_role("region", name="Configuration").get_by_text("max_iters").wait_for()


def test_hostile_texts_are_shown_and_do_nothing(folder, open_file):
    page = open_file(folder / "run.html")
    assert "<script>window.hacked = 1</script>" in page.locator("pre").last.inner_text()
    assert "␛[31mred" in page.locator("pre").last.inner_text()
    assert page.locator("main").inner_text().count("onerror=") >= 2  # in the sample and in the note
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, main script").count() == 0


def test_every_further_number_of_a_log_has_a_chart_with_a_readable_title(folder, open_file):
    page = open_file(folder / "more.html")
    titles = [text.strip() for text in page.locator(".chart h2").all_inner_texts()]
    assert "Memory GB" in titles
    assert "Loss scale" in " ".join(titles)


def test_a_step_whose_loss_is_not_a_number_is_marked(folder, open_file):
    page = open_file(folder / "many.html")
    page.locator("details.run", has_text="lr0.01_s2").locator("summary").first.click()
    page.wait_for_function(
        "() => [...charts].some((c) => c.spec.broken && c.spec.broken.label === 'not a number from step 200')"
    )


# --- reading values ---


def test_the_tooltip_lists_values_from_high_to_low_and_marks_what_lies_between_evaluations(folder, open_file):
    page = open_file(folder / "run.html")
    point_at(page, "loss", 0.523)
    lines = tooltip(page).split("\n")
    assert lines[0].startswith("step 1")
    assert "tokens" in " ".join(lines[:3])
    rows = page.locator(".tooltip-row").all_inner_texts()
    values = [float(row.split("\n")[-1 if "±" not in row else -2].replace("≈", "").strip()) for row in rows]
    assert values == sorted(values, reverse=True)
    between = next(row for row in rows if row.startswith("validation loss"))
    assert "between evaluations" in between
    assert "≈" in between
    assert "±" in between


def test_pointing_moves_the_cursor_in_all_charts_and_nothing_else(folder, open_file):
    page = open_file(folder / "run.html", width=1440, height=900)
    drawn(page)
    positions = """() => [...document.querySelectorAll('main *')].filter((e) => !e.closest('.plot')).map((e) => {
        const { x, y, width, height } = e.getBoundingClientRect();
        return [x, y, width, height].map(Math.round).join();
    }).join(' ')"""
    before = page.evaluate(positions)
    for share in (0.2, 0.5, 0.95):
        point_at(page, "loss", share)
    tooltip(page)
    assert page.evaluate(positions) == before
    shares = page.evaluate(
        """() => [...charts].filter((c) => c.inSight).map((c) => {
            const { box } = c.places();
            return (parseFloat(c.holder.querySelector('.cursor-line').style.left) - box.left) / box.width;
        })"""
    )
    assert len(shares) >= 5
    assert all(abs(share - 0.95) < 0.01 for share in shares)


def test_the_tooltip_stays_inside_the_window(folder, open_file):
    page = open_file(folder / "run.html", width=1024, height=768)
    for share in (0.02, 0.98):
        point_at(page, "loss", share, 0.95)
        tooltip(page)
        box = page.locator(".tooltip").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1024
        assert box["y"] + box["height"] <= 768


def test_pointing_at_a_slow_step_shows_its_cause(folder, open_file):
    page = open_file(folder / "spiky.html")
    start, end = drawn(page, "time_s")["range"]
    point_at(page, "time_s", (500 - start) / (end - start), 0.3)
    text = tooltip(page)
    assert text.startswith("step 500")
    assert "5.99\u00a0s" in text
    assert "evaluation + checkpoint" in text


def test_the_keyboard_reads_slow_steps_with_their_causes(folder, open_file):
    page = open_file(folder / "spiky.html")
    drawn(page, "time_s")
    chart(page, "time_s").focus()
    page.keyboard.press("ArrowRight")
    heard = "document.activeElement.getAttribute('aria-valuetext')"
    assert page.evaluate(heard).startswith("step 500;")
    assert "evaluation + checkpoint" in page.evaluate(heard)
    page.keyboard.press("ArrowRight")
    assert page.evaluate(heard).startswith("step 1,000;")
    page.keyboard.press("End")
    assert page.evaluate(heard).startswith("step 10,000;")
    page.keyboard.press("Home")
    assert page.evaluate(heard).startswith("step 500;")


# --- zoom ---


def test_dragging_zooms_all_charts_and_a_double_click_shows_everything_again(folder, open_file):
    page = open_file(folder / "run.html")
    drag(page, "loss", 0.25, 0.5)
    low, high = drawn(page)["range"]
    assert 70 < low < 85
    assert 140 < high < 160
    assert drawn(page, "lr")["range"] == [low, high]
    chart(page, "loss").dblclick()
    assert drawn(page)["range"][1] == 300


def test_plus_minus_and_escape_zoom_by_keyboard(folder, open_file):
    page = open_file(folder / "run.html")
    whole = drawn(page)["range"]
    chart(page, "loss").focus()
    page.keyboard.press("+")
    inner = drawn(page)["range"]
    assert inner[1] - inner[0] == pytest.approx((whole[1] - whole[0]) / 2)
    page.keyboard.press("-")
    page.keyboard.press("+")
    page.keyboard.press("Escape")
    assert drawn(page)["range"] == whole
    assert page.evaluate("document.activeElement.className") == "plot"


def test_a_tap_shows_the_tooltip_and_two_fingers_zoom(folder, open_file):
    page = open_file(folder / "run.html", width=390, height=844, touch=True)
    whole = drawn(page)["range"]
    at = chart(page, "loss").bounding_box()
    page.touchscreen.tap(at["x"] + 200, at["y"] + 100)
    assert "validation loss" in tooltip(page)
    page.evaluate(
        """() => {
            const plot = document.querySelector(".plot");
            const { left, top } = plot.getBoundingClientRect();
            const send = (type, pointerId, x) => plot.dispatchEvent(new PointerEvent(type, {
                pointerId, pointerType: "touch", clientX: left + x, clientY: top + 80, bubbles: true,
            }));
            send("pointerdown", 1, 150);
            send("pointerdown", 2, 250);
            send("pointermove", 1, 100);
            send("pointermove", 2, 300);
            send("pointerup", 1, 100);
            send("pointerup", 2, 300);
        }"""
    )
    inner = drawn(page)["range"]
    assert inner[1] - inner[0] == pytest.approx((whole[1] - whole[0]) / 2, rel=0.01)
    page.get_by_role("button", name="Zoom out").click()
    assert drawn(page)["range"][1] == whole[1]


# --- the toolbar ---


def test_the_smoothing_slider_changes_the_mean_and_leaves_the_raw_numbers(folder, open_file):
    page = open_file(folder / "run.html")
    means = []
    for amount in ("0.5", "0.98"):
        page.locator("#smoothing").fill(amount)
        assert drawn(page)["lines"][0]["smooth"]
        means.append(page.evaluate("Array.from([...charts][0].drawn[0].mean).slice(150, 160)"))
    rough, smooth = ([abs(b - a) for a, b in pairwise(mean)] for mean in means)
    assert max(smooth) < max(rough) / 3
    page.locator("#smoothing").fill("0")
    assert not drawn(page)["lines"][0]["smooth"]


def test_the_mean_has_no_lag_and_no_bias_at_its_ends(folder, open_file):
    page = open_file(folder / "run.html")
    mean = page.evaluate(
        """() => {
            const x = Array.from({ length: 301 }, (_, i) => i);
            const of = (y) => Array.from(exponentialMean(x, y, 0, x.length, 0.9));
            return { same: of(x.map(() => 2.5)), line: of(x), bump: of(x.map((i) => (i === 150 ? 1 : 0))) };
        }"""
    )
    assert mean["same"] == pytest.approx([2.5] * 301)
    assert mean["line"][100:200] == pytest.approx(range(100, 200), abs=0.01)
    assert mean["bump"][140:150] == pytest.approx(mean["bump"][160:150:-1])


def test_losses_have_a_linear_or_a_logarithmic_scale(folder, open_file):
    page = open_file(folder / "run.html")
    assert not drawn(page)["log"]
    page.get_by_role("button", name="Log", exact=True).click()
    assert drawn(page)["log"]
    assert page.get_by_role("button", name="Log", exact=True).get_attribute("aria-pressed") == "true"


def test_the_start_is_left_out_unless_somebody_wants_it(folder, open_file):
    page = open_file(folder / "run.html")
    without = drawn(page)
    page.get_by_label("Leave out start").uncheck()
    whole = drawn(page)
    assert whole["range"][0] == 0 < without["range"][0]
    assert whole["y"][1] > without["y"][1] + 0.5


def test_x_counts_steps_tokens_time_or_epochs_if_the_run_knows_them(folder, open_file):
    page = open_file(folder / "two.html")
    ends = {}
    for way in ("Step", "Tokens", "Time"):
        page.get_by_role("button", name=way, exact=True).click()
        shown = drawn(page, "overlay")
        ends[way] = shown["range"][1], shown["xTicks"]["title"]
    assert ends["Step"] == (5000, "step")
    assert ends["Tokens"] == (5000 * 16384, "tokens")
    assert ends["Time"][1] == "time, minutes"
    assert page.get_by_role("button", name="Epochs").count() == 0
    assert open_file(folder / "many.html").get_by_role("button", name="Epochs").count() == 1


def test_reset_undoes_every_choice_about_the_charts(folder, open_file):
    page = open_file(folder / "run.html", view="x=tokens&smoothing=0.3&log=1&start=1&zoom=50000_90000&hide=val")
    changed = drawn(page)
    assert changed["range"] == [50000, 90000]
    assert changed["log"]
    page.get_by_role("button", name="Reset").click()
    shown = drawn(page)
    assert (shown["range"][1], shown["log"], len(shown["lines"])) == (300, False, 3)
    assert page.evaluate("location.hash") == ""


def test_the_view_is_in_the_address_and_survives_reload_theme_and_language(folder, open_file):
    page = open_file(folder / "run.html")
    page.get_by_role("button", name="Tokens", exact=True).click()
    page.locator("#smoothing").fill("0.5")
    drag(page, "loss", 0.25, 0.5)
    zoomed = drawn(page)["range"]
    page.locator("#theme").click()
    page.locator("#lang-ar").click()
    assert drawn(page)["range"] == zoomed
    assert "x=tokens" in page.evaluate("location.hash")
    page.reload()
    assert drawn(page)["range"] == pytest.approx(zoomed, rel=1e-4)
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert page.locator("html").get_attribute("lang") == "ar"
    assert page.locator("#smoothing").input_value() == "0.5"


def test_a_click_in_the_legend_hides_a_line_and_hovering_highlights_it(folder, open_file):
    page = open_file(folder / "run.html")
    drawn(page)
    entry = page.locator("section[data-key='loss'] .legend-item", has_text="validation loss")
    entry.hover()
    assert [line["alpha"] for line in drawn(page)["lines"]] == [0.2, 0.2, 1]
    entry.click()
    assert [line["key"] for line in drawn(page)["lines"]] == ["train", "train_eval"]
    assert entry.get_attribute("aria-pressed") == "false"
    entry.click()
    assert len(drawn(page)["lines"]) == 3


# --- axes ---


def test_the_labels_of_ticks_differ_and_have_as_many_decimals_as_their_distance_needs(folder, open_file):
    page = open_file(folder / "run.html")
    wrong = page.evaluate(
        """() => {
            const wrong = [];
            for (const low of [0, 1e-6, 0.0312, 1.47, 3.999, 19100]) {
                for (const width of [0.001, 0.013, 0.4, 7, 120, 5000, 3e6]) {
                    for (const most of [3, 4, 6, 8]) {
                        const ticks = linearTicks(low, low + width, most);
                        const labels = tickLabels(ticks);
                        const digits = labels.map((label) => (label.split(".")[1] || "").length);
                        const isGood = new Set(labels).size === labels.length && new Set(digits).size === 1;
                        if (!isGood || ticks.length > most + 1) wrong.push([low, width, most, labels]);
                    }
                }
            }
            return wrong;
        }"""
    )
    assert wrong == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_gutters_are_the_same_in_every_chart_and_language(folder, open_file, language):
    page = open_file(folder / "run.html", view=f"lang={language}", width=1440, height=900)
    drawn(page)
    lefts = page.evaluate("[...charts].filter((c) => c.plot).map((c) => c.places().box.left)")
    assert set(lefts) == {44}
    assert drawn(page, "time_s")["xTicks"]["title"]


# --- languages, phone, paper ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_language_switch_changes_every_heading(folder, open_file, language):
    page = open_file(folder / "spiky.html")
    english = page.locator("h2").all_inner_texts()
    page.locator(f"#lang-{language}").click()
    headings = page.locator("h2").all_inner_texts()
    assert page.locator("html").get_attribute("lang") == language
    assert page.locator(f"#lang-{language}").get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.activeElement.id") == f"lang-{language}"
    changed = [a != b for a, b in zip(english, headings, strict=True) if "MFU" not in a]
    assert all(changed) if language != "en" else not any(changed)


def test_times_have_the_plural_forms_of_their_language(folder, open_file):
    page = open_file(folder / "run.html", view="lang=ar")
    texts = page.evaluate("[0, 1, 2, 3, 11, 100, 2.5].map(shortTime)")
    plain = [text.strip("\u2068\u2069").replace("\u00a0", " ") for text in texts]
    assert plain == ["0 مللي ثانية", "ثانية واحدة", "ثانيتين", "3 ثوانٍ", "11 ثانية", "100 ثانية", "2.5 ثانية"]


def test_arabic_values_keep_their_signs_and_a_list_its_own_separator(folder, open_file):
    page = open_file(folder / "spiky.html", view="lang=ar", width=1440)
    phases = page.locator(".phases").inner_text()
    assert "(\u2068" in phases  # a percentage is not mirrored: (0.44%), not (%0.44)
    drawn(page, "time_s")
    chart(page, "time_s").focus()
    page.keyboard.press("ArrowRight")
    heard = page.evaluate("document.activeElement.getAttribute('aria-valuetext')")
    assert "؛ " in heard
    assert "; " not in heard


def test_arabic_runs_from_right_to_left_and_its_charts_from_left_to_right(folder, open_file):
    page = open_file(folder / "run.html", view="lang=ar", width=1440)
    drawn(page)
    tiles = page.locator(".tile")
    assert tiles.first.bounding_box()["x"] > tiles.last.bounding_box()["x"]
    assert page.locator("#theme").bounding_box()["x"] < 200
    assert page.locator(".run-dot").first.bounding_box()["x"] > 1200
    ticks = drawn(page)["xTicks"]["at"]
    assert ticks == sorted(ticks)
    assert drawn(page)["box"]["left"] == 44
    assert page.locator(".tile-step bdi").first.get_attribute("dir") == "ltr"


@pytest.mark.parametrize("name", ["run", "spiky", "two", "many"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_phone_needs_no_horizontal_scrolling(folder, open_file, name, language):
    page = open_file(folder / f"{name}.html", width=360, view=f"lang={language}", touch=True)
    open_everything(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_first_chart_of_a_phone_begins_above_400_pixels(folder, open_file, language):
    page = open_file(folder / "run.html", width=390, height=844, view=f"lang={language}", touch=True)
    assert page.locator("section.tall").bounding_box()["y"] < 400


def test_dark_and_light_follow_the_system_until_the_switch_is_used(folder, open_file):
    page = open_file(folder / "run.html", color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.locator("#theme").click()
    light = page.evaluate(background)
    assert (dark, light) == ("rgb(13, 16, 21)", "rgb(246, 247, 249)")
    assert page.evaluate("document.activeElement.id") == "theme"


def test_a_printed_page_is_light_and_has_no_controls(folder, open_file):
    page = open_file(folder / "run.html", color_scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(246, 247, 249)"
    assert not page.locator("#theme").is_visible()
    assert page.get_by_text("max_iters", exact=True).is_visible()
    assert page.evaluate("[...charts].every((c) => c.plot)")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 16, 21)"


@pytest.mark.parametrize(
    ("name", "language", "scheme"),
    [
        ("run", "en", "light"),
        ("run", "ar", "dark"),
        ("two", "hi", "light"),
        ("two", "en", "dark"),
        ("many", "ar", "light"),
    ],
)
def test_axe_finds_nothing_serious(folder, open_file, serious_findings, name, language, scheme):
    page = open_file(folder / f"{name}.html", color_scheme=scheme, view=f"lang={language}")
    open_everything(page)
    page.locator(".chart .menu > button").first.click()
    assert serious_findings(page) == []


# --- several runs ---


def test_every_series_of_several_runs_can_be_overlaid(folder, open_file):
    page = open_file(folder / "many.html")
    tabs = page.locator(".tabs button")
    assert tabs.all_inner_texts() == [
        "Validation", "Training", "Step time", "Learning rate", "Gradient norm", "Tokens per second", "MFU",
        "Waiting for data",
    ]  # fmt: skip
    for tab in tabs.all_inner_texts():
        page.get_by_role("button", name=tab, exact=True).click()
        page.wait_for_function("() => [...charts].filter((c) => c.spec.key === 'overlay').length === 1")
        assert len(drawn(page, "overlay")["lines"]) == 6, tab
    assert "chart=data_s" in page.evaluate("location.hash")


def test_a_runs_colour_depends_on_its_name_alone_and_equal_colours_differ_in_dashes(folder, open_file):
    page = open_file(folder / "many.html")
    lines = drawn(page, "overlay")["lines"]
    assert {line["key"]: line["colour"] for line in lines} == {
        line["key"]: page.evaluate("name => runColour(name)", line["key"]) for line in lines
    }
    assert len({(line["colour"], json.dumps(line["dash"])) for line in lines}) == len(lines)
    assert page.evaluate(
        "JSON.stringify([...runLines(['b', 'a', 'c'])]) === JSON.stringify([...runLines(['c', 'b', 'a'])])"
    )


def test_the_best_run_is_highlighted_until_another_line_is_clicked(folder, open_file):
    page = open_file(folder / "many.html")
    drawn(page, "overlay")
    focus = "[...charts].find((c) => c.spec.key === 'overlay').spec.focus"
    assert page.evaluate(focus) == "lr0.001_s1"
    place = page.evaluate(
        """() => {
            const c = [...charts].find((c) => c.spec.key === 'overlay');
            const i = c.drawn.findIndex(({ line }) => line.key === 'lr0.0003_s2');
            const { left, top } = c.holder.getBoundingClientRect();
            const { x, y } = c.places();
            return [left + x(300), top + y(c.valueAt(i, 300).value)];
        }"""
    )
    page.mouse.click(*place)
    page.wait_for_function(f"() => {focus} === 'lr0.0003_s2'")
    assert "focus=lr0.0003_s2" in page.evaluate("location.hash")


def test_settings_that_differ_are_drawn_against_the_best_loss(folder, open_file):
    page = open_file(folder / "many.html")
    shown = page.locator("section.setting")
    assert shown.locator("h2").all_inner_texts() == ["learning_rate"]
    assert "learning_rate 0.01: 1.70" in shown.locator(".plot").get_attribute("aria-label")
    page.wait_for_function("() => [...charts].some((c) => c.spec.key === 'setting learning_rate' && c.spec.xLog)")
    assert page.evaluate(
        "[...charts].find((c) => c.spec.points).spec.points.filter((p) => p.text === 'NaN').map((p) => p.key)"
    ) == ["lr0.01_s2"]


def test_each_run_of_several_can_be_opened_by_itself(folder, open_file):
    page = open_file(folder / "two.html")
    page.locator("details.run > summary").last.click()
    page.locator("details.run").last.locator("section[data-key='loss']").scroll_into_view_if_needed()
    page.locator("details.run").last.locator("section[data-key='loss'] canvas").wait_for()
    assert "Severe overfitting" in page.locator("details.run").last.inner_text()


# --- taking away ---


def saved(page, key: str, kind: str) -> Path:
    """Save something through the menu of a chart."""
    drawn(page, key)
    section = page.locator(f"section[data-key='{key}']")
    section.locator(".menu > button").click()
    with page.expect_download() as download:
        section.get_by_role("menuitem", name=kind, exact=True).click()
    assert download.value.suggested_filename.endswith(f".{kind.lower()}")
    return Path(download.value.path())


def test_a_chart_is_saved_as_svg_png_and_csv(folder, open_file):
    page = open_file(folder / "run.html")
    svg = ElementTree.parse(saved(page, "loss", "SVG")).getroot()
    texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert "Loss" in texts
    assert "validation loss" in texts
    assert "step" in texts
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}circle"))) >= 20
    assert saved(page, "lr", "PNG").read_bytes().startswith(b"\x89PNG")
    rows = saved(page, "loss", "CSV").read_text("utf-8").splitlines()
    assert rows[0] == 'step,training batches,"training loss, evaluated",validation loss,standard error'
    assert len(rows) == 1 + 301


def test_the_numbers_of_a_chart_open_as_a_table(folder, open_file):
    page = open_file(folder / "run.html")
    drawn(page)
    page.locator("section[data-key='loss'] .menu > button").press("Enter")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert page.get_by_role("dialog").get_by_role("row").count() == 22
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").count() == 0


def test_a_table_is_saved_as_csv_without_formulas(folder, open_file):
    page = open_file(folder / "two.html")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV: Side by side").click()
    assert Path(download.value.path()).read_text("utf-8").splitlines()[0].startswith(",validation at step")
    assert page.evaluate("csvOf(['a'], [['=1+1'], ['-2'], ['x,\"y\"']])") == 'a\r\n\'=1+1\r\n-2\r\n"x,""y"""\r\n'


def test_the_settings_that_differ_can_be_copied(folder, open_file):
    page = open_file(folder / "many.html")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Differences").click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").splitlines()[1].startswith("learning_rate\t")


# --- newer numbers ---

NEWER = """() => {
    const payload = JSON.parse(document.getElementById("payload").textContent);
    const run = payload.runs[0];
    run.evals.push([310, 1.0, 0.02, 0.9]);
    payload.words.en.runs[0].tiles[0].value = "1.0000";
    const root = document.querySelector("main");
    window.usedView = window.usedView || new View({ language: "en" }, { zoom: [50, 150] });
    showReport(root, payload, window.usedView, { languages: payload.languages });
}"""


def test_newer_numbers_leave_zoom_focus_and_open_parts_alone(folder, open_file):
    page = open_file(folder / "run.html")
    drawn(page)
    page.evaluate(NEWER)
    page.get_by_text("Why").click()
    chart(page, "loss").focus()
    page.evaluate("window.plot = document.activeElement")
    page.evaluate(NEWER)
    assert page.evaluate("document.activeElement === window.plot")
    assert page.locator(".evidence").is_visible()
    assert drawn(page)["range"] == [50, 150]
    assert page.locator(".tile-val .number").inner_text() == "1.0000"
