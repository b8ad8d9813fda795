"""How streams end and are refused: slow clients, tokens, limits, a process that stops."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import UserId
from notifier.flow.live.hub import FRESH_FOR, HEARTBEAT, OF_A_PERSON
from notifier.flow.live.stream import MOST_WAITING
from tests.http.listening_client import SlowBursts, Studio, events, on_air
from tests.support.http_app import SERVICE_KEY

U1 = UserId("u1")
A_WHILE = timedelta(minutes=2)
"""A mention later than this opens a burst of its own."""


def test_who_reads_too_slowly_is_cut_off_and_comes_back_with_a_reset_at_most() -> None:
    async def play(studio: Studio) -> None:
        slow, other = await studio.listen("u1", reads=False), await studio.listen("u2")
        for _ in range(MOST_WAITING + 1):
            studio.house.clock.advance(A_WHILE)
            await studio.mention()
        await slow.over()
        assert not slow.ended
        assert studio.hub.metrics.registry.get_sample_value("notifier_streams_cut_total") == 1
        assert studio.hub.opened == {"u2": 1}
        assert not other.task or not other.task.done()

    on_air(play)


def test_a_write_that_nobody_takes_for_long_is_cut_off() -> None:
    async def play(studio: Studio) -> None:
        slow = await studio.listen("u1", reads=False)
        await studio.quiet()
        studio.house.clock.advance(HEARTBEAT)
        await studio.hub.watch()
        await slow.over()
        assert studio.hub.opened.total() == 0

    on_air(play)


def test_silence_is_broken_by_a_heartbeat_alone() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1")
        before = ear.body
        for wait in (HEARTBEAT - timedelta(seconds=1), timedelta(seconds=1)):
            studio.house.clock.advance(wait)
            await studio.hub.watch()
            await studio.quiet()
        assert ear.body == before + b":\n\n"

    on_air(play)


def test_the_stream_ends_with_its_token() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1")
        studio.house.clock.advance(timedelta(minutes=15, seconds=29))
        await studio.hub.watch()
        await studio.quiet()
        assert not ear.ended
        studio.house.clock.advance(timedelta(seconds=1))
        await studio.hub.watch()
        await ear.over()
        assert ear.ended

    on_air(play)


def test_a_person_who_is_deleted_hears_no_more() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1")
        [account] = studio.house.directory.accounts([U1]).values()
        studio.house.directory.enrol([replace(account, deleted=True)])
        studio.house.clock.advance(FRESH_FOR)
        await studio.hub.refresh_old()
        await ear.over()
        assert ear.ended

    on_air(play)


def test_who_leaves_is_forgotten() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1")
        await ear.leave()
        found = studio.hub.hearers
        assert (found.listeners, dict(found.following), studio.hub.opened.total()) == ({}, {}, 0)
        assert studio.hub.metrics.registry.get_sample_value("notifier_streams") == 0

    on_air(play)


def test_a_person_may_have_so_many_streams_and_is_told_when_it_is_enough() -> None:
    async def play(studio: Studio) -> None:
        ears = [await studio.listen("u1") for _ in range(OF_A_PERSON)]
        refused = await studio.listen("u1")
        assert (refused.status, refused.headers["retry-after"]) == (429, "10")
        assert b'"code":"too_many_streams"' in refused.body
        assert (await studio.listen("u2")).status == 200
        await ears[0].leave()
        assert (await studio.listen("u1")).status == 200

    on_air(play)


def test_a_process_takes_so_many_streams() -> None:
    async def play(studio: Studio) -> None:
        studio.hub.most = 1
        await studio.listen("u1")
        refused = await studio.listen("u2")
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert b'"code":"streams_full"' in refused.body

    on_air(play)


def test_a_closing_process_ends_its_streams_and_takes_no_other() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1")
        studio.hub.close()
        await ear.over()
        assert ear.ended
        assert (await studio.listen("u2")).status == 503

    on_air(play)


@pytest.mark.parametrize(("user", "status"), [("gone", 404), ("nobody", 404)])
def test_who_does_not_exist_has_no_stream(user: str, status: int) -> None:
    async def play(studio: Studio) -> None:
        assert (await studio.listen(user)).status == status
        assert studio.hub.opened.total() == 0

    on_air(play)


def test_the_service_key_opens_no_stream() -> None:
    async def play(studio: Studio) -> None:
        assert (await studio.listen("u1", token=SERVICE_KEY)).status == 403
        assert (await studio.listen("u1", token="x")).status == 401

    on_air(play)


def test_without_the_store_a_stream_is_refused_and_one_that_is_open_stays() -> None:
    async def play(studio: Studio) -> None:
        ear = await studio.listen("u1")
        studio.house.broken.store = StoreUnavailable()
        refused = await studio.listen("u2")
        assert (refused.status, studio.hub.opened.total()) == (503, 1)
        await studio.mention()
        assert events(await ear.hear(3)) == ["count", "row", "count"]

    on_air(play)


def test_whoever_comes_as_the_process_closes_is_ended_with_the_others() -> None:
    async def play(studio: Studio) -> None:
        bursts = SlowBursts(studio.hub.bursts)
        studio.hub.bursts = bursts
        coming = asyncio.create_task(studio.listen("u1"))
        await bursts.asked.wait()
        studio.hub.close()
        bursts.answers.set()
        ear = await coming
        await ear.over()
        assert ear.ended
        assert not studio.hub.shift.tasks

    on_air(play)
