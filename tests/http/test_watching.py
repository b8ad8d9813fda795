"""`/v1/system/stream` is bounded: few watchers, each of whom reads, or is cut off."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from litestar import Litestar

from notifier.api.background.overview import MOST, Looking, Watchers, Watching
from notifier.api.event_stream import BEAT, EventStream
from tests.http.listening_client import WAIT_LIMIT, OpenStream, ScriptedReader, _scope, frozen_sleep
from tests.support.http_app import SERVICE_KEY, House

SCOPE = cast(Any, _scope({}))


async def for_ever() -> AsyncGenerator[bytes]:
    while True:
        yield b"event: system\ndata: {}\n\n"
        await asyncio.sleep(0.01)


async def broken() -> AsyncGenerator[bytes]:
    yield b"event: system\ndata: {}\n\n"
    raise ZeroDivisionError


def watch(watchers: Watchers, *, reads: bool, events: AsyncGenerator[bytes] | None = None) -> OpenStream:
    """Somebody who opened the stream."""
    stream = OpenStream()
    if reads:
        stream.reading.set()
    body = EventStream(Watching(watchers, events or for_ever())).to_asgi_response()
    stream.task = asyncio.create_task(body(SCOPE, cast(Any, stream.receive), cast(Any, stream.send)))
    return stream


def test_who_takes_nothing_is_cut_off_and_who_reads_stays() -> None:
    async def scenario() -> None:
        watchers = Watchers(taken_within=0.05)
        slow, other = watch(watchers, reading=False), watch(watchers, reading=True)
        await slow.wait_closed()
        assert not slow.ended
        assert watchers.here == 1
        assert len(await other.next_events(3)) >= 3
        await other.disconnect()
        assert watchers.here == 0

    asyncio.run(scenario())


def test_what_breaks_a_stream_is_in_the_log_and_who_went_or_was_cut_off_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        watchers = Watchers(taken_within=0.05)
        await watch(watchers, reading=False).wait_closed()
        await watch(watchers, reading=True).disconnect()
        assert not caplog.records
        await watch(watchers, reading=True, events=broken()).wait_closed()

    asyncio.run(scenario())
    assert [record.message for record in caplog.records if record.name == "notifier.api"] == ["event stream failed"]


def test_one_too_many_is_refused_and_may_come_back() -> None:
    async def scenario() -> None:
        app = House().app(frozen_sleep)
        ears = [await watching(app) for _ in range(MOST + 1)]
        assert [stream.status for stream in ears] == [200] * MOST + [503]
        assert (b'"streams_full"' in ears[-1].body, ears[-1].headers["retry-after"]) == (True, "1")
        await ears[0].leave()
        ears.append(await watching(app))
        assert ears[-1].status == 200
        for stream in ears:
            await stream.disconnect()

    asyncio.run(scenario())


async def watching(app: Litestar) -> OpenStream:
    """Somebody who asked for the stream, once there is an answer."""
    headers = {"authorization": f"Bearer {SERVICE_KEY}", "host": "house"}
    scope = {**_scope(headers), "path": "/v1/system/stream", "raw_path": b"/v1/system/stream"}
    stream = OpenStream()
    stream.reading.set()
    stream.task = asyncio.create_task(cast(Any, app)(scope, stream.receive, stream.send))
    await stream.wait_until(lambda: bool(stream.body))
    return stream


def test_while_a_look_hangs_the_line_says_that_it_lives() -> None:
    async def look() -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    async def scenario() -> bytes:
        async with asyncio.timeout(WAIT_LIMIT):
            return await anext(Looking(ScriptedReader(look), silent_for=0.01).events())

    assert asyncio.run(scenario()) == BEAT
