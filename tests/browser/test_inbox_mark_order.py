"""Marks on several devices: never an older state after a newer one."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.browser.fake_inbox import Inbox, items
from tests.support.browser.inbox_page import FakeInboxPage

SET_TIMING = "import('/static/notifier-inbox/delays-and-limits.js').then(({ TIMING }) => Object.assign(TIMING, %s))"
NEVER_SEEN = SET_TIMING % "{ seen: 36_000_000 }"
LOG = """() => {
  const root = document.querySelector('notifier-inbox').shadowRoot;
  const row = root.querySelectorAll('.row')[1];
  const badge = root.querySelector('.badge');
  const state = () => [row.isConnected && row.classList.contains('unread'), badge.firstChild?.textContent];
  window.states = [state()];
  const log = () => JSON.stringify(state()) === JSON.stringify(window.states.at(-1)) || window.states.push(state());
  new MutationObserver(log).observe(root, { subtree: true, childList: true, characterData: true, attributes: true });
}"""
"""Logs each state of the second row and the badge."""
MARKS, PAGE = "PUT /v1/inbox/marks", "GET /v1/inbox"

pytestmark = pytest.mark.timeout(120)


def log(opened: FakeInboxPage) -> None:
    opened.page.evaluate(LOG)


def unread_states(opened: FakeInboxPage) -> list[bool]:
    states: list[Any] = opened.page.evaluate("window.states")
    unread = [state[0] for state in states]
    return [state for index, state in enumerate(unread) if index == 0 or state != unread[index - 1]]


def badges(opened: FakeInboxPage) -> list[str]:
    states: list[Any] = opened.page.evaluate("window.states")
    counts = [state[1] for state in states]
    return [count for index, count in enumerate(counts) if index == 0 or count != counts[index - 1]]


def sync(opened: FakeInboxPage) -> None:
    """Return when the page has handled every earlier stream event."""
    text = f"sync {opened.inbox.token_count}"
    opened.inbox.send("group", opened.inbox.items[0] | {"text": text})
    expect(opened.rows.first.locator(".text")).to_have_text(text)


def mark(opened: FakeInboxPage, key: str) -> None:
    """Mark the second row by a key."""
    count = len(opened.inbox.calls(MARKS))
    opened.burst(1).focus()
    opened.page.keyboard.press(key)
    opened.until(lambda: len(opened.inbox.calls(MARKS)) > count)


def hold_page_response(opened: FakeInboxPage) -> None:
    """Request the page as it is now, and hold the response."""
    count = len(opened.inbox.calls(PAGE))
    opened.inbox.stale = True
    opened.inbox.page_gate.clear()
    opened.page.evaluate("window.dispatchEvent(new Event('online'))")
    opened.until(lambda: len(opened.inbox.calls(PAGE)) > count)


def release_page_response(opened: FakeInboxPage) -> None:
    """Release the held response, and return when it is drawn: the next page is requested only after that."""
    count = len(opened.inbox.calls(PAGE))
    opened.inbox.page_gate.set()
    opened.inbox.page_gate.clear()
    opened.page.evaluate("window.dispatchEvent(new Event('online'))")
    opened.until(lambda: len(opened.inbox.calls(PAGE)) > count)
    opened.page.evaluate("new Promise((resolve) => setTimeout(resolve, 100))")  # after the timer that draws
    opened.inbox.page_gate.set()


def test_own_mark_is_not_undone_by_an_older_event(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live()
    older = dict(inbox.items[1])
    log(opened)
    inbox.mark_gate.clear()
    mark(opened, "u")
    inbox.send("marked", older)
    inbox.send("count", {"count": 0, "more": False})
    sync(opened)
    expect(opened.badge).to_have_text("1")
    inbox.mark_gate.set()
    opened.until(lambda: inbox.marked == ["unread"])
    sync(opened)
    opened.page.wait_for_timeout(1_200)  # longer than events are delayed
    assert unread_states(opened) == [False, True]
    assert badges(opened)[-1] == "1"
    assert len(badges(opened)) == 2


def test_own_hide_is_not_undone_by_an_older_event(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live()
    older = dict(inbox.items[1])
    inbox.mark_gate.clear()
    mark(opened, "Delete")
    inbox.send("marked", older)
    sync(opened)
    assert opened.rows.count() == 4
    inbox.mark_gate.set()
    opened.until(lambda: inbox.marked == ["hidden"])
    sync(opened)
    opened.page.wait_for_timeout(1_200)  # longer than events are delayed
    assert opened.rows.count() == 4


def test_own_mark_is_not_undone_by_an_older_page(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live()
    log(opened)
    hold_page_response(opened)
    mark(opened, "u")
    release_page_response(opened)
    sync(opened)
    assert unread_states(opened) == [False, True]


def test_own_mark_is_not_undone_by_older_page_without_stream(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.stream_status = 404
    opened.open()
    expect(opened.rows).to_have_count(5)
    log(opened)
    inbox.items[4]["count"] = 2  # otherwise the page would be a 304
    hold_page_response(opened)
    mark(opened, "u")
    release_page_response(opened)
    opened.until(lambda: inbox.marked == ["unread"])
    polls = len(inbox.calls(PAGE))
    opened.until(lambda: len(inbox.calls(PAGE)) > polls + 1)
    assert unread_states(opened) == [False, True]


def test_page_requested_during_a_mark_does_not_undo_it(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live()
    log(opened)
    inbox.mark_gate.clear()
    mark(opened, "u")
    hold_page_response(opened)
    release_page_response(opened)
    inbox.mark_gate.set()
    opened.until(lambda: inbox.marked == ["unread"])
    sync(opened)
    assert unread_states(opened) == [False, True]


def test_undone_hide_is_not_hidden_again_by_an_older_page(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live()
    mark(opened, "Delete")
    opened.until(lambda: inbox.marked == ["hidden"])
    hold_page_response(opened)
    opened.page.keyboard.press("z")
    expect(opened.rows).to_have_count(5)
    opened.until(lambda: len(inbox.marked) == 2)
    counting = "new MutationObserver(() => window.counts.add(root.querySelectorAll('.row').length))"
    opened.page.evaluate("window.counts = new Set()")
    opened.inside(f"{counting}.observe(root, {{ subtree: true, childList: true }})")
    release_page_response(opened)
    sync(opened)
    assert set(opened.page.evaluate("[...window.counts]")) <= {5}


def test_refused_mark_is_reverted_on_a_held_page(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live()
    hold_page_response(opened)
    inbox.marks_status = 503
    mark(opened, "u")
    expect(opened.rows.nth(1)).not_to_have_class(re.compile("unread"))
    release_page_response(opened)
    sync(opened)
    expect(opened.rows.nth(1)).not_to_have_class(re.compile("unread"))


def test_older_page_does_not_make_seen_rows_unread(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items[1]["unread"] = True
    opened.open(before=NEVER_SEEN)
    opened.until(lambda: bool(inbox.streams))
    expect(opened.rows.nth(1)).to_have_class(re.compile("unread"))
    log(opened)
    hold_page_response(opened)
    opened.page.evaluate(SET_TIMING % "{ seen: 10 }")
    opened.turn("visible")
    opened.until(lambda: inbox.calls("PUT /v1/inbox/seen"))
    expect(opened.badge).to_be_hidden()
    release_page_response(opened)
    sync(opened)
    assert unread_states(opened) == [True, False]
    expect(opened.badge).to_be_hidden()


def test_growth_does_not_make_a_read_row_unread(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live()
    log(opened)
    inbox.send("group", inbox.items[1] | {"count": 2, "text": "grown", "unread": True})
    inbox.send("row", inbox.items[1] | {"count": 3, "text": "grown again", "unread": True})
    expect(opened.rows.nth(1).locator(".text")).to_have_text("grown again")
    assert unread_states(opened) == [False]


def test_older_rows_include_recent_stream_events(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = items(45)
    inbox.page_gate.set()
    opened.live()
    inbox.stale = True
    inbox.page_gate.clear()
    opened.scroll(100_000)
    opened.until(lambda: any("cursor=" in call for call, _ in inbox.requests))
    inbox.items = [*inbox.items[:30], inbox.items[30] | {"unread": True}, *inbox.items[31:]]
    inbox.send("marked", inbox.items[30])
    sync(opened)
    inbox.page_gate.set()
    expect(opened.rows).to_have_count(45)
    expect(opened.rows.nth(30)).to_have_class(re.compile("unread"))


def test_concurrent_marks_of_two_devices_end_as_on_the_server(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live()
    inbox.mark_gate.clear()
    mark(opened, "u")
    inbox.mark_gate.set()
    opened.until(lambda: inbox.marked == ["unread"])
    inbox.mark(["b998"], "read")  # on another device, before the page has handled its own mark
    expect(opened.rows.nth(1)).not_to_have_class(re.compile("unread"))
    expect(opened.badge).to_be_hidden()
