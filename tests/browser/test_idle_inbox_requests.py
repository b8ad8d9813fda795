"""An idle inbox page: no request with a stream, and 304 responses without one."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page_clock import Clock, page_clock
from tests.support.browser.fake_inbox import CLOSE, Inbox, item
from tests.support.browser.inbox_page import FakeInboxPage

POLL_S = 30
LONGEST_POLL_S = 38
"""The interval plus a quarter of jitter."""
SET_TIMING = "import('/static/notifier-inbox/delays-and-limits.js').then(({ TIMING }) => Object.assign(TIMING, %s))"
SLOW = SET_TIMING % "{ silence: 36_000_000, relativeTimes: 36_000_000 }"
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
def clock(page: Page, own_context: None, inbox: Inbox) -> Clock:
    """Return a function that advances the page's clock by seconds; the page handles every response before and after."""
    inbox.poll_interval = POLL_S
    return page_clock(page)


def streaming(opened: FakeInboxPage, clock: Clock) -> int:
    """Open the page, wait for its stream, and return the number of requests so far."""
    opened.open(before=SLOW)
    opened.until(lambda: bool(opened.inbox.streams))
    expect(opened.rows).to_have_count(len(opened.inbox.items))
    clock(5)
    return len(opened.inbox.requests)


def polling(opened: FakeInboxPage, *, status: int = 404) -> None:
    """Open the page without a stream."""
    opened.inbox.stream_status = status
    opened.open(before=SLOW)
    expect(opened.rows).to_have_count(len(opened.inbox.items))
    opened.until(lambda: bool(opened.inbox.calls(STREAM)))


def poll(opened: FakeInboxPage, clock: Clock) -> None:
    """Wait for one poll and its response."""
    before = len(opened.inbox.calls(PAGE))
    clock(LONGEST_POLL_S)
    opened.until(lambda: len(opened.inbox.calls(PAGE)) > before)
    clock(0)


def calls_since(inbox: Inbox, start: int) -> list[str]:
    return [call.partition("?")[0] for call, _ in inbox.requests[start:]]


def sync(opened: FakeInboxPage) -> None:
    """Return when the page has handled every earlier stream event."""
    text = f"sync {opened.inbox.token_count}"
    opened.inbox.items[-1] |= {"text": text}  # a page that is loaded meanwhile has it, too
    opened.inbox.send("group", opened.inbox.items[-1])
    expect(opened.rows.last.locator(".text")).to_have_text(text)


def wait_until_closed(opened: FakeInboxPage) -> None:
    """Return when the page has closed its stream."""

    def is_closed() -> bool:
        opened.inbox.raw(": anybody?\n\n")
        return not opened.inbox.streams

    opened.until(is_closed)


def now(opened: FakeInboxPage) -> Any:
    return opened.page.evaluate("Date.now() / 1_000")


def test_open_stream_sends_no_request_while_nothing_happens(opened: FakeInboxPage, inbox: Inbox, clock: Clock) -> None:
    start = streaming(opened, clock)
    clock(600)
    sync(opened)
    assert calls_since(inbox, start) == []


def test_polls_are_304_and_change_nothing_on_the_page(opened: FakeInboxPage, inbox: Inbox, clock: Clock) -> None:
    polling(opened)
    poll(opened, clock)
    opened.page.evaluate(WATCH)
    for _ in range(4):
        poll(opened, clock)
    opened.until(lambda: inbox.not_modified_count == len(inbox.calls(PAGE)) - 1)
    assert opened.page.evaluate("window.mutations") == []


def test_polls_respect_the_interval_of_the_server(opened: FakeInboxPage, inbox: Inbox, clock: Clock) -> None:
    polling(opened)
    start, polls = now(opened), len(inbox.calls(PAGE))
    for _ in range(6):
        poll(opened, clock)
    assert len(inbox.calls(PAGE)) - polls <= (now(opened) - start) / POLL_S
    assert len(inbox.calls(STREAM)) == 1  # there is none, and it is requested again after ten minutes


def test_hidden_tab_closes_its_stream_and_sends_nothing(opened: FakeInboxPage, inbox: Inbox, clock: Clock) -> None:
    start = streaming(opened, clock)
    opened.page.evaluate(SET_TIMING % "{ debounce: 60_000 }")  # the stream has that long before the page is requested
    opened.turn("hidden")
    clock(61)
    wait_until_closed(opened)
    clock(3_600)
    assert calls_since(inbox, start) == []
    inbox.arrive(item(1000))
    opened.turn("visible")
    expect(opened.rows).to_have_count(6)
    sync(opened)
    assert calls_since(inbox, start) == [STREAM]
    assert "Last-Event-ID" in inbox.calls(STREAM)[1]


def test_hidden_tab_does_not_poll_and_loads_once_when_visible(
    opened: FakeInboxPage, inbox: Inbox, clock: Clock
) -> None:
    polling(opened)
    poll(opened, clock)
    opened.turn("hidden")
    start = len(inbox.requests)
    clock(300)
    assert calls_since(inbox, start) == []
    opened.turn("visible")
    opened.until(lambda: calls_since(inbox, start) == [PAGE])
    clock(POLL_S - 10)
    assert calls_since(inbox, start) == [PAGE]
    poll(opened, clock)


def test_tab_that_is_shown_repeatedly_loads_once(opened: FakeInboxPage, inbox: Inbox, clock: Clock) -> None:
    polling(opened)
    poll(opened, clock)
    start = len(inbox.requests)
    opened.turn(*10 * ("hidden", "visible"))
    clock(10)
    opened.until(lambda: calls_since(inbox, start) == [PAGE])


