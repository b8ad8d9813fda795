"""The demo's page in a browser: storms, pause and ramp, killed worker, emptied Redis."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from notifier.api.demo.traffic import STORM_SECONDS
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from tests.browser.demo_process_and_visit import FOLLOWERS, SLOW, demo, visit
from tests.support.browser.accessibility import violations
from tests.support.browser.inbox_page import InboxPage
from tests.support.browser.page_states import wait_until_delivered
from tests.support.browser.storm_watcher import TOOK

COLLAPSE = STORM_SECONDS + 4
"""Seconds. A storm stays one burst on a slow machine, too, and the wait for the next one is short."""
NOVA = "mention:nova"
SHARDS = -(-FOLLOWERS // SHARD_MEMBERS)
PRESSED: list[datetime] = [datetime.now(UTC) - timedelta(seconds=STORM_SECONDS)]
"""The times at which storms of this module began."""

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[str]:
    with demo(tmp_path_factory.mktemp("demo"), collapse=COLLAPSE) as address:
        yield address


@pytest.fixture
def page(browser: Browser, home: str) -> Iterator[Page]:
    with visit(browser, home) as page:
        yield page


def get_json(page: Page, path: str, token: str | None) -> Any:
    return page.request.get(page.url + path, headers={"Authorization": f"Bearer {token}"}).json()


def vip_token(page: Page) -> str:
    """Return the token of the VIP user."""
    key = page.locator("meta[name=demo-token]").get_attribute("content")
    return str(get_json(page, "demo/people", key)["people"][0]["token"])


def start_storm(page: Page) -> None:
    """Open a new burst, which uses one of the hour's six fan-outs. Waits for the last collapse window first."""
    inbox = get_json(page, "v1/inbox", vip_token(page))
    opened = next(datetime.fromisoformat(item["opened_at"]) for item in inbox["items"] if item["subject"] == NOVA)
    earliest = max(opened + timedelta(seconds=COLLAPSE + 1), PRESSED[-1] + timedelta(seconds=STORM_SECONDS))
    page.wait_for_timeout(max(0.0, (earliest - datetime.now(UTC)).total_seconds()) * 1_000)
    answer = press_storm(page)
    while "still running" in answer:  # on a slow machine a storm takes longer than STORM_SECONDS
        page.wait_for_timeout(500)
        answer = press_storm(page)
    PRESSED.append(datetime.now(UTC))
    assert "a new burst" in answer


def press_storm(page: Page) -> str:
    with page.expect_response("**/demo/storm?of=nova") as response:
        page.click("#storm")
    return str(response.value.json()["message"])


def test_page_shows_burst_in_four_inboxes(page: Page) -> None:
    wait_until_delivered(page)
    expect(page.locator("#followers").first).to_contain_text(f"{FOLLOWERS:,}", timeout=SLOW)
    for kind, tier in {"VIP": "P0", "Active": "P1", "Occasional": "P2", "Away": "no row"}.items():
        page.get_by_role("radio", name=kind).check()
        expect(page.locator("#user-text")).to_contain_text(tier)
        expect(page.locator("notifier-inbox").get_by_text("@nova").first).to_be_visible()


def test_storm_fills_map_and_is_one_notification(page: Page, picture: Callable[[Page, str], None]) -> None:
    start_storm(page)
    expect(page.locator("#burst")).to_have_text(re.compile(r"[3-9]\d\d mentions of @nova"), timeout=SLOW)
    row = page.locator("notifier-inbox").get_by_text(re.compile(r"and others, \d{3} mentions of @nova"))
    expect(row.first).to_be_visible()
    picture(page, "demo.png")
    wait_until_delivered(page)
    expect(page.locator("canvas").first).to_have_attribute(
        "aria-label", f"p0: {SHARDS:,} of {SHARDS:,} shards delivered"
    )
    assert TOOK.fullmatch(
        page.locator(".tier").nth(1).locator(".reached").inner_text()
    )  # in the form that the benchmark reads
    assert "notifier storm --of nova" in page.locator("#log code").first.inner_text()
    assert page.locator("#log code").nth(1).inner_text().startswith("curl -X POST")


