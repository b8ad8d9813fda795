"""A person's live stream: rows, growth, the badge, what was missed, and nothing of what isn't theirs to know."""

from datetime import timedelta

import pytest

from notifier.domain.ids import Kind, Subject, UserId
from notifier.flow.live.hub import FRESH_FOR
from notifier.flow.live.stream import MOST_WAITING
from tests.http.listening_client import LiveHouse, OpenStream, event_types, run_live

NOVA = Subject(Kind.MENTION, UserId("nova"))
A_WHILE = timedelta(minutes=2)
"""A mention later than this opens a burst of its own."""


def test_it_begins_with_the_badge_and_says_how_to_come_back() -> None:
    async def scenario(live: LiveHouse) -> None:
        await live.mention()
        stream = await live.listen("u1")
        assert stream.body.startswith(b"retry: 2000\n\n")
        assert [(one.event, one.data) for one in await stream.next_events()] == [("count", {"count": 1, "more": False})]
        wanted = {"cache-control": "no-store", "x-accel-buffering": "no"}
        assert wanted.items() <= stream.headers.items()
        assert stream.headers["content-type"].startswith("text/event-stream")

    run_live(scenario)


def test_a_new_burst_is_the_row_that_the_page_has_and_then_the_badge() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        await stream.next_events()
        await live.mention()
        row, count = await stream.next_events(2)
        [item] = (await live.as_user("u1", "GET", "/v1/inbox"))["items"]
        assert (row.event, row.data) == ("row", item)
        assert (count.event, count.data) == ("count", await live.unread("u1"))

    run_live(scenario)


def test_growth_is_told_as_such_and_moves_no_badge() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        await live.mention("ada")
        await stream.next_events(3)
        await live.mention("bob")
        [group] = await stream.next_events()
        assert (group.event, group.data["count"], group.data["names"]) == ("group", 2, ["ada", "bob"])

    run_live(scenario)


def test_one_message_on_the_bus_serves_every_listener() -> None:
    async def scenario(live: LiveHouse) -> None:
        ears = [await live.listen(user) for user in ("u1", "u2", "u3", "u1")]
        await live.mention()
        for stream in ears:
            assert event_types(await stream.next_events(3)) == ["count", "row", "count"]
        assert [burst.key.subject for burst in live.house.bus.heard].count(NOVA) == 1
        ids = [stream.events[1].data["burst"] for stream in ears]
        assert (len(set(ids)), ids[0]) == (3, ids[3])

    run_live(scenario)


def test_a_storm_on_one_burst_waits_as_one_event_with_the_last_text() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1", reading=False)
        for _ in range(MOST_WAITING * 2):
            await live.mention()
        stream.reading.set()
        said = await stream.next_events(3)
        assert event_types(said) == ["count", "row", "count"]
        assert said[1].data["count"] == MOST_WAITING * 2

    run_live(scenario)


def test_the_mentioned_hears_of_her_own_item() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("nova")
        await live.mention()
        _, row, _ = await stream.next_events(3)
        assert row.data["text"] == "ada mentioned you"

    run_live(scenario)


@pytest.mark.parametrize("mark", ["read", "unread", "hidden"])
def test_one_s_own_marks_are_told_and_in_the_badge_at_once(mark: str) -> None:
    async def scenario(live: LiveHouse) -> None:
        await live.mention()
        stream = await live.listen("u1")
        await stream.next_events()
        [item] = (await live.as_user("u1", "GET", "/v1/inbox"))["items"]
        body = {"bursts": [item["burst"]], "mark": mark}
        await live.as_user("u1", "PUT", "/v1/inbox/marks", json=body)
        if mark == "unread":  # as it was
            assert event_types(await stream.next_events()) == ["marked"]
            return
        _, count = await stream.next_events(2)
        assert (count.event, count.data) == ("count", await live.unread("u1"))

    run_live(scenario)


def test_what_was_seen_on_one_screen_is_out_of_the_badge_of_the_other() -> None:
    async def scenario(live: LiveHouse) -> None:
        await live.mention()
        ears = [await live.listen("u1"), await live.listen("u1")]
        token = (await live.as_user("u1", "GET", "/v1/inbox"))["seen"]
        await live.as_user("u1", "PUT", "/v1/inbox/seen", json={"token": token})
        for stream in ears:
            assert (await stream.next_events(2))[-1].data == {"count": 0, "more": False}

    run_live(scenario)


def test_marks_of_another_process_are_in_the_badge_within_the_bound() -> None:
    async def scenario(live: LiveHouse) -> None:
        other = LiveHouse(house=live.house)
        await live.mention()
        stream = await live.listen("u1")
        await stream.next_events()
        token = (await other.as_user("u1", "GET", "/v1/inbox"))["seen"]
        await other.as_user("u1", "PUT", "/v1/inbox/seen", json={"token": token})
        live.house.clock.advance(FRESH_FOR)
        await live.hub.refresh_old()
        [count] = await stream.next_events()
        assert (count.event, count.data) == ("count", {"count": 0, "more": False})
        await other.close()

    run_live(scenario)


def test_the_badge_on_the_stream_is_the_badge_of_the_moment_whatever_happens() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        await live.mention("ada")
        for number in range(30):
            live.house.clock.advance(A_WHILE)
            await live.mention("bob" if number % 3 else "ada", "nova", protected=not number % 5)
            if number % 7 == 3:
                page = await live.as_user("u1", "GET", "/v1/inbox")
                body = {"bursts": [page["items"][0]["burst"]], "mark": ["read", "hidden", "unread"][number // 7 % 3]}
                await live.as_user("u1", "PUT", "/v1/inbox/marks", json=body)
            if number == 20:
                token = (await live.as_user("u1", "GET", "/v1/inbox"))["seen"]
                await live.as_user("u1", "PUT", "/v1/inbox/seen", json={"token": token})
            wanted = await live.unread("u1")
            await stream.wait_until(lambda wanted=wanted: counts(stream)[-1] == wanted)  # type: ignore[misc] # mypy can't infer it

    run_live(scenario)


def test_a_badge_beyond_what_is_counted_says_more() -> None:
    async def scenario(live: LiveHouse) -> None:
        for _ in range(99):
            live.house.clock.advance(A_WHILE)
            await live.mention()
        stream = await live.listen("u1")
        for _ in range(3):
            live.house.clock.advance(A_WHILE)
            await live.mention()
            await live.drain()
        found = counts(stream)
        assert found == [{"count": 99, "more": False}, {"count": 100, "more": False}, {"count": 100, "more": True}]
        assert found[-1] == await live.unread("u1")

    run_live(scenario)


def counts(stream: OpenStream) -> list[object]:
    return [one.data for one in stream.events if one.event == "count"]
