"""Marks on several devices: the page never shows an older state after a newer one, and ends as the server has it."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.browser.fake_inbox import Inbox, items
from tests.support.browser.page import Opened

PACE = "import('/static/notifier-inbox/pace.js').then(({ PACE }) => Object.assign(PACE, %s))"
NOT_LOOKED_AT = PACE % "{ looked: 36_000_000 }"
LOG = """() => {
  const root = document.querySelector('notifier-inbox').shadowRoot;
  const row = root.querySelectorAll('.row')[1];
  const badge = root.querySelector('.badge');
  const state = () => [row.isConnected && row.classList.contains('unread'), badge.firstChild?.textContent];
  window.states = [state()];
  const log = () => JSON.stringify(state()) === JSON.stringify(window.states.at(-1)) || window.states.push(state());
  new MutationObserver(log).observe(root, { subtree: true, childList: true, characterData: true, attributes: true });
}"""
"""Logs each state that the second row and the badge are in."""
MARKS, PAGE = "PUT /v1/inbox/marks", "GET /v1/inbox"

pytestmark = pytest.mark.timeout(120)


def log(opened: Opened) -> None:
    opened.page.evaluate(LOG)


def unread_states(opened: Opened) -> list[bool]:
    states: list[Any] = opened.page.evaluate("window.states")
    unread = [state[0] for state in states]
    return [state for place, state in enumerate(unread) if place == 0 or state != unread[place - 1]]


def badges(opened: Opened) -> list[str]:
    states: list[Any] = opened.page.evaluate("window.states")
    counts = [state[1] for state in states]
    return [count for place, count in enumerate(counts) if place == 0 or count != counts[place - 1]]


def heard(opened: Opened) -> None:
    """Returns when the page has taken in everything that the stream said before."""
    text = f"heard {opened.inbox.issued}"
    opened.inbox.say("group", opened.inbox.items[0] | {"text": text})
    expect(opened.rows.first.locator(".text")).to_have_text(text)


def mark(opened: Opened, key: str) -> None:
    """Marks the second row by a key."""
    asked = len(opened.inbox.calls(MARKS))
    opened.burst(1).focus()
    opened.page.keyboard.press(key)
    opened.until(lambda: len(opened.inbox.calls(MARKS)) > asked)


def page_on_its_way(opened: Opened) -> None:
    """The page as it is now is asked for, and the answer is held."""
    asked = len(opened.inbox.calls(PAGE))
    opened.inbox.stale = True
    opened.inbox.gate.clear()
    opened.page.evaluate("window.dispatchEvent(new Event('online'))")
    opened.until(lambda: len(opened.inbox.calls(PAGE)) > asked)


def page_arrives(opened: Opened) -> None:
    """Releases the held answer, and returns when it was taken in and drawn: only then the next page is asked for."""
    asked = len(opened.inbox.calls(PAGE))
    opened.inbox.gate.set()
    opened.inbox.gate.clear()
    opened.page.evaluate("window.dispatchEvent(new Event('online'))")
    opened.until(lambda: len(opened.inbox.calls(PAGE)) > asked)
    opened.page.evaluate("new Promise((resolve) => setTimeout(resolve, 100))")  # behind the timer that draws
    opened.inbox.gate.set()


def test_own_mark_is_not_undone_by_an_older_event(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    older = dict(inbox.items[1])
    log(opened)
    inbox.mark_gate.clear()
    mark(opened, "u")
    inbox.say("marked", older)
    inbox.say("count", {"count": 0, "more": False})
    heard(opened)
    expect(opened.badge).to_have_text("1")
    inbox.mark_gate.set()
    opened.until(lambda: inbox.marked == ["unread"])
    heard(opened)
    opened.page.wait_for_timeout(1_200)  # longer than events are kept back
    assert unread_states(opened) == [False, True]
    assert badges(opened)[-1] == "1"
    assert len(badges(opened)) == 2


def test_own_hide_is_not_undone_by_an_older_event(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    older = dict(inbox.items[1])
    inbox.mark_gate.clear()
    mark(opened, "Delete")
    inbox.say("marked", older)
    heard(opened)
    assert opened.rows.count() == 4
    inbox.mark_gate.set()
    opened.until(lambda: inbox.marked == ["hidden"])
    heard(opened)
    opened.page.wait_for_timeout(1_200)  # longer than events are kept back
    assert opened.rows.count() == 4


def test_own_mark_is_not_undone_by_an_older_page(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    log(opened)
    page_on_its_way(opened)
    mark(opened, "u")
    page_arrives(opened)
    heard(opened)
    assert unread_states(opened) == [False, True]


def test_own_mark_is_not_undone_by_an_older_page_where_there_is_no_stream(opened: Opened, inbox: Inbox) -> None:
    inbox.stream_status = 404
    opened.open()
    expect(opened.rows).to_have_count(5)
    log(opened)
    inbox.items[4]["count"] = 2  # or the page would be a 304
    page_on_its_way(opened)
    mark(opened, "u")
    page_arrives(opened)
    opened.until(lambda: inbox.marked == ["unread"])
    polls = len(inbox.calls(PAGE))
    opened.until(lambda: len(inbox.calls(PAGE)) > polls + 1)
    assert unread_states(opened) == [False, True]


def test_page_asked_for_before_a_mark_was_answered_does_not_undo_it(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    log(opened)
    inbox.mark_gate.clear()
    mark(opened, "u")
    page_on_its_way(opened)
    page_arrives(opened)
    inbox.mark_gate.set()
    opened.until(lambda: inbox.marked == ["unread"])
    heard(opened)
    assert unread_states(opened) == [False, True]


def test_undone_hide_is_not_hidden_again_by_an_older_page(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    mark(opened, "Delete")
    opened.until(lambda: inbox.marked == ["hidden"])
    page_on_its_way(opened)
    opened.page.keyboard.press("z")
    expect(opened.rows).to_have_count(5)
    opened.until(lambda: len(inbox.marked) == 2)
    counting = "new MutationObserver(() => window.counts.add(root.querySelectorAll('.row').length))"
    opened.page.evaluate("window.counts = new Set()")
    opened.inside(f"{counting}.observe(root, {{ subtree: true, childList: true }})")
    page_arrives(opened)
    heard(opened)
    assert set(opened.page.evaluate("[...window.counts]")) <= {5}


def test_refused_mark_is_taken_back_on_a_page_on_its_way_too(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    page_on_its_way(opened)
    inbox.marks_status = 503
    mark(opened, "u")
    expect(opened.rows.nth(1)).not_to_have_class(re.compile("unread"))
    page_arrives(opened)
    heard(opened)
    expect(opened.rows.nth(1)).not_to_have_class(re.compile("unread"))


def test_seen_rows_do_not_become_unread_by_an_older_page(opened: Opened, inbox: Inbox) -> None:
    inbox.items[1]["unread"] = True
    opened.open(before=NOT_LOOKED_AT)
    opened.until(lambda: bool(inbox.lines))
    expect(opened.rows.nth(1)).to_have_class(re.compile("unread"))
    log(opened)
    page_on_its_way(opened)
    opened.page.evaluate(PACE % "{ looked: 10 }")
    opened.turn("visible")
    opened.until(lambda: inbox.calls("PUT /v1/inbox/seen"))
    expect(opened.badge).to_be_hidden()
    page_arrives(opened)
    heard(opened)
    assert unread_states(opened) == [True, False]
    expect(opened.badge).to_be_hidden()


def test_growth_does_not_make_a_read_row_unread(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    log(opened)
    inbox.say("group", inbox.items[1] | {"count": 2, "text": "grown", "unread": True})
    inbox.say("row", inbox.items[1] | {"count": 3, "text": "grown again", "unread": True})
    expect(opened.rows.nth(1).locator(".text")).to_have_text("grown again")
    assert unread_states(opened) == [False]


def test_older_rows_have_what_the_stream_said_meanwhile(opened: Opened, inbox: Inbox) -> None:
    inbox.items = items(45)
    inbox.gate.set()
    opened.live()
    inbox.stale = True
    inbox.gate.clear()
    opened.scroll(100_000)
    opened.until(lambda: any("cursor=" in call for call, _ in inbox.asked))
    inbox.items = [*inbox.items[:30], inbox.items[30] | {"unread": True}, *inbox.items[31:]]
    inbox.say("marked", inbox.items[30])
    heard(opened)
    inbox.gate.set()
    expect(opened.rows).to_have_count(45)
    expect(opened.rows.nth(30)).to_have_class(re.compile("unread"))


def test_marks_of_two_devices_at_once_end_as_the_server_has_them(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    inbox.mark_gate.clear()
    mark(opened, "u")
    inbox.mark_gate.set()
    opened.until(lambda: inbox.marked == ["unread"])
    inbox.mark(["b998"], "read")  # on another device, before the page has taken in its own
    expect(opened.rows.nth(1)).not_to_have_class(re.compile("unread"))
    expect(opened.badge).to_be_hidden()
