"""What a person wants to know within ten minutes, once by mouse and once by keyboard, on a sweep of 20 runs."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from watching import Watch, begin_run, training, watching, write_small_run

pytestmark = pytest.mark.slow

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install '.[web]'")

BEST = "sweep/lr0.01_d0.2_s1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    """A sweep of 20 runs, of which the learning rate decides, and a run that trains."""
    folder = tmp_path_factory.mktemp("tasks")
    for rate, level in ((3e-4, 1.82), (1e-3, 1.66), (3e-3, 1.55), (1e-2, 1.51), (3e-2, 1.62)):
        for dropout in (0.0, 0.2):
            for seed in (1, 2):
                best = level + 0.004 * seed - 0.01 * dropout
                name = f"sweep/lr{rate:g}_d{dropout:g}_s{seed}"
                write_small_run(folder / name, best, learning_rate=rate, dropout=dropout, seed=seed)
    begin_run(folder / "night", 60).close()
    with training(folder / "night"), watching(folder) as watch:
        yield watch


@pytest.fixture
def page(server: Watch, open_watch):
    page = open_watch(server, width=1440, height=900)
    page.wait_for_function("() => table_.runs.size === 21 && [...table_.runs.values()].every((run) => run.best)")
    page.locator("#content canvas").first.wait_for()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url.rstrip("/"))
    return page


def press(page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def tab_to(page, selector: str, most: int = 120) -> None:
    """Press Tab until the element has the focus."""
    for _ in range(most):
        if page.evaluate(f"document.activeElement.matches({selector!r})"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {selector}")


def shown(page, name: str) -> None:
    page.wait_for_function(f"() => document.querySelector('#content .run-name')?.textContent === {name!r}")


# --- which of the 20 runs is best? ---


def test_the_best_run_is_found_with_the_mouse(page) -> None:
    page.locator("#group").select_option("none")
    page.locator("[data-sort=best]").click()
    page.locator(".run-space .run-row").filter(has=page.locator(".lead")).locator("a.open").click()
    shown(page, BEST)


def test_the_best_run_is_found_with_the_keyboard(page) -> None:
    press(page, "/")
    page.keyboard.type("sweep/")
    tab_to(page, "#group")
    page.keyboard.type("No")
    tab_to(page, "[data-sort=best]")
    press(page, "Enter", "j", "Enter")
    shown(page, BEST)


# --- which setting made it best? ---


def explains_learning_rate(page) -> None:
    page.locator("#content .overlay").wait_for()
    text = page.locator("#content").inner_text()
    assert "learning_rate" in page.locator("#content .verdicts, #content .details").first.inner_text() or re.search(
        r"learning_rate.*(lower|best|explains)", text
    )
    means = [
        float(re.search(r"\d\.\d{3}", found)[0])  # type: ignore[index]
        for found in page.locator(".group-row .cell-mean").all_inner_texts()
    ]
    names = page.locator(".group-row .group-name strong").all_inner_texts()
    assert dict(zip(names, means, strict=True))["0.01"] == min(means)


def test_the_setting_that_made_it_best_is_found_with_the_mouse(page) -> None:
    page.locator("#search").fill("sweep/")
    page.locator("#group").select_option("learning_rate")
    page.locator("#show-all").click()
    explains_learning_rate(page)


def test_the_setting_that_made_it_best_is_found_with_the_keyboard(page) -> None:
    press(page, "/")
    page.keyboard.type("sweep/")
    tab_to(page, "#group")
    page.keyboard.type("learn")
    tab_to(page, "#show-all")
    press(page, "Enter")
    explains_learning_rate(page)


# --- when will it finish? ---


def time_left(page) -> str:
    shown(page, "night")
    return page.locator("#content .tile-left").inner_text()


def test_when_it_will_finish_is_seen_with_the_mouse(page) -> None:
    page.locator(".run-row[data-name=night] a.open").click()
    left = time_left(page)
    assert re.search(r"\d+(\.\d+)?\s(ms|s|min)", left)
    assert page.title().startswith("◉ 59 %") or page.title().startswith("❚❚ 59 %")


def test_when_it_will_finish_is_seen_with_the_keyboard(page) -> None:
    press(page, "/")
    page.keyboard.type("night")
    press(page, "Enter", "Enter")
    assert re.search(r"\d+(\.\d+)?\s(ms|s|min)", time_left(page))


# --- why was step 100 slow? ---


def open_best(page) -> None:
    page.evaluate(f"choose([{BEST!r}])")
    shown(page, BEST)
    page.locator("#content canvas").first.wait_for()


def test_why_a_step_was_slow_is_read_with_the_mouse(page) -> None:
    open_best(page)
    plot = (
        page.locator("#content section").filter(has=page.get_by_role("heading", name="Step time")).locator(".plot").last
    )
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    for part in range(20, 100):
        page.mouse.move(box["x"] + 44 + (box["width"] - 56) * (part / 100), box["y"] + box["height"] / 2)
        tip = page.locator(".tooltip")
        if tip.count() and re.search(r"[Ss]tep 100\b", tip.first.inner_text()):
            assert re.search("slow|longer|more than a normal step|cause", tip.first.inner_text(), re.I)
            return
    raise AssertionError("no tooltip tells of the slow step")


def test_why_a_step_was_slow_is_read_with_the_keyboard(page) -> None:
    open_best(page)
    plot = (
        page.locator("#content section")
        .filter(has=page.get_by_role("heading", name="Step time"))
        .locator("[tabindex='0']")
        .last
    )
    plot.focus()
    for _ in range(120):
        page.keyboard.press("ArrowRight")
        tip = page.locator(".tooltip")
        if tip.count() and re.search(r"[Ss]tep 100\b", tip.first.inner_text()):
            assert re.search("slow|longer|more than a normal step|cause", tip.first.inner_text(), re.I)
            return
    raise AssertionError("the arrow keys do not lead to the slow step")


# --- share it ---


def same_page_from(page, open_watch, server: Watch) -> None:
    page.wait_for_function("async () => (await navigator.clipboard.readText()).includes('run=')")
    link = page.evaluate("navigator.clipboard.readText()")
    other = open_watch(server, link.removeprefix(server.url), width=1440, height=900)
    shown(other, BEST)
    other.locator("#content canvas").first.wait_for()
    assert other.locator("#y-log").get_attribute("aria-pressed") == "true"


def test_what_is_shown_is_shared_by_its_link_with_the_mouse(page, open_watch, server: Watch) -> None:
    open_best(page)
    page.locator("#y-log").click()
    page.locator("#copy-link").click()
    same_page_from(page, open_watch, server)


def test_what_is_shown_is_shared_by_its_link_with_the_keyboard(page, open_watch, server: Watch) -> None:
    open_best(page)
    page.locator("#content").focus()
    tab_to(page, "#y-log")
    press(page, "Enter")
    page.locator("#content").focus()
    tab_to(page, "#copy-link")
    press(page, "Enter")
    same_page_from(page, open_watch, server)


def test_what_is_shown_is_shared_as_a_file(page, open_file, tmp_path: Path) -> None:
    open_best(page)
    with page.expect_download() as waiting:
        page.locator("#download").click()
    waiting.value.save_as(tmp_path / "report.html")
    report = open_file(tmp_path / "report.html")
    assert report.locator(".run-name").first.inner_text() == BEST
