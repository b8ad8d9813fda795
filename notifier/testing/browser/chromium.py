"""A headless Chromium of our own, and visits with it: each as of somebody who was never here."""

from collections.abc import Iterator
from contextlib import contextmanager

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
