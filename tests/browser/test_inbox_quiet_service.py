"""An open inbox page on the real service while nothing happens: no request beside a stream, 304 without one."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.demo import demo
from tests.browser.served import FOLLOWERS, Served, Tab, active, tab

PEOPLE = iter(active(10))
PACE = "import('/static/notifier-inbox/pace.js').then(({ PACE }) => Object.assign(PACE, { silence: 36_000_000 }))"
"""The clock of these tests runs ahead of the heartbeats."""
LONGEST_POLL_MS = 38_000

pytestmark = [pytest.mark.timeout(240), pytest.mark.usefixtures("alone")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("quiet")
    with demo(data, followers=FOLLOWERS, collapse=0):
        yield Served(data=data)


@pytest.fixture
def mine(served: Served, context: BrowserContext, page: Page) -> Tab:
    page.clock.install()
    page.add_init_script(PACE)
    mine = tab(served, context, next(PEOPLE), page)
    served.mention("nova", author="ada")
    mine.until(lambda: "ada mentioned @nova" in served.texts(mine.user))
    return mine


def full(route: Route) -> None:
    problem = json.dumps({"type": "/problems/streams_full", "code": "streams_full", "status": 503})
    route.fulfill(status=503, headers={"Retry-After": "1"}, content_type="application/problem+json", body=problem)


def test_open_stream_sends_no_request_while_nothing_happens(served: Served, mine: Tab) -> None:
    asked: list[str] = []
    mine.live()
    mine.page.clock.run_for(10_000)
    mine.until(lambda: served.badge(mine.user) == 0)
    mine.page.on("request", lambda request: asked.append(request.url))
    mine.page.clock.run_for(600_000)
    assert asked == []
    served.mention("nova", author="zoe")
    expect(mine.row("zoe")).to_be_visible()


def test_full_streams_are_polled_for_until_one_is_free(served: Served, mine: Tab) -> None:
    polls: list[int] = []
    mine.page.route("**/v1/inbox/stream", full)
    mine.page.on("response", lambda answer: polls.append(answer.status) if "/v1/inbox?" in answer.url else None)
    mine.live()
    mine.page.clock.run_for(10_000)
    for _ in range(4):
        before = len(polls)
        mine.page.clock.run_for(LONGEST_POLL_MS)
        mine.until(lambda before=before: len(polls) > before)
    assert polls[-1] == 304
    served.mention("nova", author="yan")
    mine.until(lambda: "yan mentioned @nova" in served.texts(mine.user))
    mine.page.clock.run_for(LONGEST_POLL_MS)
    expect(mine.row("yan")).to_be_visible()
    mine.page.unroute("**/v1/inbox/stream")
    streams = len(mine.streams)
    mine.page.clock.run_for(80_000)  # longer than the longest back-off
    mine.until(lambda: len(mine.streams) > streams)
    served.mention("nova", author="xia")
    expect(mine.row("xia")).to_be_visible()
