"""Both pages in all their states, and what axe finds wrong with each; a state that is fine is told as well."""

from collections.abc import Iterable

from playwright.sync_api import Browser, Page

from notifier.testing.browser.axe import violations
from notifier.testing.browser.chromium import visit
from notifier.testing.browser.fake_inbox import Inbox, items
from notifier.testing.browser.fake_server import serving
from notifier.testing.browser.opened import Opened
from notifier.testing.browser.states import delivered, demo_states, inbox_states

Found = dict[str, list[str]]


def demo_found(browser: Browser, address: str, *, scheme: str, width: int) -> Found:
    """Of a demo that runs; its Redis is emptied on the way."""
    with visit(browser, scheme=scheme, width=width) as page:
        page.goto(address)
        delivered(page)
        return _found(page, demo_states(page), f"demo, {scheme}, {width}")


def inbox_found(browser: Browser, *, scheme: str, width: int) -> Found:
    inbox = Inbox(items=items(5))
    with serving(inbox) as address, visit(browser, scheme=scheme, width=width) as page:
        return _found(page, inbox_states(Opened(page=page, address=address, inbox=inbox)), f"inbox, {scheme}, {width}")


def _found(page: Page, states: Iterable[str], where: str) -> Found:
    return {f"{where}, {state}": violations(page) for state in states}
