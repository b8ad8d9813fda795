"""A shift: begun once for all who come, anew after a failure, and over at once."""

import asyncio

import pytest

from notifier.flow.live.hub import BackgroundTasks


def test_whoever_comes_after_a_failed_beginning_tries_anew() -> None:
    async def told() -> None:
        tries: list[int] = []

        async def begin() -> None:
            tries.append(len(tries))
            if len(tries) == 1:
                raise ValueError("not yet")

        shift = BackgroundTasks(startup=begin)
        with pytest.raises(ValueError, match="not yet"):
            await shift.ensure_started()
        assert not shift.is_running()
        await shift.ensure_started()
        await shift.ensure_started()
        assert shift.is_running()
        assert tries == [0, 1]

    asyncio.run(told())


def test_it_is_begun_once_for_all_who_come_and_outlives_the_one_who_began_it() -> None:
    async def told() -> None:
        tries: list[int] = []
        go = asyncio.Event()

        async def begin() -> None:
            tries.append(len(tries))
            await go.wait()

        shift = BackgroundTasks(startup=begin)
        first, second = asyncio.create_task(shift.ensure_started()), asyncio.create_task(shift.ensure_started())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        assert not shift.is_running()
        go.set()
        await second
        assert tries == [0]
        assert shift.is_running()

    asyncio.run(told())
