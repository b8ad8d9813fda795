"""A shift: begun once for all who come, anew after a failure, and over at once."""

import asyncio

import pytest

from notifier.flow.live.hub import Shift


def test_whoever_comes_after_a_failed_beginning_tries_anew() -> None:
    async def told() -> None:
        tries: list[int] = []

        async def begin() -> None:
            tries.append(len(tries))
            if len(tries) == 1:
                raise ValueError("not yet")

        shift = Shift(begin=begin)
        with pytest.raises(ValueError, match="not yet"):
            await shift.attend()
        assert not shift.on()
        await shift.attend()
        await shift.attend()
        assert shift.on()
        assert tries == [0, 1]

    asyncio.run(told())


def test_it_is_begun_once_for_all_who_come_and_outlives_the_one_who_began_it() -> None:
    async def told() -> None:
        tries: list[int] = []
        go = asyncio.Event()

        async def begin() -> None:
            tries.append(len(tries))
            await go.wait()

        shift = Shift(begin=begin)
        first, second = asyncio.create_task(shift.attend()), asyncio.create_task(shift.attend())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        assert not shift.on()
        go.set()
        await second
        assert tries == [0]
        assert shift.on()

    asyncio.run(told())
