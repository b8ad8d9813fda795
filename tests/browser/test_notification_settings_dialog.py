"""`<notifier-inbox>`: the dialog for account-wide preferences."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from benchmarks.demo_page import SCHEMES
from tests.support.browser.accessibility import violations
from tests.support.browser.fake_inbox import Inbox
from tests.support.browser.inbox_page import FakeInboxPage

PATH = "PATCH /v1/preferences"


def dialog(inbox_page: FakeInboxPage) -> Locator:
    return inbox_page.page.get_by_role("dialog", name="Notification settings")


def settings_button(inbox_page: FakeInboxPage) -> Locator:
    return inbox_page.page.get_by_role("button", name="Notification settings")


@pytest.fixture
def tokyo_page(browser: Browser, address: str, inbox: Inbox) -> Iterator[FakeInboxPage]:
    """A page in a browser in Tokyo."""
    context = browser.new_context(timezone_id="Asia/Tokyo", locale="en-GB")
    yield FakeInboxPage(page=context.new_page(), address=address, inbox=inbox)
    context.close()


def test_dialog_shows_current_settings_and_sends_changes_only(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.account_preferences |= {"volume": "first", "push": False}
    settings_button(inbox_page.live()).click()
    expect(dialog(inbox_page).get_by_label("Only each account’s first")).to_be_checked()
    expect(dialog(inbox_page).get_by_label("Alert me on my devices")).not_to_be_checked()
    expect(dialog(inbox_page).get_by_label("From", exact=True)).to_be_hidden()
    dialog(inbox_page).get_by_label("Only mentions of me").check()
    dialog(inbox_page).get_by_role("button", name="Save").click()
    expect(dialog(inbox_page)).to_have_count(0)
    expect(inbox_page.page.locator("notifier-inbox .toast")).to_contain_text("Settings saved")
    inbox_page.until(lambda: inbox.calls(PATH) == [{"volume": "off"}])
    expect(settings_button(inbox_page)).to_be_focused()


def test_saving_default_alerts_opts_in(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.account_preferences |= {"asked": False}
    settings_button(inbox_page.live()).click()
    dialog(inbox_page).get_by_label("Only mentions of me").check()
    dialog(inbox_page).get_by_role("button", name="Save").click()
    expect(dialog(inbox_page)).to_have_count(0)
    inbox_page.until(lambda: inbox.calls(PATH) == [{"push": True, "volume": "off"}])
    settings_button(inbox_page).click()
    dialog(inbox_page).get_by_label("Alert me on my devices").uncheck()
    dialog(inbox_page).get_by_role("button", name="Save").click()
    expect(dialog(inbox_page)).to_have_count(0)
    inbox_page.until(lambda: inbox.calls(PATH)[1:] == [{"push": False}])


def test_quiet_hours_use_time_zone_of_browser(tokyo_page: FakeInboxPage, inbox: Inbox) -> None:
    settings_button(tokyo_page.live()).click()
    dialog(tokyo_page).get_by_label("Quiet hours").check()
    expect(dialog(tokyo_page).get_by_label("From", exact=True)).to_have_value("22:00")
    dialog(tokyo_page).get_by_label("To", exact=True).fill("06:30")
    dialog(tokyo_page).get_by_role("button", name="Save").click()
    expect(dialog(tokyo_page)).to_have_count(0)
    assert inbox.calls(PATH) == [{"quiet_hours": {"from": "22:00", "to": "06:30"}, "time_zone": "Asia/Tokyo"}]
    settings_button(tokyo_page).click()
    dialog(tokyo_page).get_by_label("Quiet hours").uncheck()
    dialog(tokyo_page).get_by_role("button", name="Save").click()
    expect(dialog(tokyo_page)).to_have_count(0)
    assert inbox.calls(PATH)[1:] == [{"quiet_hours": None}]


def test_digest_hour_uses_time_zone_of_browser(tokyo_page: FakeInboxPage, inbox: Inbox) -> None:
    settings_button(tokyo_page.live()).click()
    expect(dialog(tokyo_page).get_by_label("Time zone")).to_be_hidden()
    dialog(tokyo_page).get_by_label("One digest a day").check()
    expect(dialog(tokyo_page).get_by_label("Time of day")).to_have_value("18")
    dialog(tokyo_page).get_by_label("Time of day").select_option("7")
    dialog(tokyo_page).get_by_role("button", name="Save").click()
    expect(dialog(tokyo_page)).to_have_count(0)
    assert inbox.calls(PATH) == [{"volume": "digest", "time_zone": "Asia/Tokyo", "digest_hour": 7}]
    settings_button(tokyo_page).click()
    expect(dialog(tokyo_page).get_by_label("One digest a day")).to_be_checked()
    expect(dialog(tokyo_page).get_by_label("Time zone")).to_have_value("Asia/Tokyo")
    dialog(tokyo_page).get_by_label("Time zone").select_option("UTC")
    dialog(tokyo_page).get_by_role("button", name="Save").click()
    expect(dialog(tokyo_page)).to_have_count(0)
    settings_button(tokyo_page).click()
    expect(dialog(tokyo_page).get_by_label("Time zone")).to_have_value("UTC")
    assert inbox.calls(PATH)[1:] == [{"time_zone": "UTC"}]


def test_time_zone_can_be_set_with_an_account_in_digest(tokyo_page: FakeInboxPage, inbox: Inbox) -> None:
    nova = {"subject": "mention:nova", "volume": "digest", "muted_until": None}
    inbox.account_preferences |= {"preferences": [nova]}
    settings_button(tokyo_page.live()).click()
    expect(dialog(tokyo_page).get_by_label("Time zone")).to_have_value("UTC")
    dialog(tokyo_page).get_by_label("Time zone").select_option("Asia/Tokyo")
    dialog(tokyo_page).get_by_role("button", name="Save").click()
    expect(dialog(tokyo_page)).to_have_count(0)
    assert inbox.calls(PATH) == [{"time_zone": "Asia/Tokyo"}]


def test_saved_time_zone_is_kept_in_another_browser_zone(tokyo_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.account_preferences |= {"quiet_hours": {"from": "23:00", "to": "05:00"}, "time_zone": "Europe/Berlin"}
    settings_button(tokyo_page.live()).click()
    expect(dialog(tokyo_page).get_by_label("Time zone")).to_have_value("Europe/Berlin")
    dialog(tokyo_page).get_by_label("To", exact=True).fill("23:00")
    dialog(tokyo_page).get_by_role("button", name="Save").click()
    expect(dialog(tokyo_page).get_by_role("alert")).to_have_text("Quiet hours must begin and end at different times.")
    dialog(tokyo_page).get_by_label("Time zone").select_option("America/New_York")
    dialog(tokyo_page).get_by_label("To", exact=True).fill("05:00")
    dialog(tokyo_page).get_by_role("button", name="Save").click()
    expect(dialog(tokyo_page)).to_have_count(0)
    assert inbox.calls(PATH) == [{"time_zone": "America/New_York"}]


def test_mention_policy_is_chosen_from_a_list(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.account_preferences |= {"mentions": "verified"}
    settings_button(inbox_page.live()).click()
    policy = dialog(inbox_page).get_by_label("Tell my followers when I’m mentioned")
    expect(policy).to_have_value("verified")
    policy.select_option("By people I follow")
    dialog(inbox_page).get_by_role("button", name="Save").click()
    expect(dialog(inbox_page)).to_have_count(0)
    inbox_page.until(lambda: inbox.calls(PATH) == [{"mentions": "followed"}])


def test_keyboard_alone_opens_changes_and_closes_dialog(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    press = inbox_page.live().page.keyboard.press
    settings_button(inbox_page).focus()
    press("Enter")
    expect(dialog(inbox_page).get_by_label("Every mention")).to_be_checked()
    press("Tab")
    expect(dialog(inbox_page).get_by_label("Every mention")).to_be_focused()
    press("ArrowDown")
    expect(dialog(inbox_page).get_by_label("Only each account’s first")).to_be_checked()
    press("Escape")
    expect(dialog(inbox_page)).to_have_count(0)
    expect(settings_button(inbox_page)).to_be_focused()
    press("Enter")
    expect(dialog(inbox_page).get_by_label("Every mention")).to_be_checked()
    press("Tab")
    press("ArrowDown")
    press("Enter")
    expect(dialog(inbox_page)).to_have_count(0)
    inbox_page.until(lambda: inbox.calls(PATH) == [{"volume": "first"}])


def test_refused_settings_can_be_saved_again(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    settings_button(inbox_page.live()).click()
    dialog(inbox_page).get_by_label("Only mentions of me").check()
    inbox.marks_status = 503
    dialog(inbox_page).get_by_role("button", name="Save").click()
    expect(dialog(inbox_page).get_by_role("alert")).to_have_text("The change may not have been saved.")
    inbox.marks_status = 204
    dialog(inbox_page).get_by_role("button", name="Save").click()
    expect(dialog(inbox_page)).to_have_count(0)
    assert inbox.account_preferences["volume"] == "off"


def test_settings_that_fail_to_load_offer_retry(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    inbox.status = 503
    settings_button(inbox_page).click()
    expect(dialog(inbox_page).get_by_text("Your settings didn’t load.")).to_be_visible()
    expect(dialog(inbox_page).get_by_role("button", name="Save")).to_be_disabled()
    inbox.status = 200
    dialog(inbox_page).get_by_role("button", name="Try again").click()
    expect(dialog(inbox_page).get_by_label("Every mention")).to_be_checked()


def test_token_of_another_user_closes_dialog(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    settings_button(inbox_page.live()).click()
    expect(dialog(inbox_page).get_by_label("Every mention")).to_be_checked()
    inbox_page.page.evaluate("document.querySelector('notifier-inbox').token = 'other'")
    expect(dialog(inbox_page)).to_have_count(0)


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [320, 390])
def test_dialog_fits_phone_without_axe_violations(
    browser: Browser, address: str, inbox: Inbox, scheme: str, width: int
) -> None:
    device = {
        "viewport": {"width": width, "height": 640},
        "color_scheme": scheme,
        "has_touch": True,
        "is_mobile": True,
    }
    context = browser.new_context(**device, locale="en-GB")  # type: ignore[arg-type] # a mapping of several types
    inbox_page = FakeInboxPage(page=context.new_page(), address=address, inbox=inbox)
    settings_button(inbox_page.live()).tap()
    dialog(inbox_page).get_by_label("Quiet hours").tap()
    expect(dialog(inbox_page).get_by_label("Time zone")).to_be_visible()
    assert violations(inbox_page.page) == []
    box = dialog(inbox_page).bounding_box()
    assert box is not None
    assert (box["x"] >= 16, box["x"] + box["width"] <= width - 16, box["y"] + box["height"] <= 640) == (
        True,
        True,
        True,
    )
    assert inbox_page.inside("(d => d.scrollWidth <= d.clientWidth)(root.querySelector('dialog'))")
    assert inbox_page.inside(
        "[...root.querySelectorAll('dialog .named')].every((node) => node.scrollWidth <= node.clientWidth)"
    )
    assert (
        inbox_page.inside("Math.min(...[...root.querySelectorAll('dialog .choice')].map((node) => node.offsetHeight))")
        >= 44
    )
    context.close()
