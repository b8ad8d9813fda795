"""Streams end or are refused: slow clients, tokens, limits and shutdown."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import UserId
from notifier.flow.live.hub import HEARTBEAT_INTERVAL, MAX_FACTS_AGE, MAX_STREAMS_PER_USER
from notifier.flow.live.streams_and_events import MAX_QUEUED_BURSTS
from tests.http.live_stream_client import LiveBackend, SlowBursts, event_types, run_live
from tests.support.in_memory_http_api import SERVICE_KEY

U1 = UserId("u1")
BURST_WINDOW = timedelta(minutes=2)
"""A mention later than this opens another burst."""


def test_slow_client_is_disconnected_without_affecting_others() -> None:
    async def scenario(live: LiveBackend) -> None:
        slow, healthy = await live.listen("u1", reading=False), await live.listen("u2")
        for _ in range(MAX_QUEUED_BURSTS + 1):
            live.backend.clock.advance(BURST_WINDOW)
            await live.mention()
        await slow.wait_closed()
        assert not slow.ended
        assert live.hub.metrics.registry.get_sample_value("notifier_streams_cut_total") == 1
        assert live.hub.stream_counts == {"u2": 1}
        assert not healthy.task or not healthy.task.done()

    run_live(scenario)


def test_blocked_write_is_disconnected() -> None:
    async def scenario(live: LiveBackend) -> None:
        slow = await live.listen("u1", reading=False)
        await live.drain()
        live.backend.clock.advance(HEARTBEAT_INTERVAL)
        await live.hub.check_streams()
        await slow.wait_closed()
        assert live.hub.stream_counts.total() == 0

    run_live(scenario)


def test_idle_stream_gets_only_heartbeats() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1")
        before = stream.body
        for wait in (HEARTBEAT_INTERVAL - timedelta(seconds=1), timedelta(seconds=1)):
            live.backend.clock.advance(wait)
            await live.hub.check_streams()
            await live.drain()
        assert stream.body == before + b":\n\n"

    run_live(scenario)


def test_stream_ends_when_its_token_expires() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1")
        live.backend.clock.advance(timedelta(minutes=15, seconds=29))
        await live.hub.check_streams()
        await live.drain()
        assert not stream.ended
        live.backend.clock.advance(timedelta(seconds=1))
        await live.hub.check_streams()
        await stream.wait_closed()
        assert stream.ended

    run_live(scenario)


def test_stream_of_a_deleted_user_ends() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1")
        [account] = live.backend.directory.accounts([U1]).values()
        live.backend.directory.enrol([replace(account, deleted=True)])
        live.backend.clock.advance(MAX_FACTS_AGE)
        await live.hub.refresh_outdated()
        await stream.wait_closed()
        assert stream.ended

    run_live(scenario)


def test_disconnected_client_leaves_no_state() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1")
        await stream.disconnect()
        listeners = live.hub.registry
        assert (listeners.listeners, dict(listeners.listeners_by_subject), live.hub.stream_counts.total()) == (
            {},
            {},
            0,
        )
        assert live.hub.metrics.registry.get_sample_value("notifier_streams") == 0

    run_live(scenario)


def test_streams_per_user_are_limited() -> None:
    async def scenario(live: LiveBackend) -> None:
        streams = [await live.listen("u1") for _ in range(MAX_STREAMS_PER_USER)]
        refused = await live.listen("u1")
        assert (refused.status, refused.headers["retry-after"]) == (429, "10")
        assert b'"code":"too_many_streams"' in refused.body
        assert (await live.listen("u2")).status == 200
        await streams[0].disconnect()
        assert (await live.listen("u1")).status == 200

    run_live(scenario)


def test_streams_per_process_are_limited() -> None:
    async def scenario(live: LiveBackend) -> None:
        live.hub.max_streams = 1
        await live.listen("u1")
        refused = await live.listen("u2")
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert b'"code":"streams_full"' in refused.body

    run_live(scenario)


def test_closing_process_ends_its_streams_and_refuses_others() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1")
        live.hub.close()
        await stream.wait_closed()
        assert stream.ended
        assert (await live.listen("u2")).status == 503

    run_live(scenario)


@pytest.mark.parametrize(("user", "status"), [("gone", 404), ("nobody", 404)])
def test_unknown_or_deleted_user_has_no_stream(user: str, status: int) -> None:
    async def scenario(live: LiveBackend) -> None:
        assert (await live.listen(user)).status == status
        assert live.hub.stream_counts.total() == 0

    run_live(scenario)


def test_service_key_opens_no_stream() -> None:
    async def scenario(live: LiveBackend) -> None:
        assert (await live.listen("u1", token=SERVICE_KEY)).status == 403
        assert (await live.listen("u1", token="x")).status == 401

    run_live(scenario)


def test_store_outage_refuses_new_streams_and_keeps_open_ones() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream = await live.listen("u1")
        live.backend.port_errors.store = StoreUnavailable()
        refused = await live.listen("u2")
        assert (refused.status, live.hub.stream_counts.total()) == (503, 1)
        await live.mention()
        assert event_types(await stream.next_events(3)) == ["count", "row", "count"]

    run_live(scenario)


def test_stream_that_opens_during_shutdown_is_ended() -> None:
    async def scenario(live: LiveBackend) -> None:
        bursts = SlowBursts(live.hub.bursts)
        live.hub.bursts = bursts
        opening = asyncio.create_task(live.listen("u1"))
        await bursts.requested.wait()
        live.hub.close()
        bursts.released.set()
        stream = await opening
        await stream.wait_closed()
        assert stream.ended
        assert not live.hub.background_tasks.tasks

    run_live(scenario)
