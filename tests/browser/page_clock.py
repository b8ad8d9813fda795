"""A page's clock that tests advance; the page handles every response between two steps."""

from collections.abc import Callable
from time import monotonic

from playwright.sync_api import Page

Advance = Callable[[float], None]
"""Advances the page's clock by seconds."""

STEP_S = 20
"""The page gives up a request without a response after 30 s of its clock."""
COUNT_FETCHES = """
  window.unanswered = 0;
  const turn = () => new Promise((done) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = done;
    port2.postMessage(0);
  });
  const handled = async (answer) => {
    const { headers } = await answer;
    if (!headers.get('Content-Type')?.startsWith('text/event-stream')) await (await answer).clone().text();
    for (let turns = 0; turns < 5; turns += 1) await turn();
  };
  const { fetch } = window;
  window.fetch = (...request) => {
    window.unanswered += 1;
    const answer = fetch(...request);
    handled(answer).catch(() => {}).finally(() => { window.unanswered -= 1; });
    return answer;
  };
"""
"""Counts unanswered requests: the page sets the time of its next request only after it has handled a response."""


def page_clock(page: Page) -> Advance:
    """Return a function that advances the clock by seconds. Must be called before the page is opened."""
    page.clock.install()
    page.add_init_script(f"{{{COUNT_FETCHES}}}")

    def wait_for_answers() -> None:
        waited_until = monotonic() + 20
        while page.evaluate("window.unanswered"):
            assert monotonic() < waited_until, "a request has no response"
            page.wait_for_timeout(10)

    def advance(seconds: float) -> None:
        wait_for_answers()
        while seconds > 0:
            page.clock.run_for(int(min(seconds, STEP_S) * 1_000))
            wait_for_answers()
            seconds -= STEP_S

    return advance
