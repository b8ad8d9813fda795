"""One browser and one context for a file of tests; a server, a page and an inbox for each of them."""

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
from tests.support.browser.page import Opened

PATIENCE = 20_000
"""Milliseconds that anything may take on a busy machine."""
LARGEST_PICTURE = 300_000
"""Bytes: a document is read on trains, too."""


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
    """Ends with its file: while it lives, its thread has a running event loop, and other tests can't run theirs."""
    expect.set_options(timeout=PATIENCE)
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
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    """Half of what a short test costs is a context of its own, or the first page in one: a file has one of each."""
    with closing(new_context(browser)) as context:
        context.new_page()
        yield context


@pytest.fixture
def alone() -> None:
    """The context is this test's own: it is changed for good, by a clock or the like."""


@pytest.fixture
def context(request: pytest.FixtureRequest, browser: Browser) -> Iterator[BrowserContext]:
    """Afterwards without the test's pages, and online again."""
    own = new_context(browser) if "alone" in request.fixturenames else None
    context: BrowserContext = own or request.getfixturevalue("visitor")
    before = context.pages
    yield context
    for page in [page for page in context.pages if page not in before]:
        page.close()
    context.set_offline(False)
    if own:
        own.close()


def new_context(browser: Browser) -> BrowserContext:
    context = browser.new_context(viewport={"width": 600, "height": 700}, locale="en-GB")
    context.set_default_timeout(PATIENCE)
    return context


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
    """Takes a picture that a document shows; into the folder that PICTURES names, if any."""

    def take(page: Page, name: str) -> None:
        path = Path(os.environ.get("PICTURES", tmp_path)) / name
        page.screenshot(path=path, animations="disabled")
        assert path.stat().st_size < LARGEST_PICTURE

    return take
