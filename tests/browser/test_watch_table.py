"""The table of runs: search, sort, groups, selection, hiding, keys, states; with thousands of rows, too."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import example_logs
from nanoscope.runs.events import End
from watching import Watch, begin_run, training, watching, write_small_run, write_sweep

pytestmark = pytest.mark.slow

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install '.[web]'")

ZOOM = "String(view.state.zoom?.map((x) => x.toPrecision(6)))"
NAMES = "table_.shown.map((run) => run.name)"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sweep(tmp_path_factory.mktemp("sweep"))


@pytest.fixture(scope="module")
def server(sweep: Path) -> Iterator[Watch]:
    with watching(sweep) as watch:
        yield watch


@pytest.fixture
def page(server: Watch, open_watch):
    page = open_watch(server, "#run=alone", width=1440, height=900)
    page.wait_for_function("() => table_.runs.size === 7 && [...table_.runs.values()].every((run) => run.spark.length)")
    page.locator("#content canvas").first.wait_for()
    return page


def row(page, name: str):
    return page.locator(f".run-row[data-name={json.dumps(name)}]")


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("alone", ["alone"]),
        ("learning_rate=0.01", ["sweep/lr0.01_s1", "sweep/lr0.01_s2"]),
        ("learning_rate=1e-2 seed=1", ["sweep/lr0.01_s1"]),
        ("learning_rate<0.001", ["sweep/lr0.0001_s1", "sweep/lr0.0001_s2"]),
        ("sweep/ failed", ["sweep/lr0.01_s2"]),
        ("nothing=1", []),
    ],
)
def test_runs_are_found_by_name_state_and_setting(page, search: str, found: list[str]) -> None:
    page.keyboard.press("/")
    page.keyboard.type(search)
    page.wait_for_function(f"() => table_.search === {search!r}")
    assert sorted(page.evaluate(NAMES)) == found


def test_chips_filter_by_state_and_count(page) -> None:
    chips = {chip.get_attribute("data-chip"): chip.inner_text() for chip in page.locator(".chip").all()}
    assert chips == {"all": "All 7", "finished": "Finished 6", "failed": "Failed 1"}
    page.locator(".chip[data-chip=failed]").click()
    assert page.evaluate(NAMES) == ["sweep/lr0.01_s2"]
    assert row(page, "sweep/lr0.01_s2").locator(".cell-best").inner_text() == "NaN"


def test_any_column_sorts_and_the_third_click_goes_back_to_the_newest(page) -> None:
    page.locator("#group").select_option("none")
    newest = page.evaluate(NAMES)
    page.locator("[data-sort=best]").click()
    ascending = page.evaluate(NAMES)
    assert ascending[0] == "sweep/lr0.01_s1"
    assert ascending[-1] == "sweep/lr0.01_s2"  # NaN is never best
    assert page.locator("[role=columnheader][aria-sort=ascending]").inner_text().startswith("Best")
    page.locator("[data-sort=best]").click()
    assert page.evaluate(NAMES)[-1] == "sweep/lr0.01_s1"
    page.locator("[data-sort=best]").click()
    assert page.evaluate(NAMES) == newest
    page.locator("#widen").click()
    page.locator("[data-sort='setting learning_rate']").click()
    assert page.evaluate("table_.shown[0].settings.learning_rate") == 0.0001


def test_groups_by_a_setting_have_their_mean_and_spread(page) -> None:
    page.locator("#group").select_option("learning_rate")
    groups = page.locator(".group-row")
    texts = [text.replace("\n", " ") for text in groups.all_inner_texts()]
    assert len(texts) == 3
    middle = next(text for text in texts if "learning_rate 0.001" in text)
    assert "0.001 3" in middle
    lowest = next(text for text in texts if "learning_rate 0.0001" in text)
    assert "1.915" in lowest
    assert "± 0.007" in lowest
    broken = next(text for text in texts if "learning_rate 0.01 " in text)
    assert "1 failed" in broken
    before = page.locator(".run-row[data-name]").count()
    page.locator("#group").select_option("folder")  # different rates have no mean: the best of them is shown
    assert "1.5103" in page.locator(".group-row").last.inner_text()
    assert "±" not in page.locator(".group-row").last.inner_text()
    page.locator("#group").select_option("learning_rate")
    groups.first.locator("button.open").click()
    assert page.locator(".run-row[data-name]").count() < before


def test_only_differing_settings_are_columns_and_the_table_widens(page) -> None:
    narrow = page.locator("#runs").bounding_box()["width"]
    page.locator("#widen").click()
    heads = page.locator(".run-head").inner_text()
    assert "learning_rate" in heads
    assert "seed" in heads
    assert "n_layer" not in heads
    assert (narrow, page.locator("#runs").bounding_box()["width"]) == (324, 628)


def test_all_and_none_are_selected_and_the_overlay_follows(page) -> None:
    page.locator("#search").fill("sweep/")
    page.locator("#show-all").click()
    page.locator("#content .overlay").wait_for()
    assert page.evaluate("state.payload.runs.length") == 6
    page.locator("#show-none").click()
    page.locator("#status").get_by_text("No run is shown.").wait_for()
    assert page.locator(".run-row.chosen").count() == 0


def test_hidden_runs_stay_hidden_and_come_back(page, sweep: Path) -> None:
    before = sorted(path for path in sweep.rglob("*"))
    row(page, "alone").hover()
    row(page, "alone").locator(".row-act").click()
    row(page, "alone").wait_for(state="detached")
    page.reload()
    page.wait_for_function("() => table_.runs.size === 7")
    assert "alone" not in page.evaluate(NAMES)
    page.locator(".chip[data-chip=hidden]").click()
    row(page, "alone").hover()
    row(page, "alone").locator(".row-act").click()
    page.wait_for_function(f"() => {NAMES}.includes('alone')")
    assert sorted(path for path in sweep.rglob("*")) == before


def test_a_runs_colour_is_that_of_its_name_in_list_and_legend(page) -> None:
    page.locator("#show-all").click()
    page.locator("#content .overlay").wait_for()
    colours = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".run-row[data-name]")].map((row) =>
            [row.dataset.name, row.querySelector("input").style.getPropertyValue("--tone")]))"""
    )
    drawn = page.evaluate(
        "Object.fromEntries(state.payload.runs.map(({ name }) => [name, `var(--${runColour(name)})`]))"
    )
    assert colours == drawn


