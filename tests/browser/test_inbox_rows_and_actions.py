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


def test_rows_show_data_of_the_server(opened: FakeInboxPage, inbox: Inbox) -> None:
    text = "ada and others, 413 mentions of @nova"
    inbox.items[0].update(names=["ada", "bob", "eve"], more=True, count=413, text=text, unread=True)
    opened.live()
    row = opened.rows.first
    expect(row.locator(".text")).to_have_text(text)
    expect(row.locator(".names")).to_have_text("ada, bob, eve")
    expect(row).to_have_class(re.compile("unread"))
    expect(row.locator("time")).to_have_attribute("datetime", inbox.items[0]["opened_at"])
    expect(row.locator("time")).to_have_text("5 min ago")
    expect(opened.badge).to_have_text("1")


def test_times_use_the_language_of_the_element(opened: FakeInboxPage) -> None:
    opened.open(before="document.querySelector('notifier-inbox').lang = 'de'")
    expect(opened.rows.first.locator("time")).to_have_text("vor 5 Min.")


@pytest.mark.parametrize("page_lang", ["en", "fr"])
def test_times_use_browser_locale_by_default(browser: Browser, address: str, inbox: Inbox, page_lang: str) -> None:
    inbox.items[0].update(names=["ada", "bob", "eve"], more=True)
    context = browser.new_context(locale="de-DE", timezone_id="Europe/Berlin")
    opened = FakeInboxPage(page=context.new_page(), address=address, inbox=inbox)
    opened.open(before=f"document.documentElement.lang = '{page_lang}'")
    time = opened.rows.first.locator("time")
    expect(time).to_have_text("vor 5 Min.")
    expect(time).to_have_attribute("title", re.compile(r" um \d\d:\d\d"))
    expect(opened.rows.first.locator(".names")).to_have_text(re.compile("^ada, bob(,| et) eve$"))
    context.close()


