"""What isn't for a person moves no byte of that person's stream."""

from datetime import timedelta

import pytest

from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.users.subject_preferences import Volume
from notifier.flow.live.hub import FRESH_FOR
from tests.http.listening_client import LiveHouse, event_types, run_live

NOVA, BOB = (Subject(Kind.MENTION, UserId(name)) for name in ("nova", "bob"))
U1 = UserId("u1")
A_WHILE = timedelta(minutes=2)
"""A mention later than this opens a burst of its own."""


def test_strangers_to_a_restricted_burst_are_told_nothing_at_all() -> None:
    async def scenario(live: LiveHouse) -> None:
        house = live.house
        house.people.follow(UserId("u2"), BOB, house.clock.now() - timedelta(days=1))
        stranger, follower = await live.listen("u1"), await live.listen("u2")
        await live.mention("bob", protected=True)
        assert event_types(await follower.next_events(3)) == ["count", "row", "count"]
        await live.drain()
        before = stranger.body
        assert event_types(stranger.said) == ["count"]
        await live.settle()
        await live.drain()
        assert stranger.body == before

    run_live(scenario)


def test_a_stranger_s_stream_is_the_same_byte_for_byte_with_and_without_secrets() -> None:
    def life(secrets: int) -> bytes:
        async def scenario(live: LiveHouse) -> bytes:
            stream = await live.listen("u1")
            for _ in range(secrets):
                await live.mention("bob", protected=True)
            live.house.clock.advance(A_WHILE)
            live.hub.caught_up_at = live.house.clock.now()
            await live.hub.sweep()
            await live.mention("ada")
            await stream.next_events(3)
            return bytes(len(one.id) for one in stream.events) + repr([one.event for one in stream.events]).encode()

        return run_live(scenario)

    assert life(0) == life(40)


@pytest.mark.parametrize(
    "how", ["blocks the opener", "blocks the account", "is blocked by the account", "mutes", "leaves", "turns it off"]
)
def test_who_may_not_see_it_hears_nothing(how: str) -> None:
    async def scenario(live: LiveHouse) -> None:
        people = live.house.people
        match how:
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
        stream, other = await live.listen("u1"), await live.listen("u2")
        await live.mention()
        await other.next_events(3)
        await live.drain()
        assert event_types(stream.events) == ["count"]

    run_live(scenario)


def test_somebody_who_is_not_blocked_joins_and_the_item_is_a_row() -> None:
    async def scenario(live: LiveHouse) -> None:
        live.house.people.block(U1, UserId("ada"))
        stream = await live.listen("u1")
        await live.mention("ada")
        await live.mention("bob")
        _, row, count = await stream.next_events(3)
        assert (row.event, row.data["names"], row.data["tweet"]) == ("row", ["bob"], None)
        assert count.data == await live.unread("u1")

    run_live(scenario)


def test_a_hidden_burst_that_grows_stays_hidden() -> None:
    async def scenario(live: LiveHouse) -> None:
        await live.mention("ada")
        stream = await live.listen("u1")
        [item] = (await live.as_user("u1", "GET", "/v1/inbox"))["items"]
        await live.as_user("u1", "PUT", "/v1/inbox/marks", json={"bursts": [item["burst"]], "mark": "hidden"})
        await stream.next_events(2)
        await live.mention("bob")
        await live.drain()
        assert event_types(stream.events) == ["count", "hidden", "count"]

    run_live(scenario)


def test_a_block_made_elsewhere_is_honoured_within_the_bound_and_the_page_is_loaded_again() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        await stream.next_events()
        live.house.people.block(U1, UserId("ada"))
        live.house.clock.advance(FRESH_FOR)
        await live.hub.refresh_old()
        assert event_types(await stream.next_events(2)) == ["reset", "count"]
        await live.mention("ada")
        await live.drain()
        assert len(stream.events) == 3

    run_live(scenario)


def test_who_is_unblocked_elsewhere_hears_within_the_bound_what_opens_from_then_on() -> None:
    async def scenario(live: LiveHouse) -> None:
        people, nova = live.house.people, UserId("nova")
        people.block(nova, U1)
        stream = await live.listen("u1")
        await live.mention("ada")
        live.house.clock.advance(A_WHILE)
        people.unblock(nova, U1, live.house.clock.now())
        await live.hub.refresh_old()
        assert event_types(await stream.next_events(3)) == ["count", "reset", "count"]
        await live.mention("ada")
        *_, row, count = await stream.next_events(2)
        assert (row.event, count.data) == ("row", {"count": 1, "more": False})
        assert len((await live.as_user("u1", "GET", "/v1/inbox"))["items"]) == 1

    run_live(scenario)


def test_a_new_follow_is_heard_of_and_a_left_one_forgotten() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        live.house.people.follow(U1, BOB, live.house.clock.now())
        live.house.people.unfollow(U1, NOVA)
        live.house.clock.advance(FRESH_FOR)
        await live.hub.refresh_old()
        await stream.next_events(3)
        await live.mention("ada", "nova")
        await live.mention("ada", "bob")
        assert [one.data["subject"] for one in await stream.next_events(2) if one.event == "row"] == ["mention:bob"]

    run_live(scenario)
