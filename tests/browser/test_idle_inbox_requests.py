"""An idle inbox page: no request with a stream, and 304 responses without one."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page_clock import Advance, page_clock
from tests.browser.test_inbox_live import wait_until_closed
from tests.support.browser.fake_inbox import CLOSE, Inbox, item
from tests.support.browser.inbox_page import FakeInboxPage

POLL_S = 30
LONGEST_POLL_S = 38
"""The interval plus a quarter of jitter."""
SET_TIMING = "import('/static/notifier-inbox/delays-and-limits.js').then(({ TIMING }) => Object.assign(TIMING, %s))"
LONG_TIMERS = SET_TIMING % "{ silence: 36_000_000, relativeTimes: 36_000_000 }"
"""The clock of these tests runs ahead of the heartbeats, and the times of rows do not change."""
WATCH = """() => {
  const log = (records) => window.mutations.push(...records.map(({ type, target }) => `${type} ${target.className}`));
  window.mutations = [];
  new MutationObserver(log).observe(document.querySelector('notifier-inbox').shadowRoot,
    { subtree: true, childList: true, characterData: true, attributes: true });
}"""
PAGE, STREAM = "GET /v1/inbox", "GET /v1/inbox/stream"

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def advance(page: Page, own_context: None, inbox: Inbox) -> Advance:
    """Return a function that advances the page's clock by seconds; the page handles every response before and after."""
    inbox.poll_interval = POLL_S
    return page_clock(page)


def open_with_stream(inbox_page: FakeInboxPage, advance: Advance) -> int:
    """Open the page, wait for its stream, and return the number of requests so far."""
    inbox_page.open(before=LONG_TIMERS)
    inbox_page.until(lambda: bool(inbox_page.inbox.streams))
    expect(inbox_page.rows).to_have_count(len(inbox_page.inbox.items))
    advance(5)
    return len(inbox_page.inbox.requests)


def open_without_stream(inbox_page: FakeInboxPage, *, status: int = 404) -> None:
    """Open the page, whose stream is refused with the status or, with 200, cut at once."""
    inbox_page.inbox.stream_status = status
    inbox_page.open(before=LONG_TIMERS)
    expect(inbox_page.rows).to_have_count(len(inbox_page.inbox.items))
    inbox_page.until(lambda: bool(inbox_page.inbox.calls(STREAM)))


def poll(inbox_page: FakeInboxPage, advance: Advance) -> None:
    """Wait for one poll and its response."""
    before = len(inbox_page.inbox.calls(PAGE))
    advance(LONGEST_POLL_S)
    inbox_page.until(lambda: len(inbox_page.inbox.calls(PAGE)) > before)
    advance(0)


def calls_since(inbox: Inbox, start: int) -> list[str]:
    return [call.partition("?")[0] for call, _ in inbox.requests[start:]]


def sync(inbox_page: FakeInboxPage) -> None:
    """Return when the page has handled every earlier stream event."""
    text = f"sync {inbox_page.inbox.token_count}"
    inbox_page.inbox.items[-1] |= {"text": text}  # a page that is loaded meanwhile has it, too
    inbox_page.inbox.send("group", inbox_page.inbox.items[-1])
    expect(inbox_page.rows.last.locator(".text")).to_have_text(text)


def now(inbox_page: FakeInboxPage) -> Any:
    return inbox_page.page.evaluate("Date.now() / 1_000")


def test_open_stream_sends_no_request_while_nothing_happens(
    inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance
) -> None:
    start = open_with_stream(inbox_page, advance)
    advance(600)
    sync(inbox_page)
    assert calls_since(inbox, start) == []


def test_polls_are_304_and_change_nothing_on_the_page(
    inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance
) -> None:
    open_without_stream(inbox_page)
    poll(inbox_page, advance)
    inbox_page.page.evaluate(WATCH)
    for _ in range(4):
        poll(inbox_page, advance)
    inbox_page.until(lambda: inbox.not_modified_count == len(inbox.calls(PAGE)) - 1)
    assert inbox_page.page.evaluate("window.mutations") == []