# --- keys ---


def test_keys_move_open_select_and_hide_and_the_focus_stays(page) -> None:
    page.locator("#group").select_option("none")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    first = page.evaluate("document.activeElement.closest('.run-row').dataset.name")
    page.keyboard.press("j")
    second = page.evaluate("document.activeElement.closest('.run-row').dataset.name")
    assert [first, second] == page.evaluate(f"{NAMES}.slice(0, 2)")
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.closest('.run-row').dataset.name") == first
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => state.chosen.length === 1 && state.chosen[0] === {first!r} && state.payload")
    assert page.evaluate("document.activeElement.closest('.run-row').dataset.name") == first
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.wait_for_function("() => state.chosen.length === 2 && state.payload")
    assert page.evaluate("document.activeElement.closest('.run-row').dataset.name") == second
    page.keyboard.press(" ")
    page.wait_for_function("() => state.chosen.length === 1")
    assert page.evaluate("document.activeElement.closest('.run-row').dataset.name") == second


def test_the_sheet_lists_the_keys_and_escape_closes_it(page) -> None:
    page.keyboard.press("?")
    dialog = page.locator("dialog[open]")
    dialog.wait_for()
    assert {key.inner_text() for key in dialog.locator("kbd").all()} == {
        "/",
        "j",
        "k",
        "Enter",
        "x",
        "h",
        "r",
        "b",
        "?",
        "Esc",
    }
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")


def test_r_asks_for_the_newest_numbers_at_once(page) -> None:
    with page.expect_request("**/api/report?*"):
        page.keyboard.press("r")


def test_b_opens_the_list_of_a_narrower_screen_and_escape_gives_the_focus_back(server: Watch, open_watch) -> None:
    page = open_watch(server, "#run=alone", width=1024)
    page.locator("#content canvas").first.wait_for()
    assert not page.locator("#search").is_visible()
    page.keyboard.press("b")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("Escape")
    assert not page.locator("#search").is_visible()
    assert page.evaluate("document.activeElement.id") == "drawer"


def test_focus_stays_on_its_row_while_the_list_changes(tmp_path: Path, serve, open_watch) -> None:
    write_small_run(tmp_path / "b", 1.5)
    page = open_watch(serve(tmp_path), "#run=b")
    page.locator("#content canvas").first.wait_for()
    row(page, "b").locator("a.open").focus()
    write_small_run(tmp_path / "a", 1.4)
    page.wait_for_function("() => table_.runs.size === 2 && table_.runs.get('a').best")
    assert page.evaluate("document.activeElement.closest('.run-row')?.dataset.name") == "b"
    row(page, "b").locator("input").focus()
    write_small_run(tmp_path / "c", 1.3)
    page.wait_for_function("() => table_.runs.size === 3")
    assert page.evaluate("document.activeElement.dataset.run") == "b"


# --- many ---


def test_thousands_of_runs_are_listed_and_few_of_them_are_in_the_page(tmp_path: Path, serve, open_watch) -> None:
    line = '{"event":"eval","step":%d,"val_loss":%.3f}\n'
    for number in range(1200):
        folder = tmp_path / f"run-{number:04d}"
        folder.mkdir()
        (folder / "events.jsonl").write_text("".join(line % (step, 3 - step / 10) for step in range(3)), "utf-8")
    page = open_watch(serve(tmp_path))
    page.wait_for_function("() => table_.runs.size === 1200")
    page.locator("[data-sort=name]").click()
    assert page.locator(".run-row").count() < 80
    page.evaluate("table_.scroller.scrollTop = 1e9")
    row(page, "run-1199").wait_for()
    assert page.locator(".run-row").count() < 80
    page.evaluate("table_.focusAt(0)")
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.closest('.run-row').dataset.name") == "run-1199"