def test_opening_row_sends_event_and_marks_as_read(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items[0]["unread"] = True
    opened.page.add_init_script(NEVER_SEEN)
    opened.live()
    opened.page.evaluate("document.addEventListener('open', ({ detail }) => (window.opened = detail.tweet))")
    opened.burst(0).click()
    assert opened.page.evaluate("window.opened") == "t999"
    opened.until(lambda: {"bursts": ["b999"], "mark": "read"} in inbox.calls("PUT /v1/inbox/marks"))
    expect(opened.rows.first).to_have_class("row")


def test_digest_expands_to_its_bursts(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items[0] = digest(999, "ada mentioned @nova", "bob and others, 7 mentions of @nova", unread=True)
    opened.page.add_init_script(NEVER_SEEN)
    opened.live()
    row, inside = opened.rows.first, opened.rows.first.locator(".bursts li")
    expect(row.locator(".text")).to_have_text("Your digest: 2 mentions of @nova")
    expect(opened.burst(0)).to_have_attribute("aria-expanded", "false")
    expect(opened.burst(1)).not_to_have_attribute("aria-expanded", "false")
    expect(inside.first).to_be_hidden()
    opened.burst(0).click()
    expect(opened.burst(0)).to_have_attribute("aria-expanded", "true")
    expect(inside).to_have_text(
        [re.compile("^ada mentioned @nova"), re.compile("^bob and others, 7 mentions of @nova")]
    )
    opened.until(lambda: {"bursts": ["b999"], "mark": "read"} in inbox.calls("PUT /v1/inbox/marks"))
    expect(inside.first).to_be_visible()  # also after the row has been updated
    assert violations(opened.page) == []
    opened.page.keyboard.press("Enter")
    expect(inside.first).to_be_hidden()


def test_digest_menu_cannot_mute_and_escapes_hostile_names(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items[0] = digest(999, *HOSTILE)
    opened.live()
    opened.burst(0).click()
    expect(opened.rows.first.locator(".bursts li")).to_have_count(len(HOSTILE))
    assert opened.inside("root.querySelectorAll('.bursts img').length") == 0
    opened.rows.first.locator(".more").click()
    expect(opened.page.get_by_role("menuitem")).to_have_text(["Mark as unread", "Hide"])


def test_page_can_cancel_opening(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items[0]["unread"] = True
    opened.live()
    opened.page.evaluate("document.addEventListener('open', (event) => event.preventDefault())")
    opened.burst(0).click()
    expect(opened.rows.first).to_have_class("row highlighted")  # because it was seen, not because it was opened
    assert inbox.calls("PUT /v1/inbox/marks") == []


def test_keyboard_moves_marks_hides_and_restores(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live()
    press = opened.page.keyboard.press
    opened.burst(0).focus()
    press("ArrowDown")
    press("j")
    expect(opened.burst(2)).to_be_focused()
    press("k")
    expect(opened.burst(1)).to_be_focused()
    press("u")
    expect(opened.rows.nth(1)).to_have_class("row unread")
    press("Delete")
    expect(opened.rows).to_have_count(4)
    expect(opened.burst(1)).to_be_focused()
    press("z")
    expect(opened.rows).to_have_count(5)
    expect(opened.burst(1)).to_be_focused()
    press("End")
    expect(opened.burst(4)).to_be_focused()
    opened.until(lambda: len(inbox.calls("PUT /v1/inbox/marks")) == 3)
    marks = [(call["bursts"], call["mark"]) for call in inbox.calls("PUT /v1/inbox/marks")]
    assert marks == [(["b998"], "unread"), (["b998"], "hidden"), (["b998"], "unread")]


def test_only_one_row_is_in_the_tab_order(opened: FakeInboxPage) -> None:
    opened.live().burst(2).focus()
    assert opened.inside("root.querySelectorAll('.row [tabindex=\"0\"]').length") == 2
    opened.page.keyboard.press("Tab")
    expect(opened.rows.nth(2).locator(".more")).to_be_focused()


def test_menu_hides_row_and_undo_restores_it(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live().rows.nth(1).hover()
    opened.rows.nth(1).locator(".more").click()
    expect(opened.page.get_by_role("menuitem").first).to_be_focused()
    opened.page.keyboard.press("Escape")
    expect(opened.rows.nth(1).locator(".more")).to_be_focused()
    opened.page.keyboard.press("Enter")
    opened.page.get_by_role("menuitem", name="Hide").click()
    expect(opened.rows).to_have_count(4)
    opened.page.get_by_role("button", name="Undo").click()
    expect(opened.rows).to_have_count(5)


def test_reopened_menu_takes_the_very_next_key(opened: FakeInboxPage) -> None:
    opened.live().rows.nth(1).hover()
    opened.rows.nth(1).locator(".more").click()
    expect(opened.page.get_by_role("menuitem").first).to_be_focused()
    opened.page.keyboard.press("Escape")
    assert opened.inside("(root.querySelectorAll('.more')[1].click(), root.activeElement.role)") == "menuitem"


def test_menu_mutes_and_unmutes_account(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = [item(999), item(998, subject="mention:orion", text="ada mentioned @orion"), item(997, unread=True)]
    opened.live().rows.nth(0).hover()
    opened.rows.nth(0).locator(".more").click()
    opened.page.get_by_role("menuitem", name="Mute @nova", exact=True).click()
    expect(opened.rows).to_have_count(1)
    expect(opened.rows).to_contain_text("@orion")
    expect(opened.badge).to_be_hidden()
    expect(opened.page.locator("notifier-inbox .toast")).to_contain_text("@nova is muted")
    opened.page.get_by_role("button", name="Unmute").click()
    expect(opened.page.locator("notifier-inbox .toast")).to_contain_text("appear here again")
    path = "PATCH /v1/preferences/mention%3Anova"
    opened.until(lambda: inbox.calls(path) == [{"muted_until": "forever"}, {"muted_until": None}])


@pytest.mark.parametrize("before", ["default", "first"])
def test_menu_moves_account_to_digest_and_undo_restores_it(opened: FakeInboxPage, inbox: Inbox, before: str) -> None:
    if before != "default":
        inbox.account_preferences |= {
            "preferences": [{"subject": "mention:nova", "volume": before, "muted_until": None}]
        }
    inbox.items = [item(999), item(998, subject="mention:orion", text="ada mentioned @orion"), item(997)]
    opened.live().rows.nth(0).hover()
    opened.rows.nth(0).locator(".more").click()
    opened.page.get_by_role("menuitem", name="Only in my daily digest: @nova").click()
    expect(opened.rows).to_have_count(1)
    expect(opened.page.locator("notifier-inbox .toast")).to_contain_text("@nova is now in your daily digest")
    opened.page.get_by_role("button", name="Undo").click()
    expect(opened.page.locator("notifier-inbox .toast")).to_contain_text("appear here again")
    path = "PATCH /v1/preferences/mention%3Anova"
    opened.until(lambda: inbox.calls(path) == [{"volume": "digest"}, {"volume": before}])


def test_mute_for_a_day_ends_tomorrow(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live().rows.nth(0).hover()
    opened.rows.nth(0).locator(".more").click()
    opened.page.get_by_role("menuitem", name="for a day").click()
    expect(opened.rows).to_have_count(0)
    opened.until(lambda: bool(inbox.calls("PATCH /v1/preferences/mention%3Anova")))
    [change] = inbox.calls("PATCH /v1/preferences/mention%3Anova")
    muted_for = datetime.fromisoformat(str(change["muted_until"])) - datetime.now(UTC)
    assert timedelta(hours=23) < muted_for <= timedelta(days=1)


def test_refused_mute_hides_nothing_and_can_be_undone(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.marks_status = 503
    opened.live().rows.nth(0).hover()
    opened.rows.nth(0).locator(".more").click()
    opened.page.get_by_role("menuitem", name="Mute @nova", exact=True).click()
    expect(opened.page.locator("notifier-inbox .toast")).to_contain_text("may not have been saved")
    expect(opened.rows).to_have_count(5)
    inbox.marks_status = 204
    opened.page.get_by_role("button", name="Unmute").click()
    expect(opened.page.locator("notifier-inbox .toast")).to_contain_text("appear here again")


def test_row_that_arrives_during_a_mute_is_not_shown(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.delayed_change = "forever"
    opened.live().rows.nth(0).hover()
    opened.rows.nth(0).locator(".more").click()
    opened.page.get_by_role("menuitem", name="Mute @nova", exact=True).click()
    inbox.arrive(item(2_000))
    opened.page.get_by_role("button", name="Unmute").click()
    expect(opened.rows).to_have_count(0)
    path = "PATCH /v1/preferences/mention%3Anova"
    opened.until(lambda: [change["muted_until"] for change in inbox.calls(path)] == ["forever", None])
    assert inbox.mute_ends == ["forever", None]


def test_own_mentions_cannot_be_muted(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = [item(999, subject="self:u1", text="ada mentioned you")]
    opened.live().rows.nth(0).hover()
    opened.rows.nth(0).locator(".more").click()
    expect(opened.page.get_by_role("menuitem")).to_have_count(2)


def test_refused_mark_is_reverted(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.marks_status = 503
    opened.live().burst(1).focus()
    opened.page.keyboard.press("Delete")
    expect(opened.page.locator("notifier-inbox .toast")).to_contain_text("The action failed")
    expect(opened.rows).to_have_count(5)


def test_older_rows_load_while_scrolling_to_the_end(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = items(45)
    opened.live().scroll(100_000)
    expect(opened.rows).to_have_count(45)
    expect(opened.page.get_by_text("All notifications of the last")).to_be_attached()


def test_older_rows_that_fail_wait_for_a_click(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items, inbox.older_status = items(45), 503
    opened.live().scroll(100_000)
    retry_button = opened.page.get_by_role("button", name="Older notifications didn’t load")
    expect(retry_button).to_be_visible()
    inbox.older_status = 200
    retry_button.click()
    expect(opened.rows).to_have_count(45)


def test_document_stays_bounded_while_scrolling(opened: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = items(420)
    opened.live()
    end_marker = opened.page.locator("notifier-inbox .end")

    def reached_end() -> bool:
        opened.scroll(1_000_000)
        return end_marker.is_visible()

    opened.until(reached_end)
    expect(opened.rows).to_have_count(200)
    opened.pill.click()
    expect(opened.rows).to_have_count(20)
    expect(opened.rows.first.locator("time")).to_have_attribute("datetime", inbox.items[0]["opened_at"])


def test_document_stays_bounded_on_a_busy_day(opened: FakeInboxPage, inbox: Inbox) -> None:
    opened.live()
    for number in range(1000, 1300):
        inbox.arrive(item(number))
    expect(opened.rows.first.locator("time")).to_have_attribute("datetime", inbox.items[0]["opened_at"])
    expect(opened.rows).to_have_count(200)
    opened.scroll(1_000_000)
    expect(opened.rows.last.locator("time")).not_to_have_attribute("datetime", inbox.items[199]["opened_at"])
    assert opened.rows.count() <= 200


@pytest.mark.parametrize("name", HOSTILE, ids=["markup", "override", "zalgo", "long", "control", "right to left"])
def test_hostile_name_is_shown_as_text(opened: FakeInboxPage, inbox: Inbox, name: str) -> None:
    inbox.items[0].update(
        names=[name, "bob", "eve"], more=True, count=9, text=f"{name} and others, 9 mentions of @nova"
    )
    opened.live()
    expect(opened.rows.first.locator(".text")).to_contain_text("and others, 9 mentions of @nova")
    expect(opened.rows.first.locator(".text bdi").first).to_be_visible()
    text = opened.rows.first.inner_text()
    assert not re.search("[\u0000-\u0009\u202a-\u202e]|\u0351{4}", text)
    assert opened.inside("root.querySelectorAll('img').length") == 0
    assert opened.rows.first.bounding_box()["height"] < 130  # type: ignore[index] # it is visible
