"""How much a browser that has nothing yet loads for the demo's page."""

from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Response, expect

from tests.support.browser.chromium import PATIENCE, visit


def weighed(browser: Browser, address: str) -> Mapping[str, int]:
    """By path the bytes of each answer, unpacked, until the page lives and its inbox has a row.

    The files and what they ask for; a stream has no end, and what it says is no part of the page.
    """
    answers: list[Response] = []
    with visit(browser) as page:
        page.on("response", lambda answer: answers.append(answer))  # noqa: PLW0108 - it marks what it is given
        page.goto(address)
        expect(page.locator("#line")).to_have_text("live", timeout=PATIENCE)
        expect(page.locator("notifier-inbox .row").first).to_be_visible(timeout=PATIENCE)
        sizes = Counter[str]()
        for each in filter(_ends, answers):
            sizes[urlsplit(each.url).path] += len(each.body())
    return sizes


def _ends(answer: Response) -> bool:
    """On a slow machine the first row is seen before the page lives: that answer has no body to ask the browser for."""
    streams = answer.headers.get("content-type", "").startswith("text/event-stream")
    return answer.url.startswith("http") and answer.status != HTTPStatus.NO_CONTENT and not streams
