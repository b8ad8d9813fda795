"""A partial page has no cursor, and a later page is never partial."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import pytest

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import StoreUnavailable
from notifier.ports.inbox import Timeline
from tests.flow.two_api_processes import KIM, warm_processes
from tests.flow.two_api_processes_with_failures import FailingSystem, key_of
from tests.support.simulator.inbox_visits import run_sync


def test_partial_cursor_safe() -> None:
    """The client keeps its list and sends the token of its last whole page once the store answers."""
    partial_pages = 0
    for seed in range(8):
        chance = Random(seed)
        system = FailingSystem(chance)
        for _ in range(40):
            system.change()
            process = chance.randrange(2)
            before = system.open(process, failing=0.0)
            assert before is not None
            system.change()
            opening = system.open(process, failing=0.5)
            if opening is None or not opening.page.partial:
                continue
            partial_pages += 1
            page = opening.page
            assert (page.next, page.seen, opening.badge) == (None, None, None)
            all_keys = [key_of(item) for item in system.all_items()]
            shown = [key_of(item) for item in before.page.items]
            assert {key_of(item) for item in page.items} <= {*all_keys, *shown}
            unseen = {key_of(item) for item in system.all_items() if item.unread} - {*shown}
            assert before.page.seen is not None
            run_sync(system.processes.inboxes[process].see(KIM, before.page.seen))
            assert [key_of(item) for item in system.all_pages(process)] == all_keys
            assert unseen == {key_of(item) for item in system.all_pages(process) if item.unread} - {*shown}
            after = system.open(process, failing=0.0)
            assert after is not None
            assert not after.page.partial
            assert [key_of(item) for item in after.page.items] == all_keys[:20]
    assert partial_pages > 20


@dataclass
class WithoutOlderBursts:
    """A timeline that reads rows and single bursts, but no lists of older bursts."""

    timeline: Timeline

    def __getattr__(self, name: str) -> Any:
        return getattr(self.timeline, name)

    async def older_than(self, *_: object) -> Sequence[Burst]:
        raise StoreUnavailable("older_than")


def test_later_page_is_refused_if_it_would_be_partial() -> None:
    """It would have no cursor, and a client would take it for the last page."""
    processes = warm_processes()
    for number in range(5):
        processes.stage.pass_time(minutes=2)
        processes.stage.mention("nova", of=f"later-{number}")
    inbox = processes.inboxes[0]
    seen = run_sync(inbox.open(KIM)).page.seen
    assert seen is not None
    run_sync(inbox.see(KIM, seen))  # so the badge reads no older bursts
    processes.stage.state.pull.wipe()
    inbox.subject_cache.begin()
    inbox.subject_cache.run_length = 2
    first = run_sync(inbox.open(KIM, limit=1)).page
    timeline = inbox.subject_cache.timeline
    inbox.subject_cache.timeline = cast(Timeline, WithoutOlderBursts(timeline))
    with pytest.raises(StoreUnavailable):
        run_sync(inbox.open(KIM, after=first.next))
    inbox.subject_cache.timeline = timeline
    later = run_sync(inbox.open(KIM, after=first.next)).page
    assert (len(later.items), later.partial, later.next) == (5, False, None)