def test_visible_tab_with_open_stream_sends_no_request(opened: FakeInboxPage, inbox: Inbox, clock: Clock) -> None:
    start = streaming(opened, clock)
    opened.turn("hidden")
    clock(30)
    opened.turn("visible")
    clock(300)
    sync(opened)
    assert calls_since(inbox, start) == []


def test_reset_in_hidden_tab_waits_until_it_is_visible(opened: FakeInboxPage, inbox: Inbox, clock: Clock) -> None:
    start = streaming(opened, clock)
    opened.turn("hidden")
    inbox.send("reset")
    sync(opened)
    clock(30)
    assert calls_since(inbox, start) == []
    opened.turn("visible")
    opened.until(lambda: calls_since(inbox, start) == [PAGE])


def test_reset_with_unchanged_page_is_304_and_changes_nothing(
    opened: FakeInboxPage, inbox: Inbox, clock: Clock
) -> None:
    start = streaming(opened, clock)
    opened.page.evaluate(WATCH)
    inbox.send("reset")
    reset = f"as-of-{inbox.token_count}"
    opened.until(lambda: calls_since(inbox, start) == [PAGE])
    opened.until(lambda: inbox.not_modified_count == 1)
    clock(5)
    assert opened.page.evaluate("window.mutations") == []
    inbox.raw(CLOSE)
    clock(5)
    opened.until(lambda: len(inbox.calls(STREAM)) == 2)
    assert inbox.calls(STREAM)[1]["Last-Event-ID"] == reset  # the page has made up for the reset


def test_resets_close_together_are_one_load(opened: FakeInboxPage, inbox: Inbox, clock: Clock) -> None:
    start = streaming(opened, clock)
    for _ in range(50):
        inbox.send("reset")
    opened.until(lambda: PAGE in calls_since(inbox, start))
    clock(60)
    sync(opened)
    assert calls_since(inbox, start) == [PAGE]


def test_continuous_resets_do_not_delay_the_load_forever(opened: FakeInboxPage, inbox: Inbox, clock: Clock) -> None:
    start = streaming(opened, clock)
    for _ in range(30):
        inbox.send("reset")
        sync(opened)
        clock(0.5)
    assert 1 <= calls_since(inbox, start).count(PAGE) <= 5


def test_page_polls_while_streams_are_full(opened: FakeInboxPage, inbox: Inbox, clock: Clock) -> None:
    inbox.stream_refusal, inbox.retry_after = "streams_full", 1
    polling(opened, status=503)
    for _ in range(3):
        poll(opened, clock)
    assert inbox.not_modified_count > 0
    assert len(inbox.calls(STREAM)) > 1
    inbox.items.insert(0, item(1000))
    poll(opened, clock)
    expect(opened.rows).to_have_count(6)
    inbox.stream_status = 200
    for _ in range(60):
        clock(2)
    opened.until(lambda: bool(inbox.streams))
    sync(opened)
    start = len(inbox.requests)
    clock(300)
    sync(opened)
    assert calls_since(inbox, start) == []


def test_stream_respects_retry_after(opened: FakeInboxPage, inbox: Inbox, clock: Clock) -> None:
    inbox.stream_refusal, inbox.retry_after = "streams_full", 120
    polling(opened, status=503)
    poll(opened, clock)
    opened.turn("hidden")
    opened.turn("visible")
    poll(opened, clock)
    assert len(inbox.calls(STREAM)) == 1
    for _ in range(3):
        poll(opened, clock)
    opened.until(lambda: len(inbox.calls(STREAM)) == 2)


@pytest.mark.parametrize("cut", [False, True], ids=["refused", "cut at once"])
def test_failing_stream_backs_off(opened: FakeInboxPage, inbox: Inbox, clock: Clock, cut: bool) -> None:
    inbox.stream_cut = cut
    polling(opened, status=200 if cut else 503)
    start = now(opened)
    for _ in range(1_000):
        if len(inbox.calls(STREAM)) > 6:
            break
        clock(0.5)
    assert now(opened) - start >= 0.5 + 1 + 2 + 4 + 8 + 16  # each wait is at least half of the back-off
    poll(opened, clock)


def test_browser_without_stream_support_polls(opened: FakeInboxPage, inbox: Inbox, clock: Clock) -> None:
    opened.open(before=f"delete window.TextDecoderStream; {SLOW}")
    expect(opened.rows).to_have_count(5)
    poll(opened, clock)
    inbox.items.insert(0, item(1000))
    poll(opened, clock)
    expect(opened.rows).to_have_count(6)
    assert inbox.calls(STREAM) == []


def test_failed_poll_respects_retry_after(opened: FakeInboxPage, inbox: Inbox, clock: Clock) -> None:
    polling(opened)
    inbox.status, inbox.retry_after = 503, 200
    poll(opened, clock)
    expect(opened.page.get_by_text("Notifications didn’t load").first).to_be_visible()
    polls = len(inbox.calls(PAGE))
    clock(190)
    assert len(inbox.calls(PAGE)) == polls
    inbox.status = 200
    clock(70)
    clock(1)  # until the page has been drawn
    expect(opened.page.get_by_text("Notifications didn’t load")).to_be_hidden()


def test_partial_page_is_reloaded_until_complete(opened: FakeInboxPage, inbox: Inbox, clock: Clock) -> None:
    inbox.partial = True
    start = streaming(opened, clock)
    for _ in range(3):
        poll(opened, clock)
    inbox.partial = False
    poll(opened, clock)
    expect(opened.page.get_by_text("Some notifications may be missing.")).to_be_hidden()
    assert calls_since(inbox, start) == 4 * [PAGE]
    clock(120)
    sync(opened)
    assert calls_since(inbox, start) == 4 * [PAGE]
