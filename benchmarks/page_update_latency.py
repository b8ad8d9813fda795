"""Measures how soon a mention is a row on an open page in Chromium."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.costs_and_figures import Figure, worst_at_most
from benchmarks.fanout.measured_notifier import FanoutStage, staged
from notifier.devkit.fixture.world import World
from notifier.domain.ids import Kind, Subject, UserId
from tests.support.browser.chromium import chromium

if TYPE_CHECKING:
    from tests.support.browser.inbox_page import InboxPage

VISIBLE_S = 1.0
ROUNDS, ROUNDS_QUICK = 30, 10
ROUND_PAUSE_SECONDS = 0.3
"""Seconds between two rounds."""
WORLD = World(universe=2_000, followers=2_000, celebrities=1, seed=1)


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    executable = chromium()
    from tests.support.browser.chromium import headless, visit
    from tests.support.browser.inbox_page import InboxPage

    with staged(folder / "seeing", WORLD, tell=tell, threshold=1, collapse="0") as stage:
        token = stage.token(_follower(stage))
        tell("one page")
        with headless(executable) as browser, visit(browser) as page:
            shown = InboxPage(page=page, address=f"{stage.instance.url}/static/inbox.html").open(token=token)
            _round(stage, shown)  # opens the page's stream, too
            seconds = [_round(stage, shown) for _ in range(ROUNDS_QUICK if quick else ROUNDS)]
    return [worst_at_most("live_visible_s{page}", seconds, VISIBLE_S, detail="From the 202 to the row on the page.")]


def _round(stage: FanoutStage, shown: "InboxPage") -> float:
    """Return the seconds from the 202 of a mention until the page has one more row."""
    before = shown.rows.count()
    stage.mention(WORLD.names[0])
    accepted = time.monotonic()
    shown.rows.nth(before).wait_for()
    seconds_ = time.monotonic() - accepted
    time.sleep(ROUND_PAUSE_SECONDS)
    return seconds_


def _follower(stage: FanoutStage) -> UserId:
    async def looked_for() -> UserId:
        try:
            subject = Subject(Kind.MENTION, WORLD.names[0])
            return (await stage.followers(stage.profile.read_ports().people, subject, 1))[0]
        finally:
            await stage.profile.close_reads()

    return asyncio.run(looked_for())
