"""`<notifier-inbox>` in every state: nothing, failure, pages to go on from, offline, expired, a phone, axe."""

import pytest
from playwright.sync_api import BrowserContext, Route, expect

from benchmarks.demo_page import INBOX_WIDTHS, SCHEMES
from tests.support.browser.accessibility import violations
from tests.support.browser.fake_inbox import Inbox, item, items
from tests.support.browser.page import Opened
from tests.support.browser.states import inbox_states


def test_nothing_here_says_so(opened: Opened, inbox: Inbox) -> None:
    inbox.items = []
    opened.open()
    expect(opened.page.get_by_text("Nothing here yet")).to_be_visible()
    inbox.arrive(item(1000))
    expect(opened.rows).to_have_count(1)


def test_a_first_page_on_which_nothing_may_be_seen_is_gone_on_from(opened: Opened, inbox: Inbox) -> None:
    inbox.items, inbox.passed = items(60), True
    opened.open()
    expect(opened.rows).to_have_count(50)
    asked = len(inbox.calls("GET /v1/inbox"))
    inbox.badge = {"count": 1, "more": False}  # or the page would be the same
    opened.page.evaluate("window.dispatchEvent(new Event('online'))")
    opened.until(lambda: len(inbox.calls("GET /v1/inbox")) > asked)
    opened.page.wait_for_timeout(300)  # longer than it takes to show the page
    expect(opened.rows).to_have_count(50)
    expect(opened.pill).to_be_hidden()


def test_where_going_on_from_an_empty_page_fails_there_is_another_try(opened: Opened, inbox: Inbox) -> None:
    inbox.items, inbox.passed, inbox.older_status = items(60), True, 503
    opened.open()
    older = opened.page.get_by_role("button", name="Older ones didn’t load. Try again")
    expect(older).to_be_visible()
    inbox.older_status = 200
    older.click()
    expect(opened.rows).to_have_count(50)


def test_what_is_older_is_found_though_the_first_page_was_partial(opened: Opened, inbox: Inbox) -> None:
    inbox.items, inbox.partial = items(60), True
    opened.open()
    expect(opened.page.get_by_text("Some notifications may be missing.")).to_be_visible()
    inbox.partial = False
    expect(opened.page.get_by_text("Some notifications may be missing.")).to_be_hidden()
    opened.inside("root.querySelector('.older').click()")
    expect(opened.rows).to_have_count(60)


def test_what_is_older_is_found_though_there_was_nothing_before(opened: Opened, inbox: Inbox) -> None:
    inbox.items = []
    opened.open()
    opened.until(lambda: bool(inbox.lines))
    inbox.items = items(60)  # while nothing was heard
    opened.page.evaluate("window.dispatchEvent(new Event('online'))")
    expect(opened.rows).to_have_count(20)
    opened.inside("root.querySelector('.older').click()")
    expect(opened.rows).to_have_count(60)


def test_older_rows_that_come_after_the_list_began_anew_leave_no_gap(opened: Opened, inbox: Inbox) -> None:
    whole, held = items(100), list[Route]()
    inbox.items = whole[40:]
    # From the beginning: where frames come late, the foot is in view until the first page is drawn, and asks by itself.
    opened.page.route("**/v1/inbox?cursor=*", lambda route: route.fallback() if held else held.append(route))
    opened.live()
    opened.inside("root.querySelector('.older').click()")
    opened.until(lambda: bool(held))
    late, inbox.items = (
        inbox.page(inbox.items[19]["burst"], 50),
        whole,
    )  # more than a page has come, and no stream told of it
    opened.page.evaluate("window.dispatchEvent(new Event('online'))")
    expect(opened.rows).to_have_count(20)
    opened.until(lambda: opened.inside("root.querySelector('time').dateTime") == whole[0]["opened_at"])
    held[0].fulfill(json=late)
    expect(opened.rows).to_have_count(70)


def test_a_failure_offers_another_try(opened: Opened, inbox: Inbox) -> None:
    inbox.status = 503
    opened.open()
    expect(opened.page.get_by_text("Notifications didn’t load").first).to_be_visible()
    inbox.status = 200
    opened.page.get_by_role("button", name="Try again").click()
    expect(opened.rows).to_have_count(5)


