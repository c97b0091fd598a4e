"""A number's label opens what it means: by keyboard, mouse and touch, in every language and at every width."""

import contextlib
import io
import math
from contextlib import redirect_stdout

import pytest

from nanoscope import cli
from written_runs import write_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lessons")
    write_run(folder / "run")
    with contextlib.chdir(folder), redirect_stdout(io.StringIO()):
        assert cli.run(["report", "run", "-o", "run.html", "--lang", "en"]) == 0
    return folder / "run.html"


def label(page, place: str):
    return page.locator(f"{place} .lesson-label").first


def test_tab_reaches_a_label_enter_opens_it_and_escape_returns_to_it(report, open_file):
    page = open_file(report)
    wanted = label(page, ".tile-val")
    for _ in range(30):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            break
    page.keyboard.press("Enter")
    dialog = page.locator("dialog.lesson")
    assert dialog.get_by_role("heading").inner_text() == "Validation loss"
    assert "The best of this run was" in dialog.inner_text()
    assert page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert wanted.evaluate("element => element === document.activeElement")


def test_a_click_beside_it_closes_it(report, open_file):
    page = open_file(report)
    label(page, "section[data-key='lr']").click()
    assert page.locator("dialog.lesson h2").inner_text() == "Learning rate"
    page.mouse.click(5, 5)
    page.locator("dialog.lesson").wait_for(state="detached")


@pytest.mark.parametrize("language", ["en", "ar", "hi"])
def test_it_stands_beside_its_label_in_both_directions(report, open_file, language):
    page = open_file(report, view=f"lang={language}")
    for place in (".tile-val", ".tile-speed", "section[data-key='mfu_pct']"):
        button = label(page, place)
        button.scroll_into_view_if_needed()
        at = button.bounding_box()
        button.click()
        box = page.locator("dialog.lesson").bounding_box()
        assert 0 <= box["x"] <= 1280 - box["width"]
        assert 0 <= box["y"] <= 800 - box["height"]
        assert at["x"] - box["width"] < box["x"] < at["x"] + at["width"]
        apart = max(box["y"] - at["y"] - at["height"], at["y"] - box["y"] - box["height"])
        assert 0 <= apart <= 10
        page.keyboard.press("Escape")


@pytest.mark.parametrize("language", ["en", "ar", "hi"])
def test_on_a_phone_it_is_a_sheet_at_the_lower_edge_and_nothing_is_cut_off(report, open_file, language):
    page = open_file(report, width=390, height=800, touch=True, view=f"lang={language}")
    label(page, ".tile-val").tap()
    box = page.locator("dialog.lesson").bounding_box()
    assert math.isclose(box["y"] + box["height"], 800, abs_tol=1)
    assert math.isclose(box["width"], 390, abs_tol=1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.querySelector('dialog').scrollWidth <= document.querySelector('dialog').clientWidth")
    page.locator("dialog.lesson button").tap()
    page.locator("dialog.lesson").wait_for(state="detached")


def test_settings_and_phases_open_theirs_too(report, open_file):
    page = open_file(report)
    page.locator("details[data-key='config'] summary").click()
    page.get_by_role("button", name="batch_size", exact=True).click()
    assert page.locator("dialog.lesson h2").inner_text() == "Micro-batch"
    page.keyboard.press("Escape")
    label(page, ".phases").click()
    assert page.locator("dialog.lesson h2").inner_text() in ("Evaluation", "Checkpoint")


@pytest.mark.parametrize(("language", "scheme"), [("en", "light"), ("ar", "dark"), ("hi", "light")])
def test_axe_finds_nothing_serious_in_an_open_lesson(report, open_file, serious_findings, language, scheme):
    page = open_file(report, color_scheme=scheme, view=f"lang={language}")
    label(page, ".tile-val").click()
    assert serious_findings(page) == []


def test_paper_shows_no_buttons(report, open_file):
    page = open_file(report)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".lesson-label").count() == 0


def test_newer_numbers_leave_the_focus_on_a_label_and_reach_what_it_opens(report, open_file):
    page = open_file(report)
    label(page, ".tile-val").focus()
    page.evaluate(
        """() => {
            const payload = JSON.parse(document.getElementById("payload").textContent);
            const words = payload.words.en.runs[0];
            words.tiles[0].value = "1.2345";
            words.here.val_loss = "A newer sentence.";
            const root = document.querySelector("main");
            showReport(root, payload, pages.get(root).view, { languages: payload.languages });
        }"""
    )
    assert page.locator(".tile-val .number").inner_text() == "1.2345"
    page.keyboard.press("Enter")
    assert page.locator("dialog.lesson .here").inner_text() == "A newer sentence."
