"""A headless Chromium, and visits with a fresh profile each."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from playwright.sync_api import Browser, Page, sync_playwright

DEFAULT_WIDTH = 1440
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-software-rasterizer")
"""Without a graphics process, which a machine without a graphics card only emulates."""
TIMEOUT_MS = 60_000
"""Timeout in milliseconds, far beyond any limit."""


@contextmanager
def headless(chromium: str) -> Iterator[Browser]:
    """Start Chromium. While it is open, its thread has a running event loop."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visit(browser: Browser, *, scheme: str = "light", width: int = DEFAULT_WIDTH) -> Iterator[Page]:
    """Open a page without animations, because axe would see a color in transition."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        locale="en-GB",
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(TIMEOUT_MS)
    try:
        yield context.new_page()
    finally:
        context.close()


# Finds Chromium and the packages that drive it and check pages, without importing them.

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
DRIVERS = {"playwright": "playwright", "axe_playwright_python": "axe-playwright-python"}


class NoBrowser(RuntimeError):
    """No browser can be started here."""


def chromium() -> str:
    """Return the path of the system's Chromium.

    Raises NoBrowser with a message that says what to install.
    """
    if missing := [package for module, package in DRIVERS.items() if find_spec(module) is None]:
        raise NoBrowser(f"A browser is needed, and {' and '.join(missing)} isn't installed: `make setup` does that.")
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        raise NoBrowser("A browser is needed, and no chromium is installed: apt-get install chromium.")
    return path
