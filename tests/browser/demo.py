"""A real `notifier demo` in a process of its own, and visits to its page that fail whoever makes it complain."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.support.demo_process import Demo

SLOW = 45_000
"""Milliseconds that something may take in which a real service and its workers have a part, on a busy machine."""
FOLLOWERS = 200_000_000 if os.environ.get("PICTURES") else 2_000_000
"""A picture shows the demo as it is; a test needn't, and the fewer there are, the sooner a ramp has let them in."""


@contextmanager
def demo(
    data: Path,
    said: list[str] | None = None,
    *more: str,
    followers: int = FOLLOWERS,
    collapse: float | None = None,
) -> Iterator[str]:
    """Its address, once its world is whole; it is told to stop as by Ctrl-C, and must end cleanly.

    What it said is added to `said` at its end; `more` are words for it.
    """
    words = ["--followers", str(followers), *([] if collapse is None else ["--collapse", str(collapse)]), *more]
    with Demo(data=data, words=words) as shown:
        shown.whole()
        yield shown.url
    if said is not None:
        said.append(shown.said())


@contextmanager
def visiting(browser: Browser, home: str) -> Iterator[Page]:
    """The demo's page; fails whoever made it complain, or ask for anything elsewhere."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, locale="en-GB")
    context.set_default_timeout(SLOW)
    page, wrong = context.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(f"{said.text} {said.location}") if _complains(said) else None)
    page.on("request", lambda asked: None if _ours(asked.url, home) else wrong.append(asked.url))
    page.goto(home)
    yield page
    context.close()
    assert wrong == []


def _complains(said: ConsoleMessage) -> bool:
    return said.type in ("error", "warning")


def _ours(url: str, home: str) -> bool:
    return url.startswith("data:") or urlsplit(url).netloc == urlsplit(home).netloc
