"""The element on its bare page, as a test uses it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from playwright.sync_api import Locator, Page, expect

from tests.support.browser.fake_inbox import TOKEN, Inbox

ELEMENT = "document.querySelector('notifier-inbox')"
INSIDE = f"{ELEMENT}.shadowRoot"
SHOW = """token => {
  document.querySelector('form').hidden = true;
  const inbox = document.querySelector('notifier-inbox');
  inbox.hidden = false;
  inbox.token = token;
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    page: Page
    address: str

    def open(self, *, before: str = "", token: str = TOKEN) -> Self:
        """`before` runs in the page before the element has its token."""
        self.page.goto(self.address)
        if before:
            self.page.evaluate(before)
        self.page.evaluate(SHOW, token)
        return self

    @property
    def rows(self) -> Locator:
        return self.page.locator("notifier-inbox .row")

    @property
    def pill(self) -> Locator:
        return self.page.locator("notifier-inbox .pill")

    @property
    def badge(self) -> Locator:
        return self.page.locator("notifier-inbox .badge > [aria-hidden]")

    def burst(self, place: int) -> Locator:
        return self.rows.nth(place).locator(".open")

    def inside(self, script: str) -> Any:
        """`root` is the element's inside."""
        return self.page.evaluate(f"(() => {{ const root = {INSIDE}; return {script}; }})()")

    def scroll(self, top: int) -> None:
        self.inside(f"root.querySelector('.scroller').scrollTop = {top}")

    def turn(self, *states: str) -> None:
        """The tab goes to the front or to the back, at once as often as there are states."""
        self.page.evaluate(
            """states => states.forEach((state) => {
              Object.defineProperty(document, 'visibilityState', { value: state, configurable: true });
              document.dispatchEvent(new Event('visibilitychange'));
            })""",
            [*states],
        )

    def until(self, holds: Any) -> None:
        """Waits in the browser's time, so that its events go on."""
        for _ in range(800):
            if holds():
                return
            self.page.wait_for_timeout(25)
        raise AssertionError("it never came to be")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened(Shown):
    """Of a server that a test plays on."""

    inbox: Inbox

    def live(self) -> Self:
        """With rows, and a stream that has said something."""
        self.open()
        expect(self.rows.first).to_be_visible()
        self.until(lambda: bool(self.inbox.lines))
        return self


# What was seen on a page, without the browser that saw it: so it can be judged where none is installed.

OF_THE_INBOX = ("/static/notifier-inbox", "/v1/inbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A storm as the demo's page showed it to its visitor."""

    burst: str
    followers: int
    people: int
    """P1's."""
    told_s: float
    """What the page says that P1 took, from the acceptance of the first mention."""
    shown_s: float
    """From the press until the page said so."""


def without_inbox(sizes: Mapping[str, int]) -> Mapping[str, int]:
    """What is left of what was loaded, by path, where the element and its rows aren't on the page."""
    return {path: size for path, size in sizes.items() if not path.startswith(OF_THE_INBOX)}
