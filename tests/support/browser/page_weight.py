"""Measures how much a browser with an empty cache loads for the demo's page."""

from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Response, expect

from tests.support.browser.chromium import TIMEOUT_MS, visit


def weighed(browser: Browser, address: str) -> Mapping[str, int]:
    """Return the unpacked size of each response by path, until the page is live and its inbox has a row.

    Includes the files and what they request. A stream has no end, and its messages are no part of the page.
    """
    responses: list[Response] = []
    with visit(browser) as page:
        page.on("response", lambda answer: responses.append(answer))  # noqa: PLW0108 - Playwright sets an attribute on the handler
        page.goto(address)
        expect(page.locator("#connection")).to_have_text("live", timeout=TIMEOUT_MS)
        expect(page.locator("notifier-inbox .row").first).to_be_visible(timeout=TIMEOUT_MS)
        sizes = Counter[str]()
        for response in filter(_ends, responses):
            sizes[urlsplit(response.url).path] += len(response.body())
    return sizes


OF_THE_INBOX = ("/static/notifier-inbox", "/v1/inbox")


def without_inbox(sizes: Mapping[str, int]) -> Mapping[str, int]:
    """Return the sizes without the files and requests of the inbox element."""
    return {path: size for path, size in sizes.items() if not path.startswith(OF_THE_INBOX)}


def _ends(response: Response) -> bool:
    """Whether the response has a body that ends."""
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    return response.url.startswith("http") and response.status != HTTPStatus.NO_CONTENT and not is_stream