def test_of_very_many_runs_the_table_says_that_it_has_the_newest(tmp_path: Path, serve, open_watch) -> None:
    for number in range(2003):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}/events.jsonl").write_text('{"event":"eval","step":1,"val_loss":2.0}\n', "utf-8")
    open_watch(serve(tmp_path)).get_by_text("the newest 2,000 of 2,003 runs").wait_for()


# --- states ---


def test_an_empty_folder_offers_commands_and_the_paste_box(tmp_path: Path, serve, open_watch, serious_findings) -> None:
    page = open_watch(serve(tmp_path))
    page.locator("#status").get_by_text("No run here yet").wait_for()
    assert page.locator("#status code").all_inner_texts() == ["nanoscope train laptop", "nanoscope demo"]
    assert page.locator("#log-text").is_visible()
    assert page.title() == "nanoscope"
    assert serious_findings(page) == []
    page.locator("#log-explain").click()
    assert "Nothing was pasted" in page.locator("#log-said").inner_text()
    write_small_run(tmp_path / "first", 1.5)
    page.locator("#content canvas").first.wait_for()


def test_a_stalled_a_failed_a_stopped_and_a_missing_run_look_different(tmp_path: Path, serve, open_watch) -> None:
    begin_run(tmp_path / "silent", 30).close()
    os.utime(tmp_path / "silent/events.jsonl", (time.time() - 100,) * 2)
    write_small_run(tmp_path / "broken", 1.5, broken=True)
    stopped = begin_run(tmp_path / "halted", 40)
    stopped.write(End(t=4.0, reason="interrupted", step=40, wall_seconds=4.0, phases={"step": 3.0}))
    said = {}
    with training(tmp_path / "silent"):
        server = serve(tmp_path)
        for name, text in (
            ("silent", "No line for"),
            ("broken", "What to do:"),
            ("halted", "Stopped at step 40."),
            ("nowhere", "This run is not in the folder."),
        ):
            page = open_watch(server, f"#run={name}")
            page.locator("#status").get_by_text(text).wait_for()
            said[name] = page.title()
    assert said == {
        "silent": "❚❚ 29 % · silent",
        "broken": "✕ 50 % · broken",
        "halted": "◻ 40 % · halted",
        "nowhere": "nanoscope",
    }


def test_a_pasted_log_has_an_address_survives_a_reload_and_can_be_removed(server: Watch, open_watch) -> None:
    page = open_watch(server)
    page.locator("#log-open").click()
    page.locator("#log-text").fill(example_logs.spiky())
    page.locator("#log-explain").click()
    page.wait_for_function("() => /run=log%3A/.test(location.hash) && state.payload")
    address = page.url
    page.reload()
    page.locator("#content .verdict").wait_for()
    assert page.url == address
    other = open_watch(server, address.removeprefix(server.url))
    other.locator("#content .verdict").wait_for()
    page.locator("#remove-log").click()
    page.wait_for_function("() => ![...table_.runs.values()].some((run) => run.state === 'log')")
    other.locator("#status").get_by_text("This run is not in the folder.").wait_for()


def test_the_bell_tells_of_a_run_that_ends_once_if_it_is_allowed(tmp_path: Path, serve, open_watch) -> None:
    events = begin_run(tmp_path / "run", 30)
    with training(tmp_path / "run"):
        server = serve(tmp_path)
        page = open_watch(server)
        page.context.grant_permissions(["notifications"], origin=server.url.rstrip("/"))
        page.evaluate(
            """() => { window.told = []; const Real = Notification;
            window.Notification = class { constructor(title, { body }) { told.push([title, body]); } };
            Object.defineProperty(window.Notification, "permission", { get: () => Real.permission }); }"""
        )
        page.locator("#bell").click()
        page.wait_for_function("() => document.querySelector('#bell').getAttribute('aria-pressed') === 'true'")
        page.wait_for_function("() => table_.runs.get('run')?.state === 'live'")
        events.write(End(t=9.0, reason="finished", step=30, wall_seconds=9.0, phases={"step": 9.0}))
        page.wait_for_function("() => told.length")
        page.wait_for_timeout(2500)
        ((title, body),) = page.evaluate("told")
    assert title == "run"
    assert body.startswith("Finished · best validation loss")


def test_theme_and_language_keep_what_is_zoomed_and_chosen(page) -> None:
    page.locator("#x-tokens").click()
    page.locator("#zoom-in").click()
    zoom = page.evaluate(ZOOM)
    page.locator("#theme").click()
    page.locator("#lang-ar").click()
    page.wait_for_function("() => document.documentElement.lang === 'ar'")
    assert page.evaluate(ZOOM) == zoom != "undefined"
    page.reload()
    page.locator("#content canvas").first.wait_for()
    assert page.evaluate(f"[view.state.x, {ZOOM}, state.chosen]") == [
        "tokens",
        zoom,
        ["alone"],
    ]
