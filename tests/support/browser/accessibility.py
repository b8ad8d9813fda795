"""Finds accessibility violations with axe on both pages, in each of their states."""

from collections.abc import Iterable
from typing import Any

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped] # ships neither types nor stubs
from playwright.sync_api import Browser, Page

from tests.support.browser.chromium import visit
from tests.support.browser.fake_inbox import Inbox, items
from tests.support.browser.fake_server import serving
from tests.support.browser.inbox_page import FakeInboxPage
from tests.support.browser.page_states import demo_states, inbox_states, wait_until_delivered

# Run axe on a page.

RUN = """() => axe.run({ resultTypes: ["violations"] }).then(({ violations }) =>
  violations.map(({ id, nodes }) => ({ id, target: nodes[0].target })))"""


def violations(page: Page) -> list[str]:
    """Return each violated rule with its first place; shadow trees are included."""
    if page.evaluate(
        "typeof axe === 'undefined'"
    ):  # axe is half a megabyte, and stays loaded until the document is left
        page.evaluate(Axe().axe_script)
    violations_: list[dict[str, Any]] = page.evaluate(RUN)
    return [f"{violation['id']} at {violation['target']}" for violation in violations_]


Violations = dict[str, list[str]]


def demo_violations(browser: Browser, address: str, *, scheme: str, width: int) -> Violations:
    """Check a running demo; its Redis is wiped on the way."""
    with visit(browser, scheme=scheme, width=width) as page:
        page.goto(address)
        wait_until_delivered(page)
        return _violations_by_state(page, demo_states(page), f"demo, {scheme}, {width}")


def inbox_violations(browser: Browser, *, scheme: str, width: int) -> Violations:
    inbox = Inbox(items=items(5))
    with serving(inbox) as address, visit(browser, scheme=scheme, width=width) as page:
        return _violations_by_state(
            page, inbox_states(FakeInboxPage(page=page, address=address, inbox=inbox)), f"inbox, {scheme}, {width}"
        )


def _violations_by_state(page: Page, states: Iterable[str], where: str) -> Violations:
    return {f"{where}, {state}": violations(page) for state in states}