def test_polls_respect_the_interval_of_the_server(inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance) -> None:
    open_without_stream(inbox_page)
    start, polls = now(inbox_page), len(inbox.calls(PAGE))
    for _ in range(6):
        poll(inbox_page, advance)
    assert len(inbox.calls(PAGE)) - polls <= (now(inbox_page) - start) / POLL_S
    assert len(inbox.calls(STREAM)) == 1  # there is none, and it is requested again after ten minutes


def test_hidden_tab_closes_its_stream_and_sends_nothing(
    inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance
) -> None:
    start = open_with_stream(inbox_page, advance)
    inbox_page.page.evaluate(
        SET_TIMING % "{ debounce: 60_000 }"
    )  # the stream has that long before the page is requested
    inbox_page.turn("hidden")
    advance(61)
    wait_until_closed(inbox_page)
    advance(3_600)
    assert calls_since(inbox, start) == []
    inbox.arrive(item(1000))
    inbox_page.turn("visible")
    expect(inbox_page.rows).to_have_count(6)
    sync(inbox_page)
    assert calls_since(inbox, start) == [STREAM]
    assert "Last-Event-ID" in inbox.calls(STREAM)[1]


def test_hidden_tab_does_not_poll_and_loads_once_when_visible(
    inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance
) -> None:
    open_without_stream(inbox_page)
    poll(inbox_page, advance)
    inbox_page.turn("hidden")
    start = len(inbox.requests)
    advance(300)
    assert calls_since(inbox, start) == []
    inbox_page.turn("visible")
    inbox_page.until(lambda: calls_since(inbox, start) == [PAGE])
    advance(POLL_S - 10)
    assert calls_since(inbox, start) == [PAGE]
    poll(inbox_page, advance)


def test_tab_that_is_shown_repeatedly_loads_once(inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance) -> None:
    open_without_stream(inbox_page)
    poll(inbox_page, advance)
    start = len(inbox.requests)
    inbox_page.turn(*10 * ("hidden", "visible"))
    advance(10)
    inbox_page.until(lambda: calls_since(inbox, start) == [PAGE])


def test_briefly_hidden_tab_keeps_its_stream_and_sends_nothing(
    inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance
) -> None:
    start = open_with_stream(inbox_page, advance)
    inbox_page.turn("hidden")
    advance(30)
    inbox_page.turn("visible")
    advance(300)
    sync(inbox_page)
    assert calls_since(inbox, start) == []


def test_reset_in_hidden_tab_waits_until_it_is_visible(
    inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance
) -> None:
    start = open_with_stream(inbox_page, advance)
    inbox_page.turn("hidden")
    inbox.send("reset")
    sync(inbox_page)
    advance(30)
    assert calls_since(inbox, start) == []
    inbox_page.turn("visible")
    inbox_page.until(lambda: calls_since(inbox, start) == [PAGE])


def test_reset_with_unchanged_page_is_304_and_changes_nothing(
    inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance
) -> None:
    start = open_with_stream(inbox_page, advance)
    inbox_page.page.evaluate(WATCH)
    inbox.send("reset")
    reset = f"as-of-{inbox.token_count}"
    inbox_page.until(lambda: calls_since(inbox, start) == [PAGE])
    inbox_page.until(lambda: inbox.not_modified_count == 1)
    advance(5)
    assert inbox_page.page.evaluate("window.mutations") == []
    inbox.raw(CLOSE)
    advance(5)
    inbox_page.until(lambda: len(inbox.calls(STREAM)) == 2)
    assert inbox.calls(STREAM)[1]["Last-Event-ID"] == reset  # the page has made up for the reset


def test_resets_close_together_are_one_load(inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance) -> None:
    start = open_with_stream(inbox_page, advance)
    for _ in range(50):
        inbox.send("reset")
    inbox_page.until(lambda: PAGE in calls_since(inbox, start))
    advance(60)
    sync(inbox_page)
    assert calls_since(inbox, start) == [PAGE]


