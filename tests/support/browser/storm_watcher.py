"""Starts storms on the demo's page and reads from the page how long they took."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from playwright.sync_api import Browser, Page

from tests.support.browser.chromium import visit
from tests.support.browser.page_states import wait_until_delivered

STORM_INTERVAL_SECONDS = 30.0
"""Time between two clicks: longer than a storm of 8 s and the demo's collapse window of 20 s together."""
TIMEOUT_SECONDS = 90.0
POLL_INTERVAL_MS = 50
"""Milliseconds between two reads; the page itself changes each second."""
BURST = re.compile(r"Burst (\S+): ")
TOOK = re.compile(r"([\d,]+) users, within ([\d,.]+) s of the tweet")
SHOWN = """() => ({
  burst: document.querySelector("#burst-text").textContent,
  followers: document.querySelector("#followers").textContent,
  p1: document.querySelectorAll(".tier")[1].querySelector(".reached").textContent,
})"""
"""Read at once, so that all belong to one burst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StormTimes:
    """Numbers of a storm as the demo's page showed them."""

    burst: str
    followers: int
    people: int
    """Users of tier P1."""
    reported_s: float
    """Duration of P1 on the page, from the acceptance of the first mention."""
    shown_s: float
    """Seconds from the click until the page showed the duration."""


@dataclass(slots=True, kw_only=True)
class Watcher:
    page: Page
    free_at: float
    """End of the last burst's collapse window: a storm then begins a new burst."""

    @classmethod
    @contextmanager
    def on(cls, browser: Browser, address: str) -> Iterator["Watcher"]:
        """Open the page of a fully loaded demo and wait for its first burst."""
        with visit(browser) as page:
            page.goto(address)
            wait_until_delivered(page)
            yield cls(page=page, free_at=monotonic() + STORM_INTERVAL_SECONDS)

    def storm(self) -> StormTimes:
        """Start a storm that begins a burst of its own.

        Raises TimeoutError if the page does not show how long P1 took.
        """
        self.page.wait_for_timeout(max(0.0, self.free_at - monotonic()) * 1_000)
        before = _burst(self._shown())
        pressed = monotonic()
        self.free_at = pressed + STORM_INTERVAL_SECONDS
        with self.page.expect_response("**/demo/storm*") as answered:
            self.page.click("#storm")
        says = answered.value.json()["message"]
        assert "a new burst" in says, says
        times = self._read(before, pressed)
        wait_until_delivered(self.page)
        return times

    def _read(self, before: str, pressed: float) -> StormTimes:
        while (elapsed := monotonic() - pressed) < TIMEOUT_SECONDS:
            shown = self._shown()
            took = TOOK.fullmatch(shown["p1"])
            if took and _burst(shown) != before:
                people, reported = (part.replace(",", "") for part in took.groups())
                followers = int(shown["followers"].replace(",", ""))
                return StormTimes(
                    burst=_burst(shown),
                    followers=followers,
                    people=int(people),
                    reported_s=float(reported),
                    shown_s=elapsed,
                )
            self.page.wait_for_timeout(POLL_INTERVAL_MS)
        raise TimeoutError(f"The page says after {TIMEOUT_SECONDS:g} s: {' '.join(self._shown().values())}")

    def _shown(self) -> Mapping[str, str]:
        shown: Mapping[str, str] = self.page.evaluate(SHOWN)
        return shown


def _burst(shown: Mapping[str, str]) -> str:
    match_ = BURST.match(shown["burst"])
    return match_[1] if match_ else ""
