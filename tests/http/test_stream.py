"""A person's live stream: rows, growth, the badge, what was missed, and nothing of what isn't theirs to know."""

from datetime import timedelta

import pytest

from notifier.domain.ids import Kind, Subject, UserId
from notifier.flow.live.hub import FRESH_FOR
from notifier.flow.live.stream import MOST_WAITING
from tests.http.listening_client import Ear, Studio, events, on_air

NOVA = Subject(Kind.MENTION, UserId("nova"))
A_WHILE = timedelta(minutes=2)
"""A mention later than this opens a burst of its own."""


def test_it_begins_with_the_badge_and_says_how_to_come_back() -> None:
    async def play(studio: Studio) -> None:
        await studio.mention()
        ear = await studio.listen("u1")
        assert ear.body.startswith(b"retry: 2000\n\n")
        assert [(one.event, one.data) for one in await ear.hear()] == [("count", {"count": 1, "more": False})]
        wanted = {"cache-control": "no-store", "x-accel-buffering": "no"}
        assert wanted.items() <= ear.headers.items()
        assert ear.headers["content-type"].startswith("text/event-stream")

    on_air(play)


def test_a_new_burst_is_the_row_that_the_page_has_and_then_the_badge() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1")
        await ear.hear()
        await studio.mention()
        row, count = await ear.hear(2)
        [item] = (await studio.as_user("u1", "GET", "/v1/inbox"))["items"]
        assert (row.event, row.data) == ("row", item)
        assert (count.event, count.data) == ("count", await studio.unread("u1"))

    on_air(play)


def test_growth_is_told_as_such_and_moves_no_badge() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1")
        await studio.mention("ada")
        await ear.hear(3)
        await studio.mention("bob")
        [group] = await ear.hear()
        assert (group.event, group.data["count"], group.data["names"]) == ("group", 2, ["ada", "bob"])

    on_air(play)


def test_one_message_on_the_bus_serves_every_listener() -> None:
    async def play(studio: Studio) -> None:
        ears = [await studio.listen(user) for user in ("u1", "u2", "u3", "u1")]
        await studio.mention()
        for ear in ears:
            assert events(await ear.hear(3)) == ["count", "row", "count"]
        assert [burst.key.subject for burst in studio.house.bus.heard].count(NOVA) == 1
        ids = [ear.said[1].data["burst"] for ear in ears]
        assert (len(set(ids)), ids[0]) == (3, ids[3])

    on_air(play)


def test_a_storm_on_one_burst_waits_as_one_event_with_the_last_text() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1", reads=False)
        for _ in range(MOST_WAITING * 2):
            await studio.mention()
        ear.reads.set()
        said = await ear.hear(3)
        assert events(said) == ["count", "row", "count"]
        assert said[1].data["count"] == MOST_WAITING * 2

    on_air(play)


def test_the_mentioned_hears_of_her_own_item() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("nova")
        await studio.mention()
        _, row, _ = await ear.hear(3)
        assert row.data["text"] == "ada mentioned you"

    on_air(play)


@pytest.mark.parametrize("mark", ["read", "unread", "hidden"])
def test_one_s_own_marks_are_told_and_in_the_badge_at_once(mark: str) -> None:
    async def play(studio: Studio) -> None:
        await studio.mention()
        ear = await studio.listen("u1")
        await ear.hear()
        [item] = (await studio.as_user("u1", "GET", "/v1/inbox"))["items"]
        body = {"bursts": [item["burst"]], "mark": mark}
        await studio.as_user("u1", "PUT", "/v1/inbox/marks", json=body)
        if mark == "unread":  # as it was
            assert events(await ear.hear()) == ["marked"]
            return
        _, count = await ear.hear(2)
        assert (count.event, count.data) == ("count", await studio.unread("u1"))

    on_air(play)


def test_what_was_seen_on_one_screen_is_out_of_the_badge_of_the_other() -> None:
    async def play(studio: Studio) -> None:
        await studio.mention()
        ears = [await studio.listen("u1"), await studio.listen("u1")]
        token = (await studio.as_user("u1", "GET", "/v1/inbox"))["seen"]
        await studio.as_user("u1", "PUT", "/v1/inbox/seen", json={"token": token})
        for ear in ears:
            assert (await ear.hear(2))[-1].data == {"count": 0, "more": False}

    on_air(play)


def test_marks_of_another_process_are_in_the_badge_within_the_bound() -> None:
    async def play(studio: Studio) -> None:
        other = Studio(house=studio.house)
        await studio.mention()
        ear = await studio.listen("u1")
        await ear.hear()
        token = (await other.as_user("u1", "GET", "/v1/inbox"))["seen"]
        await other.as_user("u1", "PUT", "/v1/inbox/seen", json={"token": token})
        studio.house.clock.advance(FRESH_FOR)
        await studio.hub.refresh_old()
        [count] = await ear.hear()
        assert (count.event, count.data) == ("count", {"count": 0, "more": False})
        await other.close()

    on_air(play)


def test_the_badge_on_the_stream_is_the_badge_of_the_moment_whatever_happens() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1")
        await studio.mention("ada")
        for number in range(30):
            studio.house.clock.advance(A_WHILE)
            await studio.mention("bob" if number % 3 else "ada", "nova", protected=not number % 5)
            if number % 7 == 3:
                page = await studio.as_user("u1", "GET", "/v1/inbox")
                body = {"bursts": [page["items"][0]["burst"]], "mark": ["read", "hidden", "unread"][number // 7 % 3]}
                await studio.as_user("u1", "PUT", "/v1/inbox/marks", json=body)
            if number == 20:
                token = (await studio.as_user("u1", "GET", "/v1/inbox"))["seen"]
                await studio.as_user("u1", "PUT", "/v1/inbox/seen", json={"token": token})
            wanted = await studio.unread("u1")
            await ear.until(lambda wanted=wanted: counts(ear)[-1] == wanted)  # type: ignore[misc] # mypy can't infer it

    on_air(play)


def test_a_badge_beyond_what_is_counted_says_more() -> None:
    async def play(studio: Studio) -> None:
        for _ in range(99):
            studio.house.clock.advance(A_WHILE)
            await studio.mention()
        ear = await studio.listen("u1")
        for _ in range(3):
            studio.house.clock.advance(A_WHILE)
            await studio.mention()
            await studio.quiet()
        found = counts(ear)
        assert found == [{"count": 99, "more": False}, {"count": 100, "more": False}, {"count": 100, "more": True}]
        assert found[-1] == await studio.unread("u1")

    on_air(play)


def counts(ear: Ear) -> list[object]:
    return [one.data for one in ear.said if one.event == "count"]
