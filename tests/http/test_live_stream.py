"""A user's live stream: rows, updates, the badge and marks."""

from datetime import timedelta

import pytest

from notifier.domain.ids import Kind, Subject, UserId
from notifier.flow.live.hub import MAX_FACTS_AGE
from notifier.flow.live.streams_and_events import MAX_QUEUED_BURSTS
from tests.http.live_stream_client import LiveBackend, OpenStream, event_types, run_live

NOVA = Subject(Kind.MENTION, UserId("nova"))
BURST_WINDOW = timedelta(minutes=2)
"""A mention later than this opens another burst."""


def test_stream_begins_with_the_badge_and_a_retry_interval() -> None:
    async def scenario(live: LiveBackend) -> None:
        await live.mention()
        stream = await live.listen("u1")
        assert stream.body.startswith(b"retry: 2000\n\n")
        assert [(event.event, event.data) for event in await stream.next_events()] == [
            ("count", {"count": 1, "more": False})
        ]
        expected = {"cache-control": "no-store", "x-accel-buffering": "no"}
        assert expected.items() <= stream.headers.items()
        assert stream.headers["content-type"].startswith("text/event-stream")

    run_live(scenario)


def test_new_burst_is_a_row_followed_by_the_badge() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1")
        await stream.next_events()
        await live.mention()
        row, count = await stream.next_events(2)
        [item] = (await live.as_user("u1", "GET", "/v1/inbox"))["items"]
        assert (row.event, row.data) == ("row", item)
        assert (count.event, count.data) == ("count", await live.unread("u1"))

    run_live(scenario)


def test_growing_burst_is_a_group_event_without_a_badge() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1")
        await live.mention("ada")
        await stream.next_events(3)
        await live.mention("bob")
        [group] = await stream.next_events()
        assert (group.event, group.data["count"], group.data["names"]) == ("group", 2, ["ada", "bob"])

    run_live(scenario)


def test_one_bus_message_serves_every_listener() -> None:
    async def scenario(live: LiveBackend) -> None:
        streams = [await live.listen(user) for user in ("u1", "u2", "u3", "u1")]
        await live.mention()
        for stream in streams:
            assert event_types(await stream.next_events(3)) == ["count", "row", "count"]
        assert [burst.key.subject for burst in live.backend.bus.published].count(NOVA) == 1
        ids = [stream.events[1].data["burst"] for stream in streams]
        assert (len(set(ids)), ids[0]) == (3, ids[3])

    run_live(scenario)


def test_storm_on_one_burst_waits_as_one_event() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1", reading=False)
        for _ in range(MAX_QUEUED_BURSTS * 2):
            await live.mention()
        stream.reading.set()
        events = await stream.next_events(3)
        assert event_types(events) == ["count", "row", "count"]
        assert events[1].data["count"] == MAX_QUEUED_BURSTS * 2

    run_live(scenario)


def test_mentioned_account_gets_its_own_item() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("nova")
        await live.mention()
        _, row, _ = await stream.next_events(3)
        assert row.data["text"] == "ada mentioned you"

    run_live(scenario)


@pytest.mark.parametrize("mark", ["read", "unread", "hidden"])
def test_own_mark_is_sent_with_the_new_badge(mark: str) -> None:
    async def scenario(live: LiveBackend) -> None:
        await live.mention()
        stream = await live.listen("u1")
        await stream.next_events()
        [item] = (await live.as_user("u1", "GET", "/v1/inbox"))["items"]
        body = {"bursts": [item["burst"]], "mark": mark}
        await live.as_user("u1", "PUT", "/v1/inbox/marks", json=body)
        if mark == "unread":  # the item was unread before
            assert event_types(await stream.next_events()) == ["marked"]
            return
        _, count = await stream.next_events(2)
        assert (count.event, count.data) == ("count", await live.unread("u1"))

    run_live(scenario)


def test_seen_on_one_stream_updates_the_badge_of_another() -> None:
    async def scenario(live: LiveBackend) -> None:
        await live.mention()
        streams = [await live.listen("u1"), await live.listen("u1")]
        token = (await live.as_user("u1", "GET", "/v1/inbox"))["seen"]
        await live.as_user("u1", "PUT", "/v1/inbox/seen", json={"token": token})
        for stream in streams:
            assert (await stream.next_events(2))[-1].data == {"count": 0, "more": False}

    run_live(scenario)


def test_mark_in_another_process_reaches_the_badge_in_time() -> None:
    async def scenario(live: LiveBackend) -> None:
        peer = LiveBackend(backend=live.backend)
        await live.mention()
        stream = await live.listen("u1")
        await stream.next_events()
        token = (await peer.as_user("u1", "GET", "/v1/inbox"))["seen"]
        await peer.as_user("u1", "PUT", "/v1/inbox/seen", json={"token": token})
        live.backend.clock.advance(MAX_FACTS_AGE)
        await live.hub.refresh_outdated()
        [count] = await stream.next_events()
        assert (count.event, count.data) == ("count", {"count": 0, "more": False})
        await peer.close()

    run_live(scenario)


def test_stream_badge_always_matches_the_unread_count() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1")
        await live.mention("ada")
        for number in range(30):
            live.backend.clock.advance(BURST_WINDOW)
            await live.mention("bob" if number % 3 else "ada", "nova", protected=not number % 5)
            if number % 7 == 3:
                page = await live.as_user("u1", "GET", "/v1/inbox")
                body = {"bursts": [page["items"][0]["burst"]], "mark": ["read", "hidden", "unread"][number // 7 % 3]}
                await live.as_user("u1", "PUT", "/v1/inbox/marks", json=body)
            if number == 20:
                token = (await live.as_user("u1", "GET", "/v1/inbox"))["seen"]
                await live.as_user("u1", "PUT", "/v1/inbox/seen", json={"token": token})
            expected = await live.unread("u1")
            await stream.wait_until(lambda expected=expected: counts(stream)[-1] == expected)  # type: ignore[misc] # mypy can't infer it

    run_live(scenario)


def test_badge_above_the_limit_says_more() -> None:
    async def scenario(live: LiveBackend) -> None:
        for _ in range(99):
            live.backend.clock.advance(BURST_WINDOW)
            await live.mention()
        stream = await live.listen("u1")
        for _ in range(3):
            live.backend.clock.advance(BURST_WINDOW)
            await live.mention()
            await live.drain()
        badges = counts(stream)
        assert badges == [{"count": 99, "more": False}, {"count": 100, "more": False}, {"count": 100, "more": True}]
        assert badges[-1] == await live.unread("u1")

    run_live(scenario)


def counts(stream: OpenStream) -> list[object]:
    return [event.data for event in stream.events if event.event == "count"]
