"""`<notifier-inbox>` in every state: nothing, failure, offline, expired, on a phone, and to axe."""

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.accessibility import violations
from tests.browser.fake_inbox import Inbox, item, items
from tests.browser.opened import Opened


def test_nothing_here_says_so(opened: Opened, inbox: Inbox) -> None:
    inbox.items = []
    opened.open()
    expect(opened.page.get_by_text("Nothing here yet")).to_be_visible()
    inbox.arrive(item(1000))
    expect(opened.rows).to_have_count(1)


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
    inbox.partial = True
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_any_state(opened: Opened, context: BrowserContext, inbox: Inbox, scheme: str) -> None:
    opened.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    found: dict[str, list[str]] = {}

    def check(state: str, shown: str) -> None:
        expect(opened.page.get_by_text(shown).first).to_be_visible()
        rules = violations(opened.page)
        found.update({state: rules} if rules else {})

    inbox.gate.clear()
    opened.open()
    check("loading", "Notifications")
    inbox.items = items(30)
    inbox.items[0].update(unread=True, names=["ada", "bob"], more=True)
    inbox.gate.set()
    check("rows", "ada mentioned")
    opened.burst(0).focus()
    inbox.arrive(item(1000))
    check("pill", "1 new")
    opened.rows.nth(1).locator(".more").click()
    check("menu", "Hide")
    opened.page.get_by_role("menuitem", name="Hide").click()
    check("undo", "Notification hidden")
    context.set_offline(True)
    check("offline", "You’re offline")
    context.set_offline(False)
    inbox.partial = True
    opened.open()
    check("partial", "may be missing")
    inbox.partial, inbox.status = False, 503
    opened.open()
    check("failed", "Notifications didn’t load")
    inbox.status, inbox.items = 200, []
    opened.open()
    check("empty", "Nothing here yet")
    opened.open(token="old")
    check("expired", "Your session has ended")
    assert found == {}
