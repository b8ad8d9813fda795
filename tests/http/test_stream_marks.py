"""Marks set on one device reach the streams of the user's other devices."""

import pytest

from notifier.flow.live.streams_and_events import PAGE_SIZE
from tests.http.live_stream_client import LiveBackend, event_types, run_live
from tests.http.test_live_stream import BURST_WINDOW


async def mark(live: LiveBackend, burst: str, mark: str) -> None:
    await live.as_user("u1", "PUT", "/v1/inbox/marks", json={"bursts": [burst], "mark": mark})


async def newest_burst(live: LiveBackend) -> str:
    return str((await live.as_user("u1", "GET", "/v1/inbox"))["items"][0]["burst"])


@pytest.mark.parametrize("in_another_process", [False, True])
def test_hiding_a_seen_item_is_sent_without_a_badge(in_another_process: bool) -> None:
    async def scenario(live: LiveBackend) -> None:
        peer = LiveBackend(backend=live.backend) if in_another_process else live
        await live.mention()
        page = await live.as_user("u1", "GET", "/v1/inbox")
        await live.as_user("u1", "PUT", "/v1/inbox/seen", json={"token": page["seen"]})
        stream = await peer.listen("u1")
        await stream.next_events()
        await mark(live, page["items"][0]["burst"], "hidden")
        [hidden] = await stream.next_events()
        assert (hidden.event, hidden.data) == ("hidden", {"burst": page["items"][0]["burst"]})
        await mark(live, page["items"][0]["burst"], "read")
        [marked] = await stream.next_events()
        assert (marked.event, marked.data) == ("marked", (await live.as_user("u1", "GET", "/v1/inbox"))["items"][0])
        if in_another_process:
            await peer.close()

    run_live(scenario)


def test_mark_in_another_process_arrives_in_time_while_redis_stalls() -> None:
    async def scenario(live: LiveBackend) -> None:
        peer = LiveBackend(backend=live.backend)
        await live.mention()
        stream = await peer.listen("u1")
        await stream.next_events()
        live.backend.bus.stalled = True
        await mark(live, await newest_burst(live), "read")
        await live.settle()
        await peer.hub.refresh_outdated()
        assert event_types(await stream.next_events(2)) == ["marked", "count"]
        await peer.close()

    run_live(scenario)


def test_resume_after_a_missed_mark_is_a_reset() -> None:
    async def scenario(live: LiveBackend) -> None:
        await live.mention()
        await (await live.listen("u1")).disconnect()
        await live.settle()
        stream = await live.listen("u1")
        last = (await stream.next_events())[-1].id
        await stream.disconnect()
        await mark(live, await newest_burst(live), "unread")
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_event_id_covers_the_marks_sent_with_it() -> None:
    async def scenario(live: LiveBackend) -> None:
        await live.mention()
        await (await live.listen("u1")).disconnect()
        await live.settle()
        stream = await live.listen("u1")
        await stream.next_events()
        await mark(live, await newest_burst(live), "read")
        marked, count = await stream.next_events(2)
        assert event_types(await (await live.listen("u1", count.id)).next_events()) == ["count"]
        assert event_types(await (await live.listen("u1", marked.id)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_more_marks_than_a_page_are_a_reset() -> None:
    async def scenario(live: LiveBackend) -> None:
        for _ in range(PAGE_SIZE + 1):
            live.backend.clock.advance(BURST_WINDOW)
            await live.mention()
        stream = await live.listen("u1")
        await stream.next_events()
        page = await live.as_user("u1", "GET", "/v1/inbox?limit=100")
        body = {"bursts": [item["burst"] for item in page["items"]], "mark": "read"}
        await live.as_user("u1", "PUT", "/v1/inbox/marks", json=body)
        assert event_types(await stream.next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_unhidden_item_is_unread_until_seen() -> None:
    async def scenario(live: LiveBackend) -> None:
        await live.mention()
        stream, burst = await live.listen("u1"), await newest_burst(live)
        await stream.next_events()
        await mark(live, burst, "hidden")
        await stream.next_events(2)
        await mark(live, burst, "none")
        marked, count = await stream.next_events(2)
        assert (marked.event, marked.data["unread"], count.data["count"]) == ("marked", True, 1)
        await live.settle()
        token = (await live.as_user("u1", "GET", "/v1/inbox"))["seen"]
        await live.as_user("u1", "PUT", "/v1/inbox/seen", json={"token": token})
        assert (await stream.next_events())[-1].data["count"] == 0

    run_live(scenario)


def test_mark_is_not_sent_to_other_users() -> None:
    async def scenario(live: LiveBackend) -> None:
        await live.mention()
        stream = await live.listen("u2")
        before = stream.body
        await mark(live, await newest_burst(live), "hidden")
        await live.drain()
        assert stream.body == before

    run_live(scenario)
