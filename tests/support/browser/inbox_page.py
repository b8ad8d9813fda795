"""Page object for the inbox element on its bare page."""

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
class InboxPage:
    page: Page
    address: str

    def open(self, *, before: str = "", token: str = TOKEN) -> Self:
        """Open the page and set the token; the script `before` runs in between."""
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
        """Evaluate a script in which `root` is the element's shadow root."""
        return self.page.evaluate(f"(() => {{ const root = {INSIDE}; return {script}; }})()")

    def scroll(self, top: int) -> None:
        self.inside(f"root.querySelector('.scroller').scrollTop = {top}")

    def turn(self, *states: str) -> None:
        """Switch the tab's visibility through these states."""
        self.page.evaluate(
            """states => states.forEach((state) => {
              Object.defineProperty(document, 'visibilityState', { value: state, configurable: true });
              document.dispatchEvent(new Event('visibilitychange'));
            })""",
            [*states],
        )

    def until(self, condition: Any) -> None:
        """Wait in the browser's event loop, so that its events are processed."""
        for _ in range(800):
            if condition():
                return
            self.page.wait_for_timeout(25)
        raise AssertionError("the condition never became true")


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeInboxPage(InboxPage):
    """The element with a fake server."""

    inbox: Inbox

    def live(self) -> Self:
        """Open the page and wait for rows and a connected stream."""
        self.open()
        expect(self.rows.first).to_be_visible()
        self.until(lambda: bool(self.inbox.streams))
        return self
