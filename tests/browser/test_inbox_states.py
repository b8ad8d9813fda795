"""`<notifier-inbox>` in every state: empty, failed, partial, offline, expired, phone, accessibility."""

import pytest
from playwright.sync_api import BrowserContext, Route, expect

from benchmarks.demo_page import INBOX_WIDTHS, SCHEMES
from tests.support.browser.accessibility import violations
from tests.support.browser.fake_inbox import Inbox, item, items
from tests.support.browser.inbox_page import FakeInboxPage
from tests.support.browser.page_states import inbox_states


def test_empty_inbox_shows_message(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = []
    opened.open()
    expect(opened.page.get_by_text("No notifications yet")).to_be_visible()
    inbox.arrive(item(1000))
    expect(opened.rows).to_have_count(1)


def test_page_without_visible_rows_loads_the_next(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items, inbox.first_page_is_empty = items(60), True
    opened.open()
    expect(opened.rows).to_have_count(50)
    count = len(inbox.calls("GET /v1/inbox"))
    inbox.badge = {"count": 1, "more": False}  # otherwise the page would be the same
    opened.page.evaluate("window.dispatchEvent(new Event('online'))")
    opened.until(lambda: len(inbox.calls("GET /v1/inbox")) > count)
    opened.page.wait_for_timeout(300)  # longer than the page needs to be shown
    expect(opened.rows).to_have_count(50)
    expect(opened.pill).to_be_hidden()


def test_failure_after_empty_page_offers_retry(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items, inbox.first_page_is_empty, inbox.older_status = items(60), True, 503
    opened.open()
    retry_button = opened.page.get_by_role("button", name="Older notifications didn’t load. Try again")
    expect(retry_button).to_be_visible()
    inbox.older_status = 200
    retry_button.click()
    expect(opened.rows).to_have_count(50)


def test_older_rows_load_after_a_partial_page(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items, inbox.partial = items(60), True
    opened.open()
    expect(opened.page.get_by_text("Some notifications may be missing.")).to_be_visible()
    inbox.partial = False
    expect(opened.page.get_by_text("Some notifications may be missing.")).to_be_hidden()
    opened.inside("root.querySelector('.older').click()")
    expect(opened.rows).to_have_count(60)


def test_older_rows_load_after_an_empty_page(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = []
    opened.open()
    opened.until(lambda: bool(inbox.streams))
    inbox.items = items(60)  # while no event was received
    opened.page.evaluate("window.dispatchEvent(new Event('online'))")
    expect(opened.rows).to_have_count(20)
    opened.inside("root.querySelector('.older').click()")
    expect(opened.rows).to_have_count(60)


def test_late_older_rows_leave_no_gap_after_list_restarts(opened: FakeInboxPage, inbox: Inbox) -> None:
    all_items, held_requests = items(100), list[Route]()
    inbox.items = all_items[40:]
    # Routed from the beginning: if frames are late, the end of the list is in view until the first page is drawn, and
    # the page requests older rows by itself.
    opened.page.route(
        "**/v1/inbox?cursor=*", lambda route: route.fallback() if held_requests else held_requests.append(route)
    )
    opened.live()
    opened.inside("root.querySelector('.older').click()")
    opened.until(lambda: bool(held_requests))
    late_page, inbox.items = (
        inbox.page(inbox.items[19]["burst"], 50),
        all_items,
    )  # more than a page has arrived, without a stream event
    opened.page.evaluate("window.dispatchEvent(new Event('online'))")
    expect(opened.rows).to_have_count(20)
    opened.until(lambda: opened.inside("root.querySelector('time').dateTime") == all_items[0]["opened_at"])
    held_requests[0].fulfill(json=late_page)
    expect(opened.rows).to_have_count(70)


def test_failure_offers_retry(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.status = 503
    opened.open()
    expect(opened.page.get_by_text("Notifications didn’t load").first).to_be_visible()
    inbox.status = 200
    opened.page.get_by_role("button", name="Try again").click()
    expect(opened.rows).to_have_count(5)


def test_offline_page_keeps_its_rows(opened: FakeInboxPage, context: BrowserContext, inbox: Inbox) -> None:
    opened.live()
    context.set_offline(True)
    expect(opened.page.get_by_text("You’re offline.")).to_be_visible()
    expect(opened.rows).to_have_count(5)
    inbox.items.insert(0, item(1000))
    context.set_offline(False)
    expect(opened.page.get_by_text("You’re offline.")).to_be_hidden()
    expect(opened.rows).to_have_count(6)


def test_partial_page_shows_warning(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.partial, inbox.poll_interval = True, 600  # so that the page is not reloaded automatically on a slow machine
    opened.open()
    expect(opened.page.get_by_text("Some notifications may be missing.")).to_be_visible()
    inbox.partial = False
    opened.page.get_by_role("button", name="Try again").click()
    expect(opened.page.get_by_text("Some notifications may be missing.")).to_be_hidden()


def test_expired_token_is_renewed_once(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.open(before="document.querySelector('notifier-inbox').getToken = async () => 'good'", token="old")
    expect(opened.rows).to_have_count(5)


def test_session_ends_without_a_new_token(opened: FakeInboxPage) -> None:
    opened.open(token="old")
    expect(opened.page.get_by_text("Your session has ended").first).to_be_visible()


def test_rows_stay_when_the_session_ends(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live()
    inbox.token = "other"
    inbox.send("reset")
    expect(opened.page.get_by_text("Your session has ended")).to_be_visible()
    expect(opened.rows).to_have_count(5)


def test_new_token_clears_the_rows(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live()
    inbox.token, inbox.items = "other", [item(7, text="for somebody else")]
    opened.page.evaluate("document.querySelector('notifier-inbox').token = 'other'")
    expect(opened.rows).to_have_count(1)
    expect(opened.burst(0)).to_have_text("for somebody else")


def test_token_is_in_no_url(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live()
    assert [call for call, _ in inbox.requests if inbox.token in call] == []
    assert inbox.calls("GET /v1/inbox/stream")[0]["Authorization"] == "Bearer good"


@pytest.mark.parametrize(("width", "side"), [(320, "ltr"), (360, "rtl")])
def test_rows_fit_the_width_of_a_phone(opened: FakeInboxPage, inbox: Inbox, width: int, side: str) -> None:
    inbox.items[0].update(
        names=["x" * 500, "y" * 500], more=True, text="x" * 500 + " and others, 12890 mentions of @nova"
    )
    opened.page.set_viewport_size({"width": width, "height": 600})
    opened.open(before=f"document.documentElement.dir = '{side}'")
    expect(opened.rows).to_have_count(5)
    assert opened.inside("root.querySelector('.scroller').scrollWidth") == width
    dot, avatar = (opened.rows.first.locator(part).bounding_box() for part in (".dot", ".avatars"))
    assert dot
    assert avatar
    assert (dot["x"] < avatar["x"]) == (side == "ltr")


@pytest.mark.parametrize(
    ("scheme", "width"), [*zip(SCHEMES, INBOX_WIDTHS, strict=True)]
)  # the benchmark tries all four combinations
def test_axe_finds_no_violation_in_any_state(opened: FakeInboxPage, scheme: str, width: int) -> None:
    opened.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    opened.page.set_viewport_size({"width": width, "height": 700})
    violations_by_state = {state: violations(opened.page) for state in inbox_states(opened)}
    assert len(violations_by_state) == 11
    assert {state: rules for state, rules in violations_by_state.items() if rules} == {}


def test_reduced_motion_disables_animations(opened: FakeInboxPage, inbox: Inbox) -> None:
    moving = "root.getAnimations().length"
    inbox.page_gate.clear()
    opened.page.emulate_media(reduced_motion="reduce")
    opened.open()
    expect(opened.page.locator("notifier-inbox .skeleton")).to_be_visible()
    assert opened.inside(moving) == 0
    opened.page.emulate_media(reduced_motion="no-preference")
    opened.until(lambda: opened.inside(moving) > 0)
    opened.page.emulate_media(reduced_motion="reduce")
    inbox.page_gate.set()
    expect(opened.rows).to_have_count(5)
    opened.until(lambda: bool(inbox.streams))
    inbox.arrive(item(1000, unread=True))
    expect(opened.rows).to_have_count(6)
    assert opened.inside(moving) == 0


def test_unreadable_preferences_leave_account_unchanged(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live().rows.nth(0).hover()
    opened.rows.nth(0).locator(".more").click()
    inbox.status = 503
    opened.page.get_by_role("menuitem", name="Only in my daily digest: @nova").click()
    expect(opened.page.locator("notifier-inbox .toast")).to_contain_text("may not have been saved")
    inbox.status = 200
    opened.page.get_by_role("button", name="Undo").click()
    expect(opened.page.locator("notifier-inbox .toast")).to_contain_text("appear here again")
    assert inbox.calls("PATCH /v1/preferences/mention%3Anova") == []
