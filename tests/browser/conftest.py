"""A real browser: the system's Chromium, driven by playwright, without network access."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from watching import HANDLES, PATIENCE_SECONDS, Watch, watching

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[dev]'")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]

OpenPage = Callable[..., "playwright.Page"]


@pytest.fixture(scope="session")
def browser() -> Iterator["playwright.Browser"]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium fonts-noto-core)")
    as_root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *as_root])
        yield browser
        browser.close()


class Pages:
    """The open pages, and all errors that they or the browser reported."""

    def __init__(self, browser: "playwright.Browser") -> None:
        self.browser = browser
        self.contexts: list[playwright.BrowserContext] = []
        self.complaints: list[str] = []

    def new(self, width: int, color_scheme: str, height: int = 800, touch: bool = False) -> "playwright.Page":
        context = self.browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=color_scheme, has_touch=touch
        )
        context.set_default_timeout(1000 * PATIENCE_SECONDS)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        return page


@pytest.fixture
def serve() -> Iterator[Callable[..., Watch]]:
    """Start `nanoscope watch` over a folder; it is stopped after the test."""
    with ExitStack() as servers:
        yield lambda folder, port=0: servers.enter_context(watching(folder, port=port))


@pytest.fixture
def pages(browser: "playwright.Browser", serve: Callable[..., Watch]) -> Iterator[Pages]:
    """Fail the test if one of its pages reported errors. Pages are closed before their server."""
    pages = Pages(browser)
    yield pages
    for context in pages.contexts:
        context.close()
    assert pages.complaints == []


@pytest.fixture
def open_file(pages: Pages) -> OpenPage:
    """Open a file like a mail attachment; it must load nothing else."""

    def open_it(
        file: Path,
        width: int = 1280,
        color_scheme: str = "light",
        height: int = 800,
        touch: bool = False,
        view: str = "",
    ) -> "playwright.Page":
        page = pages.new(width, color_scheme, height, touch)

        def only_this_file(route: "playwright.Route") -> None:
            if route.request.url.split("#")[0] == file.as_uri():
                route.continue_()
            else:
                pages.complaints.append(f"asked for {route.request.url}")
                route.abort()

        page.route("**/*", only_this_file)
        page.goto(file.as_uri() + (f"#{view}" if view else ""))
        page.wait_for_selector("main")
        return page

    return open_it


@pytest.fixture
def open_watch(pages: Pages) -> OpenPage:
    """Open the page of a server at a selection (`#run=a&run=b`); it must contact no other server."""

    def open_it(
        server: Watch,
        selection: str = "",
        width: int = 1280,
        color_scheme: str = "light",
        height: int = 800,
        touch: bool = False,
    ) -> "playwright.Page":
        page = pages.new(width, color_scheme, height, touch)
        own = re.compile(rf"{re.escape(server.url)}|data:|blob:{re.escape(server.url)}")

        def only_this_server(request: "playwright.Request") -> None:
            if not own.match(request.url):
                pages.complaints.append(f"asked for {request.url}")

        page.on("request", only_this_server)
        page.add_init_script(HANDLES)
        page.goto(server.url + selection)
        page.wait_for_function("() => window.handled")
        return page

    return open_it


@pytest.fixture(scope="session")
def serious_findings() -> Callable[["playwright.Page"], list[Any]]:
    """The serious accessibility problems that axe-core finds in a page."""
    found = find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        pytest.skip("axe-playwright-python, which carries axe-core, is not installed")
    axe = (Path(found.origin).parent / "axe.min.js").read_text("utf-8")

    def look(page: "playwright.Page") -> list[Any]:
        page.evaluate(axe)
        violations = page.evaluate("async () => (await axe.run(document)).violations")
        serious = [v for v in violations if v["impact"] in ("serious", "critical")]
        return [(v["id"], v["nodes"][0]["html"], v["nodes"][0]["failureSummary"]) for v in serious]

    return look
