"""Bursts that a user may not see change no byte of that user's stream."""

from datetime import timedelta

import pytest

from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.users.subject_preferences import Volume
from notifier.flow.live.hub import MAX_FACTS_AGE
from tests.http.live_stream_client import LiveBackend, event_types, run_live

NOVA, BOB = (Subject(Kind.MENTION, UserId(name)) for name in ("nova", "bob"))
U1 = UserId("u1")
BURST_WINDOW = timedelta(minutes=2)
"""A mention later than this opens another burst."""


def test_restricted_burst_sends_nothing_to_strangers() -> None:
    async def scenario(live: LiveBackend) -> None:
        backend = live.backend
        backend.people.follow(UserId("u2"), BOB, backend.clock.now() - timedelta(days=1))
        stranger, follower = await live.listen("u1"), await live.listen("u2")
        await live.mention("bob", protected=True)
        assert event_types(await follower.next_events(3)) == ["count", "row", "count"]
        await live.drain()
        before = stranger.body
        assert event_types(stranger.events) == ["count"]
        await live.settle()
        await live.drain()
        assert stranger.body == before

    run_live(scenario)


def test_stranger_s_stream_is_the_same_with_and_without_secrets() -> None:
    def stream_with_secrets(secrets: int) -> bytes:
        async def scenario(live: LiveBackend) -> bytes:
            stream = await live.listen("u1")
            for _ in range(secrets):
                await live.mention("bob", protected=True)
            live.backend.clock.advance(BURST_WINDOW)
            live.hub.caught_up_at = live.backend.clock.now()
            await live.hub.sweep()
            await live.mention("ada")
            await stream.next_events(3)
            return (
                bytes(len(event.id) for event in stream.events)
                + repr([event.event for event in stream.events]).encode()
            )

        return run_live(scenario)

    assert stream_with_secrets(0) == stream_with_secrets(40)


@pytest.mark.parametrize(
    "reason",
    ["blocks the opener", "blocks the account", "is blocked by the account", "mutes", "leaves", "turns it off"],
)
def test_invisible_burst_is_not_sent(reason: str) -> None:
    async def scenario(live: LiveBackend) -> None:
        people = live.backend.people
        match reason:
            case "blocks the opener":
                people.block(U1, UserId("ada"))
            case "blocks the account":
                people.block(U1, UserId("nova"))
            case "is blocked by the account":
                people.block(UserId("nova"), U1)
            case "mutes":
                people.mute(U1, NOVA)
            case "leaves":
                people.unfollow(U1, NOVA)
            case _:
                people.volume(U1, NOVA, Volume.OFF)
        stream, unaffected = await live.listen("u1"), await live.listen("u2")
        await live.mention()
        await unaffected.next_events(3)
        await live.drain()
        assert event_types(stream.events) == ["count"]

    run_live(scenario)


def test_burst_becomes_a_row_when_an_unblocked_author_joins() -> None:
    async def scenario(live: LiveBackend) -> None:
        live.backend.people.block(U1, UserId("ada"))
        stream = await live.listen("u1")
        await live.mention("ada")
        await live.mention("bob")
        _, row, count = await stream.next_events(3)
        assert (row.event, row.data["names"], row.data["tweet"]) == ("row", ["bob"], None)
        assert count.data == await live.unread("u1")

    run_live(scenario)


def test_hidden_burst_that_grows_stays_hidden() -> None:
    async def scenario(live: LiveBackend) -> None:
        await live.mention("ada")
        stream = await live.listen("u1")
        [item] = (await live.as_user("u1", "GET", "/v1/inbox"))["items"]
        await live.as_user("u1", "PUT", "/v1/inbox/marks", json={"bursts": [item["burst"]], "mark": "hidden"})
        await stream.next_events(2)
        await live.mention("bob")
        await live.drain()
        assert event_types(stream.events) == ["count", "hidden", "count"]

    run_live(scenario)


def test_block_in_another_process_resets_the_stream_in_time() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1")
        await stream.next_events()
        live.backend.people.block(U1, UserId("ada"))
        live.backend.clock.advance(MAX_FACTS_AGE)
        await live.hub.refresh_outdated()
        assert event_types(await stream.next_events(2)) == ["reset", "count"]
        await live.mention("ada")
        await live.drain()
        assert len(stream.events) == 3

    run_live(scenario)


def test_unblock_in_another_process_shows_later_bursts() -> None:
    async def scenario(live: LiveBackend) -> None:
        people, nova = live.backend.people, UserId("nova")
        people.block(nova, U1)
        stream = await live.listen("u1")
        await live.mention("ada")
        live.backend.clock.advance(BURST_WINDOW)
        people.unblock(nova, U1, live.backend.clock.now())
        await live.hub.refresh_outdated()
        assert event_types(await stream.next_events(3)) == ["count", "reset", "count"]
        await live.mention("ada")
        *_, row, count = await stream.next_events(2)
        assert (row.event, count.data) == ("row", {"count": 1, "more": False})
        assert len((await live.as_user("u1", "GET", "/v1/inbox"))["items"]) == 1

    run_live(scenario)


def test_stream_applies_follows_and_unfollows() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1")
        live.backend.people.follow(U1, BOB, live.backend.clock.now())
        live.backend.people.unfollow(U1, NOVA)
        live.backend.clock.advance(MAX_FACTS_AGE)
        await live.hub.refresh_outdated()
        await stream.next_events(3)
        await live.mention("ada", "nova")
        await live.mention("ada", "bob")
        assert [event.data["subject"] for event in await stream.next_events(2) if event.event == "row"] == [
            "mention:bob"
        ]

    run_live(scenario)
