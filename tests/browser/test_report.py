import contextlib
import io
from contextlib import redirect_stdout

import pytest

import example_logs
from nanoscope import cli
from written_runs import write_run

pytestmark = pytest.mark.slow

LANGUAGES = ("en", "ar", "hi")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Reports of a run with hostile texts, of a nanoGPT log with slow steps, and of two runs."""
    folder = tmp_path_factory.mktemp("reports")
    write_run(folder / "run", hostile=True)
    for name in ("spiky", "laptop", "gpu"):
        (folder / f"{name}.log").write_text(getattr(example_logs, name)(), "utf-8")
    jobs = (["run", "-o", "run.html"], ["spiky.log", "-o", "spiky.html"], ["laptop.log", "gpu.log", "-o", "two.html"])
    with contextlib.chdir(folder), redirect_stdout(io.StringIO()):
        for words in jobs:
            assert cli.run(["report", *words, "--lang", "en"]) == 0
    return folder


def box(page, selector: str) -> dict[str, float]:
    """The bounding box of an element's text, not of its block."""
    return page.evaluate(
        """selector => {
            const range = document.createRange();
            range.selectNodeContents(document.querySelector(selector));
            const { left, right } = range.getBoundingClientRect();
            return { left, right };
        }""",
        selector,
    )


def steps_run_left_to_right(page) -> bool:
    """The first slow step is drawn left of the last one."""
    marks = page.locator(".mark")
    return marks.first.bounding_box()["x"] < marks.last.bounding_box()["x"]


def test_a_report_shows_verdict_charts_samples_and_settings_without_a_network(folder, open_file):
    page = open_file(folder / "run.html")
    assert page.locator(".verdict").count() >= 1
    assert page.locator("canvas").count() == 7
    assert page.locator("canvas").first.evaluate(
        "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v !== 0)"
    )
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


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_language_switch_changes_every_heading_and_explains_the_spikes(folder, open_file, language):
    page = open_file(folder / "spiky.html")
    english = page.locator("h2").all_inner_texts()
    page.locator(f"#lang-{language}").click()
    headings = page.locator("h2").all_inner_texts()
    assert page.locator("html").get_attribute("lang") == language
    assert page.locator(f"#lang-{language}").get_attribute("aria-pressed") == "true"
    changed = [a != b for a, b in zip(english, headings, strict=True) if "MFU" not in a]
    assert all(changed) if language != "en" else not any(changed)
    page.locator(".mark").nth(1).focus()
    cause = {"en": "evaluation + checkpoint", "ar": "تقييم + نقطة حفظ", "hi": "इवैल्यूएशन + चेकपॉइंट"}[language]
    assert cause in page.get_by_role("status").inner_text().replace("\u2068", "").replace("\u2069", "")


def test_arabic_runs_from_right_to_left_and_its_charts_from_left_to_right(folder, open_file):
    page = open_file(folder / "spiky.html")
    left, right = box(page, "h1"), page.viewport_size["width"]
    controls = page.locator("#theme").bounding_box()["x"]
    assert left["left"] < 150
    assert controls > right / 2
    page.locator("#lang-ar").click()
    for selector in ("h1", "main h2", ".verdict strong"):
        assert right - box(page, selector)["right"] < 150, selector
    assert page.locator("#theme").bounding_box()["x"] < right / 2
    assert steps_run_left_to_right(page)
    chart = page.locator(".plot").first.bounding_box()
    plotted = page.locator(".u-over").first.bounding_box()
    assert plotted["x"] - chart["x"] > 40  # the scale of y is still at the left


def test_pointing_at_a_slow_step_shows_its_cause(folder, open_file):
    page = open_file(folder / "spiky.html")
    page.locator(".mark").nth(1).hover()
    status = page.get_by_role("status").inner_text()
    assert status.startswith("step 500: 5.99\u00a0s.")
    assert "evaluation + checkpoint" in status


