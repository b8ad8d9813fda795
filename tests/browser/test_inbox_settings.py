"""`<notifier-inbox>`: what a person says of everything, in a dialog beside the rows' own menus."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from benchmarks.demo_page import SCHEMES
from tests.support.browser.accessibility import violations
from tests.support.browser.fake_inbox import Inbox
from tests.support.browser.page import Opened

PATH = "PATCH /v1/preferences"


def dialog(opened: Opened) -> Locator:
    return opened.page.get_by_role("dialog", name="Notification settings")


def gear(opened: Opened) -> Locator:
    return opened.page.get_by_role("button", name="Notification settings")


@pytest.fixture
def abroad(browser: Browser, address: str, inbox: Inbox) -> Iterator[Opened]:
    """In Tokyo."""
    context = browser.new_context(timezone_id="Asia/Tokyo", locale="en-GB")
    yield Opened(page=context.new_page(), address=address, inbox=inbox)
    context.close()


def test_it_shows_what_stands_and_sends_what_was_changed_and_nothing_else(opened: Opened, inbox: Inbox) -> None:
    inbox.everything |= {"volume": "first", "push": False}
    gear(opened.live()).click()
    expect(dialog(opened).get_by_label("Only each account’s first")).to_be_checked()
    expect(dialog(opened).get_by_label("Alert me on my devices")).not_to_be_checked()
    expect(dialog(opened).get_by_label("From", exact=True)).to_be_hidden()
    dialog(opened).get_by_label("Only mentions of me").check()
    dialog(opened).get_by_role("button", name="Save").click()
    expect(dialog(opened)).to_have_count(0)
    expect(opened.page.locator("notifier-inbox .toast")).to_contain_text("Settings saved")
    assert inbox.calls(PATH) == [{"volume": "off"}]
    expect(gear(opened)).to_be_focused()


def test_who_saves_what_stands_checked_and_was_never_said_asks_for_alerts(opened: Opened, inbox: Inbox) -> None:
    inbox.everything |= {"asked": False}
    gear(opened.live()).click()
    dialog(opened).get_by_label("Only mentions of me").check()
    dialog(opened).get_by_role("button", name="Save").click()
    expect(dialog(opened)).to_have_count(0)
    assert inbox.calls(PATH) == [{"push": True, "volume": "off"}]
    gear(opened).click()
    dialog(opened).get_by_label("Alert me on my devices").uncheck()
    dialog(opened).get_by_role("button", name="Save").click()
    expect(dialog(opened)).to_have_count(0)
    assert inbox.calls(PATH)[1:] == [{"push": False}]


def test_quiet_hours_are_of_the_place_where_the_person_is(abroad: Opened, inbox: Inbox) -> None:
    gear(abroad.live()).click()
    dialog(abroad).get_by_label("Quiet hours").check()
    expect(dialog(abroad).get_by_label("From", exact=True)).to_have_value("22:00")
    dialog(abroad).get_by_label("To", exact=True).fill("06:30")
    dialog(abroad).get_by_role("button", name="Save").click()
    expect(dialog(abroad)).to_have_count(0)
    assert inbox.calls(PATH) == [{"quiet_hours": {"from": "22:00", "to": "06:30"}, "time_zone": "Asia/Tokyo"}]
    gear(abroad).click()
    dialog(abroad).get_by_label("Quiet hours").uncheck()
    dialog(abroad).get_by_role("button", name="Save").click()
    expect(dialog(abroad)).to_have_count(0)
    assert inbox.calls(PATH)[1:] == [{"quiet_hours": None}]


def test_a_digest_comes_at_the_hour_of_the_place_where_the_person_is(abroad: Opened, inbox: Inbox) -> None:
    gear(abroad.live()).click()
    expect(dialog(abroad).get_by_label("Time zone")).to_be_hidden()
    dialog(abroad).get_by_label("One digest a day").check()
    expect(dialog(abroad).get_by_label("Comes at")).to_have_value("18")
    dialog(abroad).get_by_label("Comes at").select_option("7")
    dialog(abroad).get_by_role("button", name="Save").click()
    expect(dialog(abroad)).to_have_count(0)
    assert inbox.calls(PATH) == [{"volume": "digest", "time_zone": "Asia/Tokyo", "digest_hour": 7}]
    gear(abroad).click()
    expect(dialog(abroad).get_by_label("One digest a day")).to_be_checked()
    expect(dialog(abroad).get_by_label("Time zone")).to_have_value("Asia/Tokyo")
    dialog(abroad).get_by_label("Time zone").select_option("UTC")
    dialog(abroad).get_by_role("button", name="Save").click()
    expect(dialog(abroad)).to_have_count(0)
    gear(abroad).click()
    expect(dialog(abroad).get_by_label("Time zone")).to_have_value("UTC")
    assert inbox.calls(PATH)[1:] == [{"time_zone": "UTC"}]


def test_who_left_an_account_to_the_digest_may_say_by_which_clock_it_comes(abroad: Opened, inbox: Inbox) -> None:
    nova = {"subject": "mention:nova", "volume": "digest", "muted_until": None}
    inbox.everything |= {"preferences": [nova]}
    gear(abroad.live()).click()
    expect(dialog(abroad).get_by_label("Time zone")).to_have_value("UTC")
    dialog(abroad).get_by_label("Time zone").select_option("Asia/Tokyo")
    dialog(abroad).get_by_role("button", name="Save").click()
    expect(dialog(abroad)).to_have_count(0)
    assert inbox.calls(PATH) == [{"time_zone": "Asia/Tokyo"}]


def test_a_zone_that_was_said_stays_wherever_the_browser_is(abroad: Opened, inbox: Inbox) -> None:
    inbox.everything |= {"quiet_hours": {"from": "23:00", "to": "05:00"}, "time_zone": "Europe/Berlin"}
    gear(abroad.live()).click()
    expect(dialog(abroad).get_by_label("Time zone")).to_have_value("Europe/Berlin")
    dialog(abroad).get_by_label("To", exact=True).fill("23:00")
    dialog(abroad).get_by_role("button", name="Save").click()
    expect(dialog(abroad).get_by_role("alert")).to_have_text("Quiet hours begin and end at different times.")
    dialog(abroad).get_by_label("Time zone").select_option("America/New_York")
    dialog(abroad).get_by_label("To", exact=True).fill("05:00")
    dialog(abroad).get_by_role("button", name="Save").click()
    expect(dialog(abroad)).to_have_count(0)
    assert inbox.calls(PATH) == [{"time_zone": "America/New_York"}]


def test_whose_mentions_followers_are_told_of_is_chosen_from_a_list(opened: Opened, inbox: Inbox) -> None:
    inbox.everything |= {"mentions": "verified"}
    gear(opened.live()).click()
    whose = dialog(opened).get_by_label("Tell my followers when I’m mentioned")
    expect(whose).to_have_value("verified")
    whose.select_option("By people I follow")
    dialog(opened).get_by_role("button", name="Save").click()
    expect(dialog(opened)).to_have_count(0)
    assert inbox.calls(PATH) == [{"mentions": "followed"}]


def test_the_keyboard_alone_opens_changes_and_leaves(opened: Opened, inbox: Inbox) -> None:
    press = opened.live().page.keyboard.press
    gear(opened).focus()
    press("Enter")
    expect(dialog(opened).get_by_label("Every mention")).to_be_checked()
    press("Tab")
    expect(dialog(opened).get_by_label("Every mention")).to_be_focused()
    press("ArrowDown")
    expect(dialog(opened).get_by_label("Only each account’s first")).to_be_checked()
    press("Escape")
    expect(dialog(opened)).to_have_count(0)
    expect(gear(opened)).to_be_focused()
    press("Enter")
    expect(dialog(opened).get_by_label("Every mention")).to_be_checked()
    press("Tab")
    press("ArrowDown")
    press("Enter")
    expect(dialog(opened)).to_have_count(0)
    assert inbox.calls(PATH) == [{"volume": "first"}]


def test_what_the_server_refuses_stays_to_be_tried_again(opened: Opened, inbox: Inbox) -> None:
    gear(opened.live()).click()
    dialog(opened).get_by_label("Only mentions of me").check()
    inbox.marks_status = 503
    dialog(opened).get_by_role("button", name="Save").click()
    expect(dialog(opened).get_by_role("alert")).to_have_text("That may not have worked.")
    inbox.marks_status = 204
    dialog(opened).get_by_role("button", name="Save").click()
    expect(dialog(opened)).to_have_count(0)
    assert inbox.everything["volume"] == "off"


def test_settings_that_don_t_load_offer_another_try(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    inbox.status = 503
    gear(opened).click()
    expect(dialog(opened).get_by_text("Your settings didn’t load.")).to_be_visible()
    expect(dialog(opened).get_by_role("button", name="Save")).to_be_disabled()
    inbox.status = 200
    dialog(opened).get_by_role("button", name="Try again").click()
    expect(dialog(opened).get_by_label("Every mention")).to_be_checked()


def test_another_person_s_token_closes_it(opened: Opened, inbox: Inbox) -> None:
    gear(opened.live()).click()
    expect(dialog(opened).get_by_label("Every mention")).to_be_checked()
    opened.page.evaluate("document.querySelector('notifier-inbox').token = 'other'")
    expect(dialog(opened)).to_have_count(0)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [320, 390])
def test_on_a_phone_it_fits_and_axe_finds_nothing(
    browser: Browser, address: str, inbox: Inbox, scheme: str, width: int
) -> None:
    looks = {"viewport": {"width": width, "height": 640}, "color_scheme": scheme, "has_touch": True, "is_mobile": True}
    context = browser.new_context(**looks, locale="en-GB")  # type: ignore[arg-type] # a mapping of several types
    opened = Opened(page=context.new_page(), address=address, inbox=inbox)
    gear(opened.live()).tap()
    dialog(opened).get_by_label("Quiet hours").tap()
    expect(dialog(opened).get_by_label("Time zone")).to_be_visible()
    assert violations(opened.page) == []
    box = dialog(opened).bounding_box()
    assert box is not None
    assert (box["x"] >= 16, box["x"] + box["width"] <= width - 16, box["y"] + box["height"] <= 640) == (
        True,
        True,
        True,
    )
    assert opened.inside("(d => d.scrollWidth <= d.clientWidth)(root.querySelector('dialog'))")
    assert opened.inside(
        "[...root.querySelectorAll('dialog .named')].every((one) => one.scrollWidth <= one.clientWidth)"
    )
    assert (
        opened.inside("Math.min(...[...root.querySelectorAll('dialog .choice')].map((one) => one.offsetHeight))") >= 44
    )
    context.close()
