"""Walks through the states of the demo's page and of the inbox element."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from playwright.sync_api import Page, Route, expect

from notifier.api.demo.traffic import STORM_CELEBRITIES
from tests.support.browser.chromium import TIMEOUT_MS
from tests.support.browser.fake_inbox import item, items
from tests.support.browser.inbox_page import FakeInboxPage

SNAPSHOT = """async () => {
  const token = document.querySelector("meta[name=demo-token]").content;
  return await (await fetch("/v1/system", { headers: { Authorization: `Bearer ${token}` } })).json();
}"""


ARRIVED = (
    {"kind": "vip", "place": "1", "language": "en", "text": "ada mentioned @nova"},
    {"kind": "vip", "place": "2", "language": "en", "text": "ada mentioned you"},
    {"kind": "active", "place": "1", "language": "ar", "text": "أشار \u2068ada\u2069 إلى \u2068@nova\u2069"},
)
STAR_DELIVERED = re.compile(rf"Burst mention:(?:{'|'.join(STORM_CELEBRITIES)})#\d+: .*Delivered;")
PLATFORMS = {"vip": ["apns"], "active": ["fcm", "web"], "occasional": [], "away": []}


class FakePhones:
    """Replaces the phones that the demo's page shows; it reloads the page, so that none has rung before."""

    def __init__(self, page: Page) -> None:
        self._rang: list[Mapping[str, str]] = []
        page.route("**/demo/phones?*", self._answer)
        page.reload()
        expect(page.locator("#phones > li")).to_have_count(len(PLATFORMS), timeout=TIMEOUT_MS)

    def ring(self, *alerts: Mapping[str, str]) -> None:
        at = datetime(2026, 1, 5, 12, tzinfo=UTC).isoformat()
        self._rang += [{**alert, "at": at} for alert in alerts]

    def _answer(self, route: Route) -> None:
        end, after = len(self._rang), int(route.request.url.rpartition("=")[2])
        phones = [
            {
                "kind": kind,
                "platforms": platforms,
                "alerts": [alert for alert in self._rang[after:end] if alert["kind"] == kind],
            }
            for kind, platforms in PLATFORMS.items()
        ]
        route.fulfill(json={"phones": phones, "after": end})


def wait_until_delivered(page: Page) -> None:
    """Wait until the demo's page says that a burst of a celebrity is delivered.

    Before their first burst the page shows those of the small accounts that the API mentions once a second.
    """
    expect(page.locator("#burst-text")).to_contain_text(STAR_DELIVERED, timeout=TIMEOUT_MS)
    expect(page.locator("#accounting-total")).to_contain_text("the accounting balances", timeout=TIMEOUT_MS)


def demo_states(page: Page) -> Iterator[str]:
    """Walk through the states of the demo's page, whose burst is delivered. Wipes the demo's Redis."""
    yield "delivered"
    FakePhones(page).ring(*ARRIVED)
    wait_until_delivered(page)
    expect(page.locator("#phones ol li")).to_have_count(len(ARRIVED), timeout=TIMEOUT_MS)
    yield "phones rang"
    page.click("#empty")
    expect(page.locator("#log code")).to_have_count(2, timeout=TIMEOUT_MS)
    yield "something happened"
    page.click("#pause")
    expect(page.locator("dialog")).to_be_visible()
    yield "asking for a reason"
    page.keyboard.press("Escape")
    snapshot = json.dumps(page.evaluate(SNAPSHOT) | {"loading": 37})

    def loading(route: Route) -> None:
        route.fulfill(content_type="text/event-stream", body=f"event: system\ndata: {snapshot}\n\n")

    page.route("**/v1/system/stream", loading)
    page.reload()
    expect(page.locator("#message")).to_contain_text("37 % of the users", timeout=TIMEOUT_MS)
    yield "loading"
    page.unroute("**/v1/system/stream")


def inbox_states(opened: FakeInboxPage) -> Iterator[str]:
    """Walk through the states of the bare element; its fake inbox is left empty."""
    yield from _with_rows(opened)
    yield from _without(opened)


def _with_rows(opened: FakeInboxPage) -> Iterator[str]:
    inbox, page = opened.inbox, opened.page
    inbox.page_gate.clear()
    opened.open()
    _shown(page, "Notifications")
    yield "loading"
    inbox.items = items(30)
    inbox.items[0].update(unread=True, names=["ada", "bob"], more=True)
    inbox.page_gate.set()
    _shown(page, "ada mentioned")
    yield "rows"
    opened.burst(0).focus()
    inbox.arrive(item(1000))
    _shown(page, "1 new")
    yield "pill"
    opened.rows.nth(1).locator(".more").click()
    _shown(page, "Hide")
    yield "menu"
    page.get_by_role("menuitem", name="Hide").click()
    _shown(page, "Notification hidden")
    yield "undo"
    page.get_by_role("button", name="Notification settings").click()
    page.get_by_label("Quiet hours").check()
    _shown(page, "Time zone")
    yield "settings"
    page.keyboard.press("Escape")
    page.context.set_offline(True)
    _shown(page, "You’re offline")
    yield "offline"
    page.context.set_offline(False)


def _without(opened: FakeInboxPage) -> Iterator[str]:
    inbox, page = opened.inbox, opened.page
    inbox.partial = True
    opened.open()
    _shown(page, "may be missing")
    yield "partial"
    inbox.partial, inbox.status = False, 503
    opened.open()
    _shown(page, "Notifications didn’t load")
    yield "failed"
    inbox.status, inbox.items = 200, []
    opened.open()
    _shown(page, "No notifications yet")
    yield "empty"
    opened.open(token="old")
    _shown(page, "Your session has ended")
    yield "expired"


def _shown(page: Page, text: str) -> None:
    expect(page.get_by_text(text).first).to_be_visible()
