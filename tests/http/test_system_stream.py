"""`/v1/system/stream` limits its watchers, and disconnects those that do not read."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from litestar import Litestar

from notifier.api.background.overview_snapshots import (
    MAX_OVERVIEW_STREAMS,
    OverviewStreamLimit,
    SharedSnapshots,
    SnapshotStream,
)
from notifier.api.event_stream import KEEP_ALIVE, EventStream
from tests.http.live_stream_client import WAIT_LIMIT, OpenStream, ScriptedReader, frozen_sleep, http_scope
from tests.support.in_memory_http_api import SERVICE_KEY, MemoryBackend

SCOPE = cast(Any, http_scope({}))


async def endless_events() -> AsyncGenerator[bytes]:
    while True:
        yield b"event: system\ndata: {}\n\n"
        await asyncio.sleep(0.01)


async def failing_events() -> AsyncGenerator[bytes]:
    yield b"event: system\ndata: {}\n\n"
    raise ZeroDivisionError


def watch(watchers: OverviewStreamLimit, *, reading: bool, events: AsyncGenerator[bytes] | None = None) -> OpenStream:
    """Open the event stream as a watcher."""
    stream = OpenStream()
    if reading:
        stream.reading.set()
    body = EventStream(SnapshotStream(watchers, events or endless_events())).to_asgi_response()
    stream.task = asyncio.create_task(body(SCOPE, cast(Any, stream.receive), cast(Any, stream.send)))
    return stream


def test_watcher_that_does_not_read_is_disconnected() -> None:
    async def scenario() -> None:
        watchers = OverviewStreamLimit(write_timeout=0.05)
        slow, healthy = watch(watchers, reading=False), watch(watchers, reading=True)
        await slow.wait_closed()
        assert not slow.ended
        assert watchers.open_count == 1
        assert len(await healthy.next_events(3)) >= 3
        await healthy.disconnect()
        assert watchers.open_count == 0

    asyncio.run(scenario())


def test_stream_failures_are_logged_and_disconnects_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        watchers = OverviewStreamLimit(write_timeout=0.05)
        await watch(watchers, reading=False).wait_closed()
        await watch(watchers, reading=True).disconnect()
        assert not caplog.records
        await watch(watchers, reading=True, events=failing_events()).wait_closed()

    asyncio.run(scenario())
    assert [record.message for record in caplog.records if record.name == "notifier.api"] == ["event stream failed"]


def test_watcher_over_the_limit_is_refused_until_one_leaves() -> None:
    async def scenario() -> None:
        app = MemoryBackend().app(frozen_sleep)
        streams = [await open_watcher(app) for _ in range(MAX_OVERVIEW_STREAMS + 1)]
        assert [stream.status for stream in streams] == [200] * MAX_OVERVIEW_STREAMS + [503]
        assert (b'"streams_full"' in streams[-1].body, streams[-1].headers["retry-after"]) == (True, "1")
        await streams[0].disconnect()
        streams.append(await open_watcher(app))
        assert streams[-1].status == 200
        for stream in streams:
            await stream.disconnect()

    asyncio.run(scenario())


async def open_watcher(app: Litestar) -> OpenStream:
    """Request the stream, and return it once it has begun or was refused."""
    headers = {"authorization": f"Bearer {SERVICE_KEY}", "host": "backend"}
    scope = {**http_scope(headers), "path": "/v1/system/stream", "raw_path": b"/v1/system/stream"}
    stream = OpenStream()
    stream.reading.set()
    stream.task = asyncio.create_task(cast(Any, app)(scope, stream.receive, stream.send))
    await stream.wait_until(lambda: bool(stream.body))
    return stream


def test_hanging_overview_read_still_sends_heartbeats() -> None:
    async def endless_read() -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    async def scenario() -> bytes:
        async with asyncio.timeout(WAIT_LIMIT):
            return await anext(SharedSnapshots(ScriptedReader(endless_read), snapshot_wait=0.01).events())

    assert asyncio.run(scenario()) == KEEP_ALIVE
