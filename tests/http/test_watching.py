"""`/v1/system/stream` is bounded: few watchers, each of whom reads, or is cut off."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from litestar import Litestar

from notifier.api.background.overview import MOST, Looking, Watchers, Watching
from notifier.api.event_stream import BEAT, EventStream
from tests.http.listening_client import WITHIN, Ear, ScriptedReader, _scope, still
from tests.support.http_app import SERVICE_KEY, House

SCOPE = cast(Any, _scope({}))


async def for_ever() -> AsyncGenerator[bytes]:
    while True:
        yield b"event: system\ndata: {}\n\n"
        await asyncio.sleep(0.01)


async def broken() -> AsyncGenerator[bytes]:
    yield b"event: system\ndata: {}\n\n"
    raise ZeroDivisionError


def watch(watchers: Watchers, *, reads: bool, events: AsyncGenerator[bytes] | None = None) -> Ear:
    """Somebody who opened the stream."""
    ear = Ear()
    if reads:
        ear.reads.set()
    body = EventStream(Watching(watchers, events or for_ever())).to_asgi_response()
    ear.task = asyncio.create_task(body(SCOPE, cast(Any, ear.receive), cast(Any, ear.send)))
    return ear


def test_who_takes_nothing_is_cut_off_and_who_reads_stays() -> None:
    async def play() -> None:
        watchers = Watchers(taken_within=0.05)
        slow, other = watch(watchers, reads=False), watch(watchers, reads=True)
        await slow.over()
        assert not slow.ended
        assert watchers.here == 1
        assert len(await other.hear(3)) >= 3
        await other.leave()
        assert watchers.here == 0

    asyncio.run(play())


def test_what_breaks_a_stream_is_in_the_log_and_who_went_or_was_cut_off_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play() -> None:
        watchers = Watchers(taken_within=0.05)
        await watch(watchers, reads=False).over()
        await watch(watchers, reads=True).leave()
        assert not caplog.records
        await watch(watchers, reads=True, events=broken()).over()

    asyncio.run(play())
    assert [record.message for record in caplog.records if record.name == "notifier.api"] == ["event stream failed"]


def test_one_too_many_is_refused_and_may_come_back() -> None:
    async def play() -> None:
        app = House().app(still)
        ears = [await watching(app) for _ in range(MOST + 1)]
        assert [ear.status for ear in ears] == [200] * MOST + [503]
        assert (b'"streams_full"' in ears[-1].body, ears[-1].headers["retry-after"]) == (True, "1")
        await ears[0].leave()
        ears.append(await watching(app))
        assert ears[-1].status == 200
        for ear in ears:
            await ear.leave()

    asyncio.run(play())


async def watching(app: Litestar) -> Ear:
    """Somebody who asked for the stream, once there is an answer."""
    headers = {"authorization": f"Bearer {SERVICE_KEY}", "host": "house"}
    scope = {**_scope(headers), "path": "/v1/system/stream", "raw_path": b"/v1/system/stream"}
    ear = Ear()
    ear.reads.set()
    ear.task = asyncio.create_task(cast(Any, app)(scope, ear.receive, ear.send))
    await ear.until(lambda: bool(ear.body))
    return ear


def test_while_a_look_hangs_the_line_says_that_it_lives() -> None:
    async def look() -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    async def play() -> bytes:
        async with asyncio.timeout(WITHIN):
            return await anext(Looking(ScriptedReader(look), silent_for=0.01).events())

    assert asyncio.run(play()) == BEAT
