"""Missed rows: gaps are filled, deep rows and the scroll position are kept."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.browser.fake_inbox import Inbox, Item, item, items
from tests.support.browser.inbox_page import FakeInboxPage

PAGE, GAP = "GET /v1/inbox", "GET /v1/subjects/mention%3Anova/bursts"
FIRST_IN_VIEW = """(() => {
  const scroller = root.querySelector('.scroller');
  const row = [...root.querySelectorAll('.row')].find((row) => row.offsetTop + row.offsetHeight > scroller.scrollTop);
  return [row.querySelector('time').dateTime, row.offsetTop - scroller.scrollTop];
})()"""

pytestmark = pytest.mark.timeout(120)


def load_deep(inbox_page: FakeInboxPage, inbox: Inbox, *, loaded: int = 60) -> None:
    """Open the page, and load several pages of rows."""
    inbox.items = items(loaded)
    inbox_page.live().scroll(100_000)
    expect(inbox_page.rows).to_have_count(loaded)


def newer_items(count: int, **changes: Any) -> list[Item]:
    return [item(number, **changes) for number in range(999 + count, 999, -1)]


def times(inbox_page: FakeInboxPage) -> list[str]:
    row_times: list[str] = inbox_page.inside("[...root.querySelectorAll('.row time')].map((time) => time.dateTime)")
    return row_times


def opened_at(inbox: Inbox) -> list[str]:
    return [str(item_["opened_at"]) for item_ in inbox.items]


def calls_since(inbox: Inbox, start: int) -> list[str]:
    return [call.partition("?")[0] for call, _ in inbox.requests[start:]]


def test_reset_after_more_than_a_page_keeps_deep_rows_and_position(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    load_deep(inbox_page, inbox)
    inbox_page.scroll(1_500)
    before = inbox_page.inside(FIRST_IN_VIEW)
    inbox.items = [*newer_items(45), *inbox.items]
    inbox.send("reset")
    expect(inbox_page.pill).to_have_text("45 new")
    expect(inbox_page.rows).to_have_count(60)
    assert inbox_page.inside(FIRST_IN_VIEW) == before
    inbox_page.pill.click()
    expect(inbox_page.rows).to_have_count(105)
    assert times(inbox_page) == opened_at(inbox)


def test_reset_fills_the_gap_above_deep_rows_of_an_idle_page(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    load_deep(inbox_page, inbox)
    inbox_page.scroll(0)
    inbox.items = [*newer_items(45), *inbox.items]
    inbox.send("reset")
    expect(inbox_page.rows).to_have_count(105)
    assert times(inbox_page) == opened_at(inbox)


def test_row_that_comes_before_the_reload_does_not_hide_a_gap(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    load_deep(inbox_page, inbox)
    inbox_page.scroll(0)
    inbox.items = [*newer_items(45), *inbox.items]
    inbox.send("reset")
    inbox.arrive(item(1_045))
    expect(inbox_page.rows).to_have_count(106)
    assert times(inbox_page) == opened_at(inbox)


def test_more_missed_rows_than_document_keeps_restart_the_list(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    load_deep(inbox_page, inbox)
    inbox_page.scroll(0)
    inbox.items = [*newer_items(400), *inbox.items]
    inbox.send("reset")
    inbox_page.until(lambda: times(inbox_page)[:1] == opened_at(inbox)[:1])
    shown = times(inbox_page)
    assert shown == opened_at(inbox)[: len(shown)]
    assert len(inbox.calls(PAGE)) <= 6


def test_reset_removes_missing_deep_rows_and_keeps_position(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    load_deep(inbox_page, inbox)
    inbox_page.scroll(1_500)
    before = inbox_page.inside(FIRST_IN_VIEW)
    del inbox.items[50], inbox.items[25], inbox.items[3]
    inbox.send("reset")
    expect(inbox_page.rows).to_have_count(57)
    assert times(inbox_page) == opened_at(inbox)
    after = inbox_page.inside(FIRST_IN_VIEW)
    assert after[0] == before[0]
    assert after[1] == pytest.approx(before[1], abs=1)


def test_position_is_kept_when_first_visible_row_is_removed(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    load_deep(inbox_page, inbox)
    inbox_page.scroll(1_500)
    index = times(inbox_page).index(inbox_page.inside(FIRST_IN_VIEW)[0])
    del inbox.items[index]
    inbox.send("reset")
    expect(inbox_page.rows).to_have_count(59)
    assert abs(times(inbox_page).index(inbox_page.inside(FIRST_IN_VIEW)[0]) - index) <= 1


def test_reset_renews_marks_of_deep_rows(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    load_deep(inbox_page, inbox)
    inbox.items[40]["unread"] = True
    inbox.send("reset")
    expect(inbox_page.page.locator("notifier-inbox .row.unread")).to_have_count(1)


def test_gap_that_failed_to_load_is_retried(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    load_deep(inbox_page, inbox)
    inbox_page.scroll(0)
    inbox.older_status = 503
    inbox.items = [*newer_items(45), *inbox.items]
    inbox.send("reset")
    expect(inbox_page.page.get_by_text("Notifications didn’t load")).to_be_visible()
    expect(inbox_page.rows).to_have_count(60)
    inbox.older_status = 200
    expect(inbox_page.rows).to_have_count(105)
    expect(inbox_page.page.get_by_text("Notifications didn’t load")).to_be_hidden()


def test_growth_of_unknown_burst_fetches_only_its_subject(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    start = len(inbox.requests)
    inbox.items = [*newer_items(2), *inbox.items]
    inbox.send("group", inbox.items[1] | {"count": 2})
    expect(inbox_page.rows).to_have_count(7)
    assert times(inbox_page) == opened_at(inbox)
    assert calls_since(inbox, start) == [GAP]
    assert f"from={inbox.items[1]['seq']}&" in inbox.requests[start][0]


def test_repeated_growth_is_one_fetch(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    inbox_page.page.evaluate("Math.random = () => 1")  # a gap is fetched after up to a second: here, after a whole one
    start = len(inbox.requests)
    inbox.items = [*newer_items(3), *inbox.items]
    for count in range(2, 20):
        for item_ in inbox.items[1:3]:
            inbox.send("group", item_ | {"count": count})
    expect(inbox_page.rows).to_have_count(8)
    assert calls_since(inbox, start) == [GAP]
    assert f"from={inbox.items[2]['seq']}&" in inbox.requests[start][0]


@pytest.mark.parametrize("status", [404, 503])
def test_page_is_reloaded_when_the_gap_route_fails(inbox_page: FakeInboxPage, inbox: Inbox, status: int) -> None:
    inbox.gap_status = status
    inbox_page.live()
    start = len(inbox.requests)
    inbox.items = [*newer_items(2), *inbox.items]
    inbox.send("group", inbox.items[1])
    expect(inbox_page.rows).to_have_count(7)
    assert calls_since(inbox, start) == [GAP, PAGE]


def test_growth_in_many_subjects_loads_the_page(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    inbox_page.page.evaluate("Math.random = () => 1")  # a gap is fetched after up to a second: here, after a whole one
    start = len(inbox.requests)
    inbox.items = [*(item_ | {"subject": f"mention:a{item_['burst']}"} for item_ in newer_items(6)), *inbox.items]
    for item_ in inbox.items[1:6]:
        inbox.send("group", item_)
    expect(inbox_page.rows).to_have_count(11)
    assert calls_since(inbox, start) == [PAGE]


def test_growth_below_loaded_rows_is_ignored(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = items(60)
    inbox_page.page.route("**/v1/inbox?cursor=*", lambda route: route.abort())
    inbox_page.live()
    start = len(inbox.requests)
    inbox.send("group", inbox.items[50] | {"count": 9})
    inbox.send("group", inbox.items[0] | {"text": "grown"})
    expect(inbox_page.rows.first.locator(".text")).to_have_text("grown")
    inbox_page.page.wait_for_timeout(1_500)  # a gap is fetched within a second
    expect(inbox_page.rows).to_have_count(20)
    assert calls_since(inbox, start) == []


def test_missed_rows_wait_behind_the_pill_while_the_user_reads(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live().burst(0).focus()
    inbox.items = [*newer_items(2), *inbox.items]
    inbox.send("group", inbox.items[1])
    expect(inbox_page.pill).to_have_text("2 new")
    expect(inbox_page.rows).to_have_count(5)
    inbox_page.pill.click()
    expect(inbox_page.rows).to_have_count(7)
    assert times(inbox_page) == opened_at(inbox)


def test_older_rows_continue_after_a_filled_gap(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = items(160)
    inbox_page.live().scroll(100_000)
    expect(inbox_page.rows).not_to_have_count(20)
    inbox_page.scroll(0)
    inbox.items = [*newer_items(30), *inbox.items]
    inbox.send("reset")
    expect(inbox_page.rows.first.locator("time")).to_have_attribute("datetime", str(inbox.items[0]["opened_at"]))

    def all_rows_load() -> bool:
        inbox_page.scroll(100_000)
        return inbox_page.rows.count() == 190

    inbox_page.until(all_rows_load)
    assert times(inbox_page) == opened_at(inbox)
