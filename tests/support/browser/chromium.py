"""A headless Chromium of our own, and visits with it: each as of somebody who was never here."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from playwright.sync_api import Browser, Page, sync_playwright

WIDE = 1440
PATIENCE = 60_000
"""Milliseconds that anything may take, far beyond any limit."""


@contextmanager
def headless(chromium: str) -> Iterator[Browser]:
    """While it is open, its thread has a running event loop."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visit(browser: Browser, *, scheme: str = "light", width: int = WIDE) -> Iterator[Page]:
    """Nothing moves on it: axe would see a colour on its way."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        locale="en-GB",
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE)
    try:
        yield context.new_page()
    finally:
        context.close()


# Whether there is a browser to look with: Chromium, what drives it, and what judges a page. Imports none of them.

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
DRIVERS = {"playwright": "playwright", "axe_playwright_python": "axe-playwright-python"}


class NoBrowser(RuntimeError):
    """A page can't be looked at here."""


def chromium() -> str:
    """Where the system's own is. Raises NoBrowser, with one sentence that says what to install."""
    if missing := [package for module, package in DRIVERS.items() if find_spec(module) is None]:
        raise NoBrowser(f"A browser is needed, and {' and '.join(missing)} isn't installed: `make setup` does that.")
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        raise NoBrowser("A browser is needed, and no chromium is installed: apt-get install chromium.")
    return found
