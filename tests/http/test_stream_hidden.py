"""What isn't for a person moves no byte of that person's stream."""

from datetime import timedelta

import pytest

from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.users.subject_preferences import Volume
from notifier.flow.live.hub import FRESH_FOR
from tests.http.listening_client import Studio, events, on_air

NOVA, BOB = (Subject(Kind.MENTION, UserId(name)) for name in ("nova", "bob"))
U1 = UserId("u1")
A_WHILE = timedelta(minutes=2)
"""A mention later than this opens a burst of its own."""


def test_strangers_to_a_restricted_burst_are_told_nothing_at_all() -> None:
    async def play(studio: Studio) -> None:
        house = studio.house
        house.people.follow(UserId("u2"), BOB, house.clock.now() - timedelta(days=1))
        stranger, follower = await studio.listen("u1"), await studio.listen("u2")
        await studio.mention("bob", protected=True)
        assert events(await follower.hear(3)) == ["count", "row", "count"]
        await studio.quiet()
        before = stranger.body
        assert events(stranger.said) == ["count"]
        await studio.settle()
        await studio.quiet()
        assert stranger.body == before

    on_air(play)


def test_a_stranger_s_stream_is_the_same_byte_for_byte_with_and_without_secrets() -> None:
    def life(secrets: int) -> bytes:
        async def play(studio: Studio) -> bytes:
            ear = await studio.listen("u1")
            for _ in range(secrets):
                await studio.mention("bob", protected=True)
            studio.house.clock.advance(A_WHILE)
            studio.hub.caught_up_at = studio.house.clock.now()
            await studio.hub.sweep()
            await studio.mention("ada")
            await ear.hear(3)
            return bytes(len(one.id) for one in ear.said) + repr([one.event for one in ear.said]).encode()

        return on_air(play)

    assert life(0) == life(40)


@pytest.mark.parametrize(
    "how", ["blocks the opener", "blocks the account", "is blocked by the account", "mutes", "leaves", "turns it off"]
)
def test_who_may_not_see_it_hears_nothing(how: str) -> None:
    async def play(studio: Studio) -> None:
        people = studio.house.people
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
        ear, other = await studio.listen("u1"), await studio.listen("u2")
        await studio.mention()
        await other.hear(3)
        await studio.quiet()
        assert events(ear.said) == ["count"]

    on_air(play)


def test_somebody_who_is_not_blocked_joins_and_the_item_is_a_row() -> None:
    async def play(studio: Studio) -> None:
        studio.house.people.block(U1, UserId("ada"))
        ear = await studio.listen("u1")
        await studio.mention("ada")
        await studio.mention("bob")
        _, row, count = await ear.hear(3)
        assert (row.event, row.data["names"], row.data["tweet"]) == ("row", ["bob"], None)
        assert count.data == await studio.unread("u1")

    on_air(play)


def test_a_hidden_burst_that_grows_stays_hidden() -> None:
    async def play(studio: Studio) -> None:
        await studio.mention("ada")
        ear = await studio.listen("u1")
        [item] = (await studio.as_user("u1", "GET", "/v1/inbox"))["items"]
        await studio.as_user("u1", "PUT", "/v1/inbox/marks", json={"bursts": [item["burst"]], "mark": "hidden"})
        await ear.hear(2)
        await studio.mention("bob")
        await studio.quiet()
        assert events(ear.said) == ["count", "hidden", "count"]

    on_air(play)


def test_a_block_made_elsewhere_is_honoured_within_the_bound_and_the_page_is_loaded_again() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1")
        await ear.hear()
        studio.house.people.block(U1, UserId("ada"))
        studio.house.clock.advance(FRESH_FOR)
        await studio.hub.refresh_old()
        assert events(await ear.hear(2)) == ["reset", "count"]
        await studio.mention("ada")
        await studio.quiet()
        assert len(ear.said) == 3

    on_air(play)


def test_who_is_unblocked_elsewhere_hears_within_the_bound_what_opens_from_then_on() -> None:
    async def play(studio: Studio) -> None:
        people, nova = studio.house.people, UserId("nova")
        people.block(nova, U1)
        ear = await studio.listen("u1")
        await studio.mention("ada")
        studio.house.clock.advance(A_WHILE)
        people.unblock(nova, U1, studio.house.clock.now())
        await studio.hub.refresh_old()
        assert events(await ear.hear(3)) == ["count", "reset", "count"]
        await studio.mention("ada")
        *_, row, count = await ear.hear(2)
        assert (row.event, count.data) == ("row", {"count": 1, "more": False})
        assert len((await studio.as_user("u1", "GET", "/v1/inbox"))["items"]) == 1

    on_air(play)


def test_a_new_follow_is_heard_of_and_a_left_one_forgotten() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1")
        studio.house.people.follow(U1, BOB, studio.house.clock.now())
        studio.house.people.unfollow(U1, NOVA)
        studio.house.clock.advance(FRESH_FOR)
        await studio.hub.refresh_old()
        await ear.hear(3)
        await studio.mention("ada", "nova")
        await studio.mention("ada", "bob")
        assert [one.data["subject"] for one in await ear.hear(2) if one.event == "row"] == ["mention:bob"]

    on_air(play)