def test_offline_shows_what_it_has(opened: Opened, context: BrowserContext, inbox: Inbox) -> None:
    opened.live()
    context.set_offline(True)
    expect(opened.page.get_by_text("You’re offline.")).to_be_visible()
    expect(opened.rows).to_have_count(5)
    inbox.items.insert(0, item(1000))
    context.set_offline(False)
    expect(opened.page.get_by_text("You’re offline.")).to_be_hidden()
    expect(opened.rows).to_have_count(6)


def test_a_partial_page_says_that_something_may_be_missing(opened: Opened, inbox: Inbox) -> None:
    inbox.partial, inbox.poll_interval = True, 600  # by itself the page would be loaded again on a slow machine
    opened.open()
    expect(opened.page.get_by_text("Some notifications may be missing.")).to_be_visible()
    inbox.partial = False
    opened.page.get_by_role("button", name="Try again").click()
    expect(opened.page.get_by_text("Some notifications may be missing.")).to_be_hidden()


def test_a_token_that_ran_out_is_renewed_once(opened: Opened, inbox: Inbox) -> None:
    opened.open(before="document.querySelector('notifier-inbox').getToken = async () => 'good'", token="old")
    expect(opened.rows).to_have_count(5)


def test_without_another_token_the_session_has_ended(opened: Opened) -> None:
    opened.open(token="old")
    expect(opened.page.get_by_text("Your session has ended").first).to_be_visible()


def test_rows_stay_when_the_session_ends_under_them(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    inbox.token = "other"
    inbox.say("reset")
    expect(opened.page.get_by_text("Your session has ended")).to_be_visible()
    expect(opened.rows).to_have_count(5)


def test_another_token_drops_what_was_shown(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    inbox.token, inbox.items = "other", [item(7, text="for somebody else")]
    opened.page.evaluate("document.querySelector('notifier-inbox').token = 'other'")
    expect(opened.rows).to_have_count(1)
    expect(opened.burst(0)).to_have_text("for somebody else")


def test_no_token_stands_in_an_address(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    assert [call for call, _ in inbox.asked if inbox.token in call] == []
    assert inbox.calls("GET /v1/inbox/stream")[0]["Authorization"] == "Bearer good"


@pytest.mark.parametrize(("width", "side"), [(320, "ltr"), (360, "rtl")])
def test_nothing_sticks_out_of_a_phone(opened: Opened, inbox: Inbox, width: int, side: str) -> None:
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


@pytest.mark.parametrize(("scheme", "width"), [*zip(SCHEMES, INBOX_WIDTHS, strict=True)])  # the bench tries all four
def test_axe_finds_nothing_in_any_state(opened: Opened, scheme: str, width: int) -> None:
    opened.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    opened.page.set_viewport_size({"width": width, "height": 700})
    found = {state: violations(opened.page) for state in inbox_states(opened)}
    assert len(found) == 11
    assert {state: rules for state, rules in found.items() if rules} == {}


def test_nothing_moves_for_whoever_wants_that(opened: Opened, inbox: Inbox) -> None:
    moving = "root.getAnimations().length"
    inbox.gate.clear()
    opened.page.emulate_media(reduced_motion="reduce")
    opened.open()
    expect(opened.page.locator("notifier-inbox .skeleton")).to_be_visible()
    assert opened.inside(moving) == 0
    opened.page.emulate_media(reduced_motion="no-preference")
    opened.until(lambda: opened.inside(moving) > 0)
    opened.page.emulate_media(reduced_motion="reduce")
    inbox.gate.set()
    expect(opened.rows).to_have_count(5)
    opened.until(lambda: bool(inbox.lines))
    inbox.arrive(item(1000, unread=True))
    expect(opened.rows).to_have_count(6)
    assert opened.inside(moving) == 0


def test_what_stood_before_the_digest_can_t_be_asked_so_nothing_is_changed_nor_taken_back(
    opened: Opened, inbox: Inbox
) -> None:
    opened.live().rows.nth(0).hover()
    opened.rows.nth(0).locator(".more").click()
    inbox.status = 503
    opened.page.get_by_role("menuitem", name="Only in my daily digest: @nova").click()
    expect(opened.page.locator("notifier-inbox .toast")).to_contain_text("may not have worked")
    inbox.status = 200
    opened.page.get_by_role("button", name="Undo").click()
    expect(opened.page.locator("notifier-inbox .toast")).to_contain_text("show here again")
    assert inbox.calls("PATCH /v1/preferences/mention%3Anova") == []