def test_continuous_resets_do_not_delay_the_load_forever(
    inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance
) -> None:
    start, began = open_with_stream(inbox_page, advance), now(inbox_page)
    for _ in range(30):
        inbox.send("reset")
        sync(inbox_page)
        advance(0.5)
    assert 1 <= calls_since(inbox, start).count(PAGE) <= now(inbox_page) - began  # a load waits at least a second


def test_page_polls_while_streams_are_full(inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance) -> None:
    inbox.stream_refusal, inbox.retry_after = "streams_full", 1
    open_without_stream(inbox_page, status=503)
    for _ in range(3):
        poll(inbox_page, advance)
    assert inbox.not_modified_count > 0
    assert len(inbox.calls(STREAM)) > 1
    inbox.items.insert(0, item(1000))
    poll(inbox_page, advance)
    expect(inbox_page.rows).to_have_count(6)
    inbox.stream_status = 200
    for _ in range(60):
        advance(2)
    inbox_page.until(lambda: bool(inbox.streams))
    sync(inbox_page)
    start = len(inbox.requests)
    advance(300)
    sync(inbox_page)
    assert calls_since(inbox, start) == []


def test_stream_respects_retry_after(inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance) -> None:
    inbox.stream_refusal, inbox.retry_after = "streams_full", 120
    open_without_stream(inbox_page, status=503)
    poll(inbox_page, advance)
    inbox_page.turn("hidden")
    inbox_page.turn("visible")
    poll(inbox_page, advance)
    assert len(inbox.calls(STREAM)) == 1
    for _ in range(3):
        poll(inbox_page, advance)
    inbox_page.until(lambda: len(inbox.calls(STREAM)) == 2)


@pytest.mark.parametrize("cut", [False, True], ids=["refused", "cut at once"])
def test_failing_stream_backs_off(inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance, cut: bool) -> None:
    inbox.stream_cut = cut
    open_without_stream(inbox_page, status=200 if cut else 503)
    start = now(inbox_page)
    while len(inbox.calls(STREAM)) < 7:
        advance(0.5)
    assert now(inbox_page) - start >= 0.5 + 1 + 2 + 4 + 8 + 16  # each wait is at least half of the back-off
    poll(inbox_page, advance)


def test_browser_without_stream_support_polls(inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance) -> None:
    inbox_page.open(before=f"delete window.TextDecoderStream; {LONG_TIMERS}")
    expect(inbox_page.rows).to_have_count(5)
    poll(inbox_page, advance)
    inbox.items.insert(0, item(1000))
    poll(inbox_page, advance)
    expect(inbox_page.rows).to_have_count(6)
    assert inbox.calls(STREAM) == []


def test_failed_poll_respects_retry_after(inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance) -> None:
    open_without_stream(inbox_page)
    inbox.status, inbox.retry_after = 503, 200
    poll(inbox_page, advance)
    expect(inbox_page.page.get_by_text("Notifications didn’t load").first).to_be_visible()
    polls = len(inbox.calls(PAGE))
    advance(150)  # the clock goes on while the test runs, so this stays far below 200
    assert len(inbox.calls(PAGE)) == polls
    inbox.status = 200
    advance(110)  # with jitter the wait is up to 250 s
    advance(1)  # until the page has been drawn
    expect(inbox_page.page.get_by_text("Notifications didn’t load")).to_be_hidden()


def test_partial_page_is_reloaded_until_complete(inbox_page: FakeInboxPage, inbox: Inbox, advance: Advance) -> None:
    inbox.partial = True
    start = open_with_stream(inbox_page, advance)
    for _ in range(3):
        poll(inbox_page, advance)
    inbox.partial = False
    poll(inbox_page, advance)
    expect(inbox_page.page.get_by_text("Some notifications may be missing.")).to_be_hidden()
    assert calls_since(inbox, start) == 4 * [PAGE]
    advance(120)
    sync(inbox_page)
    assert calls_since(inbox, start) == 4 * [PAGE]
