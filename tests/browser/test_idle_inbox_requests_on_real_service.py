"""An idle inbox page on the real service: no requests, or 304 responses."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.demo_process_and_visit import demo
from tests.browser.demo_service_and_inbox_tab import FOLLOWERS, Served, Tab, active_users, tab

PEOPLE = iter(active_users(10))
SET_TIMING = (
    "import('/static/notifier-inbox/delays-and-limits.js')"
    ".then(({ TIMING }) => Object.assign(TIMING, { silence: 36_000_000 }))"
)
"""The clock of these tests runs ahead of the heartbeats."""
LONGEST_POLL_MS = 38_000

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(240), pytest.mark.usefixtures("own_context")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("quiet")
    with demo(data, followers=FOLLOWERS, collapse=0):
        yield Served(data=data)


@pytest.fixture
def inbox_tab(served: Served, context: BrowserContext, page: Page) -> Tab:
    page.clock.install()
    page.add_init_script(SET_TIMING)
    inbox_tab = tab(served, context, next(PEOPLE), page)
    served.mention("nova", author="ada")
    inbox_tab.until(lambda: "ada mentioned @nova" in served.texts(inbox_tab.user))
    return inbox_tab


def refuse_stream(route: Route) -> None:
    problem = json.dumps({"type": "/problems/streams_full", "code": "streams_full", "status": 503})
    route.fulfill(status=503, headers={"Retry-After": "1"}, content_type="application/problem+json", body=problem)


def test_open_stream_sends_no_request_while_nothing_happens(served: Served, inbox_tab: Tab) -> None:
    requests: list[str] = []
    inbox_tab.live()
    inbox_tab.page.clock.run_for(10_000)
    inbox_tab.until(lambda: served.badge(inbox_tab.user) == 0)
    inbox_tab.page.on("request", lambda request: requests.append(request.url))
    inbox_tab.page.clock.run_for(600_000)
    assert requests == []
    served.mention("nova", author="zoe")
    expect(inbox_tab.row("zoe")).to_be_visible()


def test_page_polls_while_streams_are_full(served: Served, inbox_tab: Tab) -> None:
    polls: list[int] = []
    inbox_tab.page.route("**/v1/inbox/stream", refuse_stream)
    inbox_tab.page.on(
        "response", lambda response: polls.append(response.status) if "/v1/inbox?" in response.url else None
    )
    inbox_tab.live()
    inbox_tab.page.clock.run_for(10_000)
    for _ in range(4):
        before = len(polls)
        inbox_tab.page.clock.run_for(LONGEST_POLL_MS)
        inbox_tab.until(lambda before=before: len(polls) > before)
    assert polls[-1] == 304
    served.mention("nova", author="yan")
    inbox_tab.until(lambda: "yan mentioned @nova" in served.texts(inbox_tab.user))
    inbox_tab.page.clock.run_for(LONGEST_POLL_MS)
    expect(inbox_tab.row("yan")).to_be_visible()
    inbox_tab.page.unroute("**/v1/inbox/stream")
    streams = len(inbox_tab.streams)
    inbox_tab.page.clock.run_for(80_000)  # longer than the longest back-off
    inbox_tab.until(lambda: len(inbox_tab.streams) > streams)
    served.mention("nova", author="xia")
    expect(inbox_tab.row("xia")).to_be_visible()
