"""How streams end and are refused: slow clients, tokens, limits, a process that stops."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import UserId
from notifier.flow.live.hub import FRESH_FOR, HEARTBEAT, OF_A_PERSON
from notifier.flow.live.stream import MOST_WAITING
from tests.http.listening_client import LiveHouse, SlowBursts, event_types, run_live
from tests.support.http_app import SERVICE_KEY

U1 = UserId("u1")
A_WHILE = timedelta(minutes=2)
"""A mention later than this opens a burst of its own."""


def test_who_reads_too_slowly_is_cut_off_and_comes_back_with_a_reset_at_most() -> None:
    async def scenario(live: LiveHouse) -> None:
        slow, other = await live.listen("u1", reading=False), await live.listen("u2")
        for _ in range(MOST_WAITING + 1):
            live.house.clock.advance(A_WHILE)
            await live.mention()
        await slow.wait_closed()
        assert not slow.ended
        assert live.hub.metrics.registry.get_sample_value("notifier_streams_cut_total") == 1
        assert live.hub.opened == {"u2": 1}
        assert not other.task or not other.task.done()

    run_live(scenario)


def test_a_write_that_nobody_takes_for_long_is_cut_off() -> None:
    async def scenario(live: LiveHouse) -> None:
        slow = await live.listen("u1", reading=False)
        await live.drain()
        live.house.clock.advance(HEARTBEAT)
        await live.hub.watch()
        await slow.wait_closed()
        assert live.hub.opened.total() == 0

    run_live(scenario)


def test_silence_is_broken_by_a_heartbeat_alone() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        before = stream.body
        for wait in (HEARTBEAT - timedelta(seconds=1), timedelta(seconds=1)):
            live.house.clock.advance(wait)
            await live.hub.watch()
            await live.drain()
        assert stream.body == before + b":\n\n"

    run_live(scenario)


def test_the_stream_ends_with_its_token() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        live.house.clock.advance(timedelta(minutes=15, seconds=29))
        await live.hub.watch()
        await live.drain()
        assert not stream.ended
        live.house.clock.advance(timedelta(seconds=1))
        await live.hub.watch()
        await stream.wait_closed()
        assert stream.ended

    run_live(scenario)


def test_a_person_who_is_deleted_hears_no_more() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        [account] = live.house.directory.accounts([U1]).values()
        live.house.directory.enrol([replace(account, deleted=True)])
        live.house.clock.advance(FRESH_FOR)
        await live.hub.refresh_old()
        await stream.wait_closed()
        assert stream.ended

    run_live(scenario)


def test_who_leaves_is_forgotten() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        await stream.disconnect()
        found = live.hub.hearers
        assert (found.listeners, dict(found.following), live.hub.opened.total()) == ({}, {}, 0)
        assert live.hub.metrics.registry.get_sample_value("notifier_streams") == 0

    run_live(scenario)


def test_a_person_may_have_so_many_streams_and_is_told_when_it_is_enough() -> None:
    async def scenario(live: LiveHouse) -> None:
        ears = [await live.listen("u1") for _ in range(OF_A_PERSON)]
        refused = await live.listen("u1")
        assert (refused.status, refused.headers["retry-after"]) == (429, "10")
        assert b'"code":"too_many_streams"' in refused.body
        assert (await live.listen("u2")).status == 200
        await ears[0].leave()
        assert (await live.listen("u1")).status == 200

    run_live(scenario)


def test_a_process_takes_so_many_streams() -> None:
    async def scenario(live: LiveHouse) -> None:
        live.hub.most = 1
        await live.listen("u1")
        refused = await live.listen("u2")
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert b'"code":"streams_full"' in refused.body

    run_live(scenario)


def test_a_closing_process_ends_its_streams_and_takes_no_other() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        live.hub.close()
        await stream.wait_closed()
        assert stream.ended
        assert (await live.listen("u2")).status == 503

    run_live(scenario)


@pytest.mark.parametrize(("user", "status"), [("gone", 404), ("nobody", 404)])
def test_who_does_not_exist_has_no_stream(user: str, status: int) -> None:
    async def scenario(live: LiveHouse) -> None:
        assert (await live.listen(user)).status == status
        assert live.hub.opened.total() == 0

    run_live(scenario)


def test_the_service_key_opens_no_stream() -> None:
    async def scenario(live: LiveHouse) -> None:
        assert (await live.listen("u1", token=SERVICE_KEY)).status == 403
        assert (await live.listen("u1", token="x")).status == 401

    run_live(scenario)


def test_without_the_store_a_stream_is_refused_and_one_that_is_open_stays() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        live.house.broken.store = StoreUnavailable()
        refused = await live.listen("u2")
        assert (refused.status, live.hub.opened.total()) == (503, 1)
        await live.mention()
        assert event_types(await stream.next_events(3)) == ["count", "row", "count"]

    run_live(scenario)


def test_whoever_comes_as_the_process_closes_is_ended_with_the_others() -> None:
    async def scenario(live: LiveHouse) -> None:
        bursts = SlowBursts(live.hub.bursts)
        live.hub.bursts = bursts
        coming = asyncio.create_task(live.listen("u1"))
        await bursts.requested.wait()
        live.hub.close()
        bursts.released.set()
        stream = await coming
        await stream.wait_closed()
        assert stream.ended
        assert not live.hub.shift.tasks

    run_live(scenario)