def test_the_keyboard_reaches_slow_steps_by_one_tab_stop_and_arrows(folder, open_file):
    page = open_file(folder / "spiky.html")
    page.locator("#theme").focus()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "mark":
            break
    assert page.get_by_role("status").inner_text().startswith("step 0:")
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("status").inner_text().startswith("step 500:")
    page.keyboard.press("End")
    assert page.get_by_role("status").inner_text().startswith("step 10000:")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") != "mark"


MARKS_ON_THE_ENDS = """() => {
    const plot = document.querySelector('.plot:has(.mark) .u-over').getBoundingClientRect();
    const marks = [...document.querySelectorAll('.mark')].map((mark) => mark.getBoundingClientRect().x + 8);
    return plot.right < innerWidth && Math.abs(marks.at(0) - plot.left) < 3 && Math.abs(marks.at(-1) - plot.right) < 3;
}"""


def test_marks_stay_on_their_points_when_the_window_is_resized(folder, open_file):
    page = open_file(folder / "spiky.html")
    for width in (1280, 500):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function(MARKS_ON_THE_ENDS)


@pytest.mark.parametrize("name", ["run", "spiky", "two"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_phone_needs_no_horizontal_scrolling(folder, open_file, name, language):
    page = open_file(folder / f"{name}.html", width=360)
    page.locator(f"#lang-{language}").click()
    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_dark_and_light_follow_the_system_until_the_switch_is_used(folder, open_file):
    page = open_file(folder / "run.html", color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.locator("#theme").click()
    light = page.evaluate(background)
    assert (dark, light) == ("rgb(20, 23, 27)", "rgb(255, 255, 255)")
    assert page.evaluate("document.activeElement.id") == "theme"


def test_runs_are_overlaid_at_equal_steps_tokens_or_time(folder, open_file):
    page = open_file(folder / "two.html")
    ends = {}
    for way in ("step", "tokens", "time"):
        page.get_by_label(way, exact=True).check()
        page.locator("summary").first.click()
        page.locator("details").first.locator("tbody tr").first.wait_for()
        rows = page.locator("details").first.locator("tbody tr").all_inner_texts()
        ends[way] = rows[-1].split("\t")[1].strip()
    assert ends["step"] == "5000"
    assert ends["tokens"] == "81.9M"
    assert ends["time"].endswith("min")


def test_each_run_of_several_can_be_opened_by_itself(folder, open_file):
    page = open_file(folder / "two.html")
    before = page.locator("canvas").count()
    page.locator("details.run summary").last.click()
    page.wait_for_function(f"() => document.querySelectorAll('canvas').length > {before}")
    assert "Severe overfitting" in page.locator("details.run").last.inner_text()


def test_every_chart_has_a_name_and_its_numbers_in_a_table(folder, open_file):
    page = open_file(folder / "run.html")
    charts = page.get_by_role("img").all()
    assert len(charts) == 7
    assert all("The numbers are in the table below" in chart.get_attribute("aria-label") for chart in charts)
    assert page.locator("section:has(> .plot) details").count() == 7
    page.locator("section:has(> .plot) summary").first.click()
    page.get_by_role("region", name="Loss").wait_for()
    assert page.get_by_role("region", name="Loss").get_by_role("row").count() == 22


def test_a_printed_page_is_light_and_has_no_controls(folder, open_file, tmp_path):
    page = open_file(folder / "run.html", color_scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#theme").is_visible()
    assert page.get_by_text("max_iters", exact=True).is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"


@pytest.mark.parametrize(
    ("name", "language", "scheme"),
    [("run", "en", "light"), ("run", "ar", "dark"), ("two", "hi", "light"), ("two", "en", "dark")],
)
def test_axe_finds_nothing_serious(folder, open_file, serious_findings, name, language, scheme):
    page = open_file(folder / f"{name}.html", color_scheme=scheme)
    page.locator(f"#lang-{language}").click()
    for summary in page.locator("summary").all():
        summary.click()
    assert serious_findings(page) == []
