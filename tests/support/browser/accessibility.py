"""Both pages in all their states, and what axe finds wrong with each; a state that is fine is told as well."""

from collections.abc import Iterable
from typing import Any

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped] # ships neither types nor stubs
from playwright.sync_api import Browser, Page

from tests.support.browser.chromium import visit
from tests.support.browser.fake_inbox import Inbox, items
from tests.support.browser.fake_server import serving
from tests.support.browser.page import Opened
from tests.support.browser.states import delivered, demo_states, inbox_states

# What axe finds wrong with a page.

RUN = """() => axe.run({ resultTypes: ["violations"] }).then(({ violations }) =>
  violations.map(({ id, nodes }) => ({ id, target: nodes[0].target })))"""


def violations(page: Page) -> list[str]:
    """The rules that are broken, each with the first place where it is; shadow trees included."""
    if page.evaluate("typeof axe === 'undefined'"):  # half a megabyte, which a document keeps until it is left
        page.evaluate(Axe().axe_script)
    found: list[dict[str, Any]] = page.evaluate(RUN)
    return [f"{one['id']} at {one['target']}" for one in found]


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
