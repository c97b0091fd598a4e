"""A real browser: Chromium from the system, driven by playwright, shut off from every network."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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


@pytest.fixture
def open_file(browser: "playwright.Browser") -> Iterator[OpenPage]:
    """Open a file as a mail attachment is opened; the test fails if the page complains or asks for anything else."""
    contexts, complaints = [], []

    def open_it(file: Path, width: int = 1280, color_scheme: str = "light") -> "playwright.Page":
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=color_scheme)
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))

        def only_this_file(route: "playwright.Route") -> None:
            if route.request.url == file.as_uri():
                route.continue_()
            else:
                complaints.append(f"asked for {route.request.url}")
                route.abort()

        page.route("**/*", only_this_file)
        page.goto(file.as_uri())
        page.wait_for_selector("main")
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert complaints == []