@pytest.mark.thorough
def test_storm_of_second_celebrity_reaches_a_tenth_of_users(page: Page) -> None:
    option = page.locator('#celebrity option[value="orion"]')
    expect(option).to_have_text(re.compile(r"@orion, \S+ followers"), timeout=SLOW)
    page.locator("#celebrity").select_option("orion")
    earliest = PRESSED[-1] + timedelta(seconds=STORM_SECONDS + 1)
    page.wait_for_timeout(max(0.0, (earliest - datetime.now(UTC)).total_seconds()) * 1_000)
    with page.expect_response("**/demo/storm?of=orion") as response:
        page.click("#storm")
    PRESSED.append(datetime.now(UTC))
    action = response.value.json()
    assert "a new burst" in action["message"]
    assert "--of orion" in action["cli"]
    expect(page.locator("#burst")).to_have_text(re.compile(r"\d+ mentions of @orion"), timeout=SLOW)
    expect(page.locator("#celebrity-name")).to_have_text("@orion")
    expect(page.locator("#followers")).to_have_text(f"{FOLLOWERS // 10:,}")
    expect(page.locator("notifier-inbox").get_by_text("@orion").first).to_be_visible()


def test_pause_parks_p2_and_ramp_delivers_it(page: Page) -> None:
    page.click("#pause")
    page.get_by_label("Reason").fill("a test of the pause")
    page.locator("dialog select").select_option("60")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator("#pause")).to_have_text("Lift the pause")
    start_storm(page)
    expect(page.locator(".tier").nth(1).locator(".reached")).to_contain_text("within", timeout=SLOW)
    parked = page.locator("#accounting div", has_text="parked").locator("dd")
    expect(parked).to_have_text(re.compile(r"[1-9][\d,]{5,}"), timeout=SLOW)
    expect(page.locator(".tier").nth(2).locator(".delay")).to_contain_text("paused")
    page.click("#pause")
    expect(page.locator(".tier").nth(2).locator(".delay")).to_contain_text("ramping up", timeout=SLOW)
    wait_until_delivered(page)
    expect(parked).to_have_text("0", timeout=SLOW)


def test_killed_worker_is_replaced_and_storm_delivered(page: Page) -> None:
    start_storm(page)
    page.locator("#role").select_option("p1")
    page.click("#kill")
    expect(page.locator("#log")).to_contain_text("are queued again when their claims expire")
    expect(page.locator("#log")).to_contain_text("p1 was replaced", timeout=SLOW)
    expect(page.locator("#roles li", has_text="p1")).to_contain_text("replaced", timeout=SLOW)
    wait_until_delivered(page)


def test_inbox_keeps_its_rows_after_redis_flush(page: Page) -> None:
    wait_until_delivered(page)
    rows = page.locator("notifier-inbox").get_by_text("@nova")
    expect(rows.first).to_be_visible()
    before = rows.count()
    page.click("#empty")
    expect(page.locator("#log")).to_contain_text("Redis was flushed")
    expect(page.locator("#log")).to_contain_text("the index has been rebuilt from it", timeout=SLOW)
    page.reload()
    expect(rows).to_have_count(before)
    wait_until_delivered(page)


@pytest.mark.thorough
def test_storms_are_a_few_rows_on_a_dark_phone(
    page: Page, browser: Browser, picture: Callable[[Page, str], None]
) -> None:
    with closing(
        browser.new_context(
            viewport={"width": 390, "height": 500}, device_scale_factor=2, color_scheme="dark", is_mobile=True
        )
    ) as context:
        phone = InboxPage(page=context.new_page(), address=f"{page.url}static/inbox.html").open(token=vip_token(page))
        expect(phone.rows.get_by_text(re.compile(r"and others, \d+ mentions of @nova")).first).to_be_visible()
        assert 4 <= phone.rows.count() < 10
        assert violations(phone.page) == []
        picture(phone.page, "inbox-phone.png")
