"""`<notifier-inbox>` in every state: empty, failed, partial, offline, expired, phone, accessibility."""

import pytest
from playwright.sync_api import BrowserContext, Route, expect

from benchmarks.demo_page import INBOX_WIDTHS, SCHEMES
from tests.support.browser.accessibility import violations
from tests.support.browser.fake_inbox import Inbox, item, items
from tests.support.browser.inbox_page import FakeInboxPage
from tests.support.browser.page_states import inbox_states


def test_empty_inbox_shows_message(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = []
    inbox_page.open()
    expect(inbox_page.page.get_by_text("No notifications yet")).to_be_visible()
    inbox.arrive(item(1000))
    expect(inbox_page.rows).to_have_count(1)


def test_page_without_visible_rows_loads_the_next(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items, inbox.first_page_rows = items(60), 0
    inbox_page.open()
    expect(inbox_page.rows).to_have_count(50)
    count = len(inbox.calls("GET /v1/inbox"))
    inbox.badge = {"count": 1, "more": False}  # otherwise the page would be the same
    inbox_page.page.evaluate("window.dispatchEvent(new Event('online'))")
    inbox_page.until(lambda: len(inbox.calls("GET /v1/inbox")) > count)
    inbox_page.page.wait_for_timeout(300)  # longer than the page needs to be shown
    expect(inbox_page.rows).to_have_count(50)
    expect(inbox_page.pill).to_be_hidden()


def test_short_page_is_filled_until_the_list_is_full(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items, inbox.first_page_rows = items(60), 2
    inbox_page.open()
    expect(inbox_page.rows).to_have_count(52)


def test_failure_after_empty_page_offers_retry(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items, inbox.first_page_rows, inbox.older_status = items(60), 0, 503
    inbox_page.open()
    retry_button = inbox_page.page.get_by_role("button", name="Older notifications didn’t load. Try again")
    expect(retry_button).to_be_visible()
    inbox.older_status = 200
    retry_button.click()
    expect(inbox_page.rows).to_have_count(50)


def test_older_rows_load_after_a_partial_page(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items, inbox.partial = items(60), True
    inbox_page.open()
    expect(inbox_page.page.get_by_text("Some notifications may be missing.")).to_be_visible()
    inbox.partial = False
    expect(inbox_page.page.get_by_text("Some notifications may be missing.")).to_be_hidden()
    inbox_page.inside("root.querySelector('.older').click()")
    expect(inbox_page.rows).to_have_count(60)


def test_older_rows_load_after_an_empty_page(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = []
    inbox_page.open()
    inbox_page.until(lambda: bool(inbox.streams))
    inbox.items = items(60)  # while no event was received
    inbox_page.page.evaluate("window.dispatchEvent(new Event('online'))")
    expect(inbox_page.rows).to_have_count(20)
    inbox_page.inside("root.querySelector('.older').click()")
    expect(inbox_page.rows).to_have_count(60)


def test_late_older_rows_leave_no_gap_after_list_restarts(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    all_items, held_requests = items(100), list[Route]()
    inbox.items = all_items[40:]
    # Routed from the beginning: if frames are late, the end of the list is in view until the first page is drawn, and
    # the page requests older rows by itself.
    inbox_page.page.route(
        "**/v1/inbox?cursor=*", lambda route: route.fallback() if held_requests else held_requests.append(route)
    )
    inbox_page.live()
    inbox_page.inside("root.querySelector('.older').click()")
    inbox_page.until(lambda: bool(held_requests))
    late_page = inbox.page(inbox.items[19]["burst"], 50)
    inbox.items = all_items  # more than a page has arrived, without a stream event
    inbox_page.page.evaluate("window.dispatchEvent(new Event('online'))")
    inbox_page.until(lambda: inbox_page.inside("root.querySelector('time').dateTime") == all_items[0]["opened_at"])
    held_requests[0].fulfill(json=late_page)
    expect(inbox_page.rows).to_have_count(70)


def test_failure_offers_retry(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.status, inbox.poll_interval = 503, 600  # so that the page is not reloaded before the click
    inbox_page.open()
    expect(inbox_page.page.get_by_text("Notifications didn’t load").first).to_be_visible()
    inbox.status = 200
    inbox_page.page.get_by_role("button", name="Try again").click()
    expect(inbox_page.rows).to_have_count(5)


def test_offline_page_keeps_its_rows(inbox_page: FakeInboxPage, context: BrowserContext, inbox: Inbox) -> None:
    inbox_page.live()
    context.set_offline(True)
    expect(inbox_page.page.get_by_text("You’re offline.")).to_be_visible()
    expect(inbox_page.rows).to_have_count(5)
    inbox.items.insert(0, item(1000))
    context.set_offline(False)
    expect(inbox_page.page.get_by_text("You’re offline.")).to_be_hidden()
    expect(inbox_page.rows).to_have_count(6)


def test_partial_page_shows_warning(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.partial, inbox.poll_interval = True, 600  # so that the page is not reloaded before the click
    inbox_page.open()
    expect(inbox_page.page.get_by_text("Some notifications may be missing.")).to_be_visible()
    inbox.partial = False
    inbox_page.page.get_by_role("button", name="Try again").click()
    expect(inbox_page.page.get_by_text("Some notifications may be missing.")).to_be_hidden()


def test_expired_token_is_renewed_once(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.open(before="document.querySelector('notifier-inbox').getToken = async () => 'good'", token="old")
    expect(inbox_page.rows).to_have_count(5)


def test_session_ends_without_a_new_token(inbox_page: FakeInboxPage) -> None:
    inbox_page.open(token="old")
    expect(inbox_page.page.get_by_text("Your session has ended").first).to_be_visible()


def test_rows_stay_when_the_session_ends(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    inbox.token = "other"
    inbox.send("reset")
    expect(inbox_page.page.get_by_text("Your session has ended")).to_be_visible()
    expect(inbox_page.rows).to_have_count(5)


def test_new_token_clears_the_rows(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    inbox.token, inbox.items = "other", [item(7, text="for somebody else")]
    inbox_page.page.evaluate("document.querySelector('notifier-inbox').token = 'other'")
    expect(inbox_page.rows).to_have_count(1)
    expect(inbox_page.burst(0)).to_have_text("for somebody else")


def test_token_is_in_no_url(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    assert [call for call, _ in inbox.requests if inbox.token in call] == []
    assert inbox.calls("GET /v1/inbox/stream")[0]["Authorization"] == "Bearer good"


@pytest.mark.parametrize(("width", "side"), [(320, "ltr"), (360, "rtl")])
def test_rows_fit_a_phone_in_both_writing_directions(
    inbox_page: FakeInboxPage, inbox: Inbox, width: int, side: str
) -> None:
    inbox.items[0].update(
        names=["x" * 500, "y" * 500], more=True, text="x" * 500 + " and others, 12890 mentions of @nova"
    )
    inbox_page.page.set_viewport_size({"width": width, "height": 600})
    inbox_page.open(before=f"document.documentElement.dir = '{side}'")
    expect(inbox_page.rows).to_have_count(5)
    assert inbox_page.inside("root.querySelector('.scroller').scrollWidth") == width
    dot, avatar = (inbox_page.rows.first.locator(part).bounding_box() for part in (".dot", ".avatars"))
    assert dot
    assert avatar
    assert (dot["x"] < avatar["x"]) == (side == "ltr")


@pytest.mark.prove
@pytest.mark.parametrize(
    ("scheme", "width"), [*zip(SCHEMES, INBOX_WIDTHS, strict=True)]
)  # the benchmark tries all four combinations
def test_axe_finds_no_violation_in_any_state(inbox_page: FakeInboxPage, scheme: str, width: int) -> None:
    inbox_page.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    inbox_page.page.set_viewport_size({"width": width, "height": 700})
    violations_by_state = {state: violations(inbox_page.page) for state in inbox_states(inbox_page)}
    assert len(violations_by_state) == 11
    assert {state: rules for state, rules in violations_by_state.items() if rules} == {}


def test_reduced_motion_disables_animations(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    moving = "root.getAnimations().length"
    inbox.page_gate.clear()
    inbox_page.page.emulate_media(reduced_motion="reduce")
    inbox_page.open()
    expect(inbox_page.page.locator("notifier-inbox .skeleton")).to_be_visible()
    assert inbox_page.inside(moving) == 0
    inbox_page.page.emulate_media(reduced_motion="no-preference")
    inbox_page.until(lambda: inbox_page.inside(moving) > 0)
    inbox_page.page.emulate_media(reduced_motion="reduce")
    inbox.page_gate.set()
    expect(inbox_page.rows).to_have_count(5)
    inbox_page.until(lambda: bool(inbox.streams))
    inbox.arrive(item(1000, unread=True))
    expect(inbox_page.rows).to_have_count(6)
    assert inbox_page.inside(moving) == 0


def test_unreadable_preferences_leave_account_unchanged(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live().rows.nth(0).hover()
    inbox_page.rows.nth(0).locator(".more").click()
    inbox.status = 503
    inbox_page.page.get_by_role("menuitem", name="Only in my daily digest: @nova").click()
    expect(inbox_page.page.locator("notifier-inbox .toast")).to_contain_text("may not have been saved")
    inbox.status = 200
    inbox_page.page.get_by_role("button", name="Undo").click()
    expect(inbox_page.page.locator("notifier-inbox .toast")).to_contain_text("appear here again")
    inbox_page.page.wait_for_timeout(300)  # longer than a request takes
    assert inbox.calls("PATCH /v1/preferences/mention%3Anova") == []
