"""One browser for a file of tests; a server, a context and an inbox for each of them."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser.fake_inbox import Inbox, items, serve
from tests.browser.opened import Opened

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 5_000
"""Milliseconds that anything may take on a busy machine."""
LARGEST_PICTURE = 300_000
"""Bytes: a document is read on trains, too."""


@pytest.fixture(scope="session")
def chromium() -> str:
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None and os.environ.get("CI"):
        pytest.fail("no chromium is installed: apt-get install chromium")
    if found is None:
        pytest.skip("no chromium is installed")
    return found


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """Ends with its file: while it lives, its thread has a running event loop, and other tests can't run theirs."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def inbox() -> Inbox:
    return Inbox(items=items(5))


@pytest.fixture
def address(inbox: Inbox) -> Iterator[str]:
    server = serve(inbox)
    yield f"http://127.0.0.1:{server.server_port}/static/inbox.html"
    server.shutdown()
    server.server_close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 600, "height": 700}, locale="en-GB")
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """Fails the test that made the page complain: of a script's mistake, or of what its policy forbids."""
    page, complaints = context.new_page(), list[str]()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if "Content Security Policy" in said.text else None)
    yield page
    assert complaints == []


@pytest.fixture
def opened(page: Page, address: str, inbox: Inbox) -> Opened:
    return Opened(page=page, address=address, inbox=inbox)


@pytest.fixture
def picture(tmp_path: Path) -> Callable[[Page, str], None]:
    """Takes a picture that a document shows; into the folder that NOTIFIER_PICTURES names, if any."""

    def take(page: Page, name: str) -> None:
        path = Path(os.environ.get("NOTIFIER_PICTURES", tmp_path)) / name
        page.screenshot(path=path, animations="disabled")
        assert path.stat().st_size < LARGEST_PICTURE

    return take
