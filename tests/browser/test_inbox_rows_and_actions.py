"""`<notifier-inbox>` in a real browser: its rows and a user's actions."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser.accessibility import violations
from tests.support.browser.fake_inbox import Inbox, digest, item, items
from tests.support.browser.inbox_page import FakeInboxPage

NEVER_SEEN = (
    "import('/static/notifier-inbox/delays-and-limits.js')"
    ".then(({ TIMING }) => Object.assign(TIMING, { seen: 36_000_000 }))"
)
"""Rows stay unread on a machine of any speed."""
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "evil\u202egnp.exe",
    "Z" + "\u0351" * 90 + "algo",
    "x" * 10_000,
    "\u0000\u0007bell",
    "نورا",
]


def test_rows_show_data_of_the_server(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    text = "ada and others, 413 mentions of @nova"
    inbox.items[0].update(names=["ada", "bob", "eve"], more=True, count=413, text=text, unread=True)
    inbox_page.page.add_init_script(NEVER_SEEN)
    inbox_page.live()
    row = inbox_page.rows.first
    expect(row.locator(".text")).to_have_text(text)
    expect(row.locator(".names")).to_have_text("ada, bob, eve")
    expect(row).to_have_class(re.compile("unread"))
    expect(row.locator("time")).to_have_attribute("datetime", inbox.items[0]["opened_at"])
    expect(row.locator("time")).to_have_text("5 min ago")
    expect(inbox_page.badge).to_have_text("1")


def test_times_use_the_language_of_the_element(inbox_page: FakeInboxPage) -> None:
    inbox_page.open(before="document.querySelector('notifier-inbox').lang = 'de'")
    expect(inbox_page.rows.first.locator("time")).to_have_text("vor 5 Min.")


@pytest.mark.parametrize("page_lang", ["en", "fr"])
def test_times_use_browser_locale_by_default(browser: Browser, address: str, inbox: Inbox, page_lang: str) -> None:
    inbox.items[0].update(names=["ada", "bob", "eve"], more=True)
    context = browser.new_context(locale="de-DE", timezone_id="Europe/Berlin")
    inbox_page = FakeInboxPage(page=context.new_page(), address=address, inbox=inbox)
    inbox_page.open(before=f"document.documentElement.lang = '{page_lang}'")
    time = inbox_page.rows.first.locator("time")
    expect(time).to_have_text("vor 5 Min.")
    expect(time).to_have_attribute("title", re.compile(r" um \d\d:\d\d"))
    expect(inbox_page.rows.first.locator(".names")).to_have_text(re.compile("^ada, bob(,| et) eve$"))
    context.close()


def test_opening_row_sends_event_and_marks_as_read(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items[0]["unread"] = True
    inbox_page.page.add_init_script(NEVER_SEEN)
    inbox_page.live()
    inbox_page.page.evaluate("document.addEventListener('open', ({ detail }) => (window.opened = detail.tweet))")
    inbox_page.burst(0).click()
    assert inbox_page.page.evaluate("window.opened") == "t999"
    inbox_page.until(lambda: {"bursts": ["b999"], "mark": "read"} in inbox.calls("PUT /v1/inbox/marks"))
    expect(inbox_page.rows.first).to_have_class("row")


def test_digest_expands_to_its_bursts(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items[0] = digest(999, "ada mentioned @nova", "bob and others, 7 mentions of @nova", unread=True)
    inbox_page.page.add_init_script(NEVER_SEEN)
    inbox_page.live()
    row, inside = inbox_page.rows.first, inbox_page.rows.first.locator(".bursts li")
    expect(row.locator(".text")).to_have_text("Your digest: 2 mentions of @nova")
    expect(inbox_page.burst(0)).to_have_attribute("aria-expanded", "false")
    expect(inbox_page.burst(1)).not_to_have_attribute("aria-expanded", "false")
    expect(inside.first).to_be_hidden()
    inbox_page.burst(0).click()
    expect(inbox_page.burst(0)).to_have_attribute("aria-expanded", "true")
    expect(inside).to_have_text(
        [re.compile("^ada mentioned @nova"), re.compile("^bob and others, 7 mentions of @nova")]
    )
    inbox_page.until(lambda: {"bursts": ["b999"], "mark": "read"} in inbox.calls("PUT /v1/inbox/marks"))
    expect(inside.first).to_be_visible()  # also after the row has been updated
    assert violations(inbox_page.page) == []
    inbox_page.page.keyboard.press("Enter")
    expect(inside.first).to_be_hidden()


def test_digest_menu_cannot_mute_and_escapes_hostile_names(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items[0] = digest(999, *HOSTILE)
    inbox_page.live()
    inbox_page.burst(0).click()
    expect(inbox_page.rows.first.locator(".bursts li")).to_have_count(len(HOSTILE))
    assert inbox_page.inside("root.querySelectorAll('.bursts img').length") == 0
    inbox_page.rows.first.locator(".more").click()
    expect(inbox_page.page.get_by_role("menuitem")).to_have_text(["Mark as unread", "Hide"])


def test_page_can_cancel_opening(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items[0]["unread"] = True
    inbox_page.live()
    inbox_page.page.evaluate("document.addEventListener('open', (event) => event.preventDefault())")
    inbox_page.burst(0).click()
    expect(inbox_page.rows.first).to_have_class("row highlighted")  # because it was seen, not because it was opened
    assert inbox.calls("PUT /v1/inbox/marks") == []


def test_keyboard_moves_marks_hides_and_restores(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    press = inbox_page.page.keyboard.press
    inbox_page.burst(0).focus()
    press("ArrowDown")
    press("j")
    expect(inbox_page.burst(2)).to_be_focused()
    press("k")
    expect(inbox_page.burst(1)).to_be_focused()
    press("u")
    expect(inbox_page.rows.nth(1)).to_have_class("row unread")
    press("Delete")
    expect(inbox_page.rows).to_have_count(4)
    expect(inbox_page.burst(1)).to_be_focused()
    press("z")
    expect(inbox_page.rows).to_have_count(5)
    expect(inbox_page.burst(1)).to_be_focused()
    press("End")
    expect(inbox_page.burst(4)).to_be_focused()
    inbox_page.until(lambda: len(inbox.calls("PUT /v1/inbox/marks")) == 3)
    marks = [(call["bursts"], call["mark"]) for call in inbox.calls("PUT /v1/inbox/marks")]
    assert marks == [(["b998"], "unread"), (["b998"], "hidden"), (["b998"], "unread")]


def test_only_one_row_is_in_the_tab_order(inbox_page: FakeInboxPage) -> None:
    inbox_page.live().burst(2).focus()
    assert inbox_page.inside("root.querySelectorAll('.row [tabindex=\"0\"]').length") == 2
    inbox_page.page.keyboard.press("Tab")
    expect(inbox_page.rows.nth(2).locator(".more")).to_be_focused()


def test_menu_hides_row_and_undo_restores_it(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live().rows.nth(1).hover()
    inbox_page.rows.nth(1).locator(".more").click()
    expect(inbox_page.page.get_by_role("menuitem").first).to_be_focused()
    inbox_page.page.keyboard.press("Escape")
    expect(inbox_page.rows.nth(1).locator(".more")).to_be_focused()
    inbox_page.page.keyboard.press("Enter")
    inbox_page.page.get_by_role("menuitem", name="Hide").click()
    expect(inbox_page.rows).to_have_count(4)
    inbox_page.page.get_by_role("button", name="Undo").click()
    expect(inbox_page.rows).to_have_count(5)


def test_reopened_menu_has_focus_at_once(inbox_page: FakeInboxPage) -> None:
    inbox_page.live().rows.nth(1).hover()
    inbox_page.rows.nth(1).locator(".more").click()
    expect(inbox_page.page.get_by_role("menuitem").first).to_be_focused()
    inbox_page.page.keyboard.press("Escape")
    assert inbox_page.inside("(root.querySelectorAll('.more')[1].click(), root.activeElement.role)") == "menuitem"


def test_menu_mutes_and_unmutes_account(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = [item(999), item(998, subject="mention:orion", text="ada mentioned @orion"), item(997, unread=True)]
    inbox_page.live().rows.nth(0).hover()
    inbox_page.rows.nth(0).locator(".more").click()
    inbox_page.page.get_by_role("menuitem", name="Mute @nova", exact=True).click()
    expect(inbox_page.rows).to_have_count(1)
    expect(inbox_page.rows).to_contain_text("@orion")
    expect(inbox_page.badge).to_be_hidden()
    expect(inbox_page.page.locator("notifier-inbox .toast")).to_contain_text("@nova is muted")
    inbox_page.page.get_by_role("button", name="Unmute").click()
    expect(inbox_page.page.locator("notifier-inbox .toast")).to_contain_text("appear here again")
    path = "PATCH /v1/preferences/mention%3Anova"
    inbox_page.until(lambda: inbox.calls(path) == [{"muted_until": "forever"}, {"muted_until": None}])


@pytest.mark.parametrize("before", ["default", "first"])
def test_menu_moves_account_to_digest_and_undo_restores_it(
    inbox_page: FakeInboxPage, inbox: Inbox, before: str
) -> None:
    if before != "default":
        inbox.account_preferences |= {
            "preferences": [{"subject": "mention:nova", "volume": before, "muted_until": None}]
        }
    inbox.items = [item(999), item(998, subject="mention:orion", text="ada mentioned @orion"), item(997)]
    inbox_page.live().rows.nth(0).hover()
    inbox_page.rows.nth(0).locator(".more").click()
    inbox_page.page.get_by_role("menuitem", name="Only in my daily digest: @nova").click()
    expect(inbox_page.rows).to_have_count(1)
    expect(inbox_page.page.locator("notifier-inbox .toast")).to_contain_text("@nova is now in your daily digest")
    inbox_page.page.get_by_role("button", name="Undo").click()
    expect(inbox_page.page.locator("notifier-inbox .toast")).to_contain_text("appear here again")
    path = "PATCH /v1/preferences/mention%3Anova"
    inbox_page.until(lambda: inbox.calls(path) == [{"volume": "digest"}, {"volume": before}])


def test_mute_for_a_day_ends_after_24_hours(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live().rows.nth(0).hover()
    inbox_page.rows.nth(0).locator(".more").click()
    inbox_page.page.get_by_role("menuitem", name="for a day").click()
    expect(inbox_page.rows).to_have_count(0)
    inbox_page.until(lambda: bool(inbox.calls("PATCH /v1/preferences/mention%3Anova")))
    [change] = inbox.calls("PATCH /v1/preferences/mention%3Anova")
    muted_for = datetime.fromisoformat(str(change["muted_until"])) - datetime.now(UTC)
    assert timedelta(hours=23) < muted_for <= timedelta(days=1)


def test_refused_mute_brings_rows_back_and_can_be_undone(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.marks_status = 503
    inbox_page.live().rows.nth(0).hover()
    inbox_page.rows.nth(0).locator(".more").click()
    inbox_page.page.get_by_role("menuitem", name="Mute @nova", exact=True).click()
    expect(inbox_page.page.locator("notifier-inbox .toast")).to_contain_text("may not have been saved")
    expect(inbox_page.rows).to_have_count(5)
    inbox.marks_status = 204
    inbox_page.page.get_by_role("button", name="Unmute").click()
    expect(inbox_page.page.locator("notifier-inbox .toast")).to_contain_text("appear here again")


def test_row_that_arrives_during_a_mute_is_not_shown(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.delayed_change = "forever"
    inbox_page.live().rows.nth(0).hover()
    inbox_page.rows.nth(0).locator(".more").click()
    inbox_page.page.get_by_role("menuitem", name="Mute @nova", exact=True).click()
    inbox.arrive(item(2_000))
    inbox_page.page.get_by_role("button", name="Unmute").click()
    expect(inbox_page.rows).to_have_count(0)
    inbox_page.until(lambda: inbox.mute_ends == ["forever", None])


def test_own_mentions_cannot_be_muted(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = [item(999, subject="self:u1", text="ada mentioned you")]
    inbox_page.live().rows.nth(0).hover()
    inbox_page.rows.nth(0).locator(".more").click()
    expect(inbox_page.page.get_by_role("menuitem")).to_have_count(2)


def test_refused_mark_is_reverted(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.marks_status = 503
    inbox_page.live().burst(1).focus()
    inbox_page.page.keyboard.press("Delete")
    expect(inbox_page.page.locator("notifier-inbox .toast")).to_contain_text("The action failed")
    expect(inbox_page.rows).to_have_count(5)


def test_older_rows_load_while_scrolling_to_the_end(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = items(45)
    inbox_page.live().scroll(100_000)
    expect(inbox_page.rows).to_have_count(45)
    expect(inbox_page.page.get_by_text("All notifications of the last")).to_be_attached()


def test_older_rows_that_fail_wait_for_a_click(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items, inbox.older_status = items(45), 503
    inbox_page.live().scroll(100_000)
    retry_button = inbox_page.page.get_by_role("button", name="Older notifications didn’t load")
    expect(retry_button).to_be_visible()
    inbox.older_status = 200
    retry_button.click()
    expect(inbox_page.rows).to_have_count(45)


def test_document_stays_bounded_while_scrolling(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = items(420)
    inbox_page.live()
    end_marker = inbox_page.page.locator("notifier-inbox .end")

    def reached_end() -> bool:
        inbox_page.scroll(1_000_000)
        return end_marker.is_visible()

    inbox_page.until(reached_end)
    expect(inbox_page.rows).to_have_count(200)
    inbox_page.pill.click()
    expect(inbox_page.rows).to_have_count(20)
    expect(inbox_page.rows.first.locator("time")).to_have_attribute("datetime", inbox.items[0]["opened_at"])


def test_document_stays_bounded_on_a_busy_day(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    for number in range(1000, 1300):
        inbox.arrive(item(number))
    expect(inbox_page.rows.first.locator("time")).to_have_attribute("datetime", inbox.items[0]["opened_at"])
    expect(inbox_page.rows).to_have_count(200)
    inbox_page.scroll(1_000_000)
    expect(inbox_page.rows.last.locator("time")).not_to_have_attribute("datetime", inbox.items[199]["opened_at"])
    assert inbox_page.rows.count() <= 200


@pytest.mark.parametrize("name", HOSTILE, ids=["markup", "override", "zalgo", "long", "control", "right to left"])
def test_hostile_name_is_shown_as_text(inbox_page: FakeInboxPage, inbox: Inbox, name: str) -> None:
    inbox.items[0].update(
        names=[name, "bob", "eve"], more=True, count=9, text=f"{name} and others, 9 mentions of @nova"
    )
    inbox_page.live()
    expect(inbox_page.rows.first.locator(".text")).to_contain_text("and others, 9 mentions of @nova")
    expect(inbox_page.rows.first.locator(".text bdi").first).to_be_visible()
    text = inbox_page.rows.first.inner_text()
    assert not re.search("[\u0000-\u0009\u202a-\u202e]|\u0351{4}", text)
    assert inbox_page.inside("root.querySelectorAll('img').length") == 0
    assert inbox_page.rows.first.bounding_box()["height"] < 130  # type: ignore[index] # it is visible
