"""Streams with digests stay correct while bursts are retracted or reads fail."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferencesPatch
from notifier.domain.users.subject_preferences import Volume
from notifier.flow.live.hub import MAX_FACTS_AGE
from tests.http.live_stream_client import LiveBackend, event_types, run_live
from tests.support.fakes.clock_and_nonces import START

U1 = UserId("u1")
NOVA = "mention:nova"
DUE = START.replace(hour=18)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class TimelineWithCallback:
    """A timeline that calls back after each read, before the caller gets the result."""

    port: Any
    callback: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    async def older_than(self, *arguments: Any) -> Any:
        bursts = await self.port.older_than(*arguments)
        self.callback()
        return bursts


def nova_burst(live: LiveBackend) -> Burst:
    [burst] = [burst for key, burst in live.backend.bursts.by_key.items() if str(key.subject) == NOVA]
    return burst


def retracted(burst: Burst) -> Burst:
    return replace(burst, version=burst.version + 1, count=0, silent=True)


def test_retraction_of_an_invisible_burst_is_not_sent() -> None:
    async def scenario(live: LiveBackend) -> None:
        clock, listeners = live.backend.clock, live.hub.registry
        live.backend.people.patch_account(U1, AccountPreferencesPatch(volume=Volume.DIGEST))
        stream = await live.listen("u1")
        await live.mention("bob", protected=True)
        await live.drain()
        hidden = nova_burst(live)
        clock.advance(DUE - clock.now() + 2 * SECOND)
        await listeners.send_due_digests()
        await live.settle()
        last = (await (await live.listen("u1")).next_events())[-1].id
        for burst in (retracted(hidden), replace(hidden, key=BurstKey(hidden.key.subject, 9))):
            listeners.deliver(burst)
        await live.drain()
        assert event_types(stream.events) == ["count"]
        assert event_types(await (await live.listen("u1", last)).next_events()) == ["count"]

    run_live(scenario)


def test_retraction_during_a_digest_read_sends_no_row() -> None:
    async def scenario(live: LiveBackend) -> None:
        clock, listeners = live.backend.clock, live.hub.registry
        live.backend.people.patch_account(U1, AccountPreferencesPatch(volume=Volume.DIGEST))
        stream = await live.listen("u1")
        await stream.next_events()
        await live.mention()
        await live.drain()
        clock.advance(DUE - clock.now() + 2 * SECOND)
        timeline = TimelineWithCallback(
            listeners.inbox.timeline, lambda: listeners.deliver(retracted(nova_burst(live)))
        )
        listeners.inbox = replace(listeners.inbox, timeline=timeline)
        await listeners.send_due_digests()
        assert event_types(await stream.next_events())[0] == "reset"
        await live.drain()
        assert "row" not in event_types(stream.events)

    run_live(scenario)


@dataclass(frozen=True)
class FailingTimeline:
    """A timeline that fails when it is asked for one subject."""

    port: Any
    subject: Subject

    def __getattr__(self, name: str) -> Any:
        return getattr(self.port, name)

    async def older_than(self, subjects: Collection[Subject], *arguments: Any) -> Any:
        if self.subject in subjects:
            raise StoreUnavailable("Too slow.")
        return await self.port.older_than(subjects, *arguments)


def test_unreadable_digest_of_one_user_does_not_delay_others() -> None:
    async def scenario(live: LiveBackend) -> None:
        backend, listeners, bob = live.backend, live.hub.registry, Subject(Kind.MENTION, UserId("bob"))
        backend.people.follow(U1, bob, backend.clock.now())
        for user in (U1, UserId("u2")):
            backend.people.patch_account(user, AccountPreferencesPatch(volume=Volume.DIGEST))
        failing, healthy = await live.listen("u1"), await live.listen("u2")
        await healthy.next_events()
        await live.mention()
        await live.drain()
        backend.clock.advance(DUE - backend.clock.now() + 2 * SECOND)
        timeline = listeners.inbox.timeline
        listeners.inbox = replace(listeners.inbox, timeline=FailingTimeline(timeline, bob))
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await listeners.send_due_digests()
        assert event_types(await healthy.next_events(2)) == ["row", "count"]
        listeners.inbox = replace(listeners.inbox, timeline=timeline)
        await listeners.send_due_digests()
        assert event_types((await failing.next_events(3))[1:]) == ["row", "count"]

    run_live(scenario)


def test_uncountable_badge_of_one_user_does_not_delay_others() -> None:
    async def scenario(live: LiveBackend) -> None:
        backend, listeners, bob = live.backend, live.hub.registry, Subject(Kind.MENTION, UserId("bob"))
        failing, healthy = await live.listen("u1"), await live.listen("u2")
        await failing.next_events()
        await healthy.next_events()
        backend.people.follow(U1, bob, backend.clock.now())
        backend.people.patch_account(U1, AccountPreferencesPatch(volume=Volume.DIGEST))
        backend.people.block(UserId("u2"), UserId("ada"))
        listeners.inbox = replace(listeners.inbox, timeline=FailingTimeline(listeners.inbox.timeline, bob))
        backend.clock.advance(MAX_FACTS_AGE)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await live.hub.refresh_outdated()
        assert event_types(await healthy.next_events(2)) == ["reset", "count"]

    run_live(scenario)
