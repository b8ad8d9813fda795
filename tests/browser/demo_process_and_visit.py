"""A real `notifier demo` in its own process, and visits that fail on page errors."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.support.demo_process import Demo

SLOW = 45_000
"""Milliseconds that a step may take that involves a real service and its workers, on a busy machine."""
FOLLOWERS = 200_000_000 if os.environ.get("PICTURES") else 2_000_000
"""A picture shows the full demo. Tests need fewer followers, and a ramp admits fewer sooner."""


@contextmanager
def demo(
    data: Path,
    outputs: list[str] | None = None,
    *options: str,
    followers: int = FOLLOWERS,
    collapse: float | None = None,
) -> Iterator[str]:
    """Yield the demo's address when its world is complete, then stop it as with Ctrl-C. It must exit cleanly.

    Its output is appended to `outputs` at the end; `options` are passed to the command.
    """
    arguments = ["--followers", str(followers), *([] if collapse is None else ["--collapse", str(collapse)]), *options]
    with Demo(data=data, arguments=arguments) as process:
        process.wait_until_loaded()
        yield process.url
    if outputs is not None:
        outputs.append(process.output())


@contextmanager
def visit(browser: Browser, home: str) -> Iterator[Page]:
    """Yield the demo's page; fail if the page has errors or sends requests to other hosts."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, locale="en-GB")
    context.set_default_timeout(SLOW)
    page, errors = context.new_page(), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console",
        lambda message: errors.append(f"{message.text} {message.location}") if _is_complaint(message) else None,
    )
    page.on("request", lambda request: None if _is_own(request.url, home) else errors.append(request.url))
    page.goto(home)
    yield page
    context.close()
    assert errors == []


def _is_complaint(message: ConsoleMessage) -> bool:
    return message.type in ("error", "warning")


def _is_own(url: str, home: str) -> bool:
    return url.startswith("data:") or urlsplit(url).netloc == urlsplit(home).netloc
