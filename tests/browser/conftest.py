"""Fixtures for browser tests: one browser and context per file, server and page per test."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support.browser import chromium as installed
from tests.support.browser.chromium import NoBrowser, headless
from tests.support.browser.fake_inbox import Inbox, items
from tests.support.browser.fake_server import serving
from tests.support.browser.inbox_page import FakeInboxPage

TIMEOUT_MS = 20_000
"""Milliseconds; the longest that any step may take on a busy machine."""
LARGEST_PICTURE = 300_000
"""Bytes, because documents are also read over slow connections."""


@pytest.fixture(scope="session")
def chromium() -> str:
    try:
        return installed.chromium()
    except NoBrowser as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """Closed after each file: its thread has a running event loop, and other tests could not run theirs."""
    expect.set_options(timeout=TIMEOUT_MS)
    with headless(chromium) as browser:
        yield browser


@pytest.fixture
def inbox() -> Inbox:
    return Inbox(items=items(5))


@pytest.fixture
def address(inbox: Inbox) -> Iterator[str]:
    with serving(inbox) as address:
        yield address


@pytest.fixture(scope="module")
def shared_context(browser: Browser) -> Iterator[BrowserContext]:
    """One context and a first page for a whole file: creating them is half the cost of a short test."""
    with closing(new_context(browser)) as context:
        context.new_page()
        yield context


@pytest.fixture
def own_context() -> None:
    """Give the test its own context, because it changes the context permanently, by a clock for example."""


@pytest.fixture
def context(request: pytest.FixtureRequest, browser: Browser) -> Iterator[BrowserContext]:
    """Close the test's pages afterwards, and go online again."""
    separate = new_context(browser) if "own_context" in request.fixturenames else None
    context: BrowserContext = separate or request.getfixturevalue("shared_context")
    before = context.pages
    yield context
    for page in [page for page in context.pages if page not in before]:
        page.close()
    context.set_offline(False)
    if separate:
        separate.close()


def new_context(browser: Browser) -> BrowserContext:
    context = browser.new_context(viewport={"width": 600, "height": 700}, locale="en-GB")
    context.set_default_timeout(TIMEOUT_MS)
    return context


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """Fail the test if the page has a script error or a policy violation."""
    page, complaints = context.new_page(), list[str]()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda message: complaints.append(message.text) if "Content Security Policy" in message.text else None,
    )
    yield page
    assert complaints == []


@pytest.fixture
def inbox_page(page: Page, address: str, inbox: Inbox) -> FakeInboxPage:
    return FakeInboxPage(page=page, address=address, inbox=inbox)


@pytest.fixture
def picture(tmp_path: Path) -> Callable[[Page, str], None]:
    """Take a picture for a document; it is stored in the folder that PICTURES names, if any."""

    def take(page: Page, name: str) -> None:
        path = Path(os.environ.get("PICTURES", tmp_path)) / name
        page.screenshot(path=path, animations="disabled")
        assert path.stat().st_size < LARGEST_PICTURE

    return take
