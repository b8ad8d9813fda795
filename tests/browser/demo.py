"""A real `notifier demo` in a process of its own, with a world that is small enough to be there at once."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, expect

SLOW = 45_000
"""Milliseconds that something may take in which a real service and its workers have a part, on a busy machine."""
STARTS_WITHIN = 40.0
FOLLOWERS = 200_000_000 if os.environ.get("NOTIFIER_PICTURES") else 20_000_000
"""A picture shows the demo as it is; a test needn't."""


@contextmanager
def demo(data: Path, *, followers: int = FOLLOWERS, collapse: float | None = None) -> Iterator[str]:
    """Its address, once its world is whole; it is told to stop as by Ctrl-C, and must end cleanly."""
    words = ["demo", "--keep", str(data), "--port", "0", "--no-open", "--followers", str(followers)]
    if collapse is not None:
        words += ["--collapse", str(collapse)]
    own = {name: value for name, value in os.environ.items() if not name.startswith("NOTIFIER_")}
    process = subprocess.Popen([sys.executable, "-m", "notifier", *words], stdout=subprocess.PIPE, text=True, env=own)
    try:
        yield _address(process, data)
    finally:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 0, out


def _address(process: "subprocess.Popen[str]", data: Path) -> str:
    deadline = monotonic() + STARTS_WITHIN
    while not (data / "demo.json").exists() or not (data / "run" / "ready.json").exists():
        assert process.poll() is None, "the demo has ended"
        assert monotonic() < deadline, f"the demo wasn't there within {STARTS_WITHIN} s"
        sleep(0.05)
    return str(json.loads((data / "run" / "ready.json").read_text())["url"])


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


def delivered(page: Page) -> None:
    expect(page.locator("#grown")).to_contain_text("Delivered;", timeout=SLOW)
    expect(page.locator("#sum")).to_contain_text("the books balance", timeout=SLOW)


def _complains(said: ConsoleMessage) -> bool:
    return said.type in ("error", "warning")


def _ours(url: str, home: str) -> bool:
    return url.startswith("data:") or urlsplit(url).netloc == urlsplit(home).netloc
