"""Shift of the live hub: started once for all callers, and again after a failure."""

import asyncio

import pytest

from notifier.flow.live.hub import BackgroundTasks


def test_start_is_retried_after_a_failure() -> None:
    async def run() -> None:
        tries: list[int] = []

        async def begin() -> None:
            tries.append(len(tries))
            if len(tries) == 1:
                raise ValueError("not yet")

        shift = BackgroundTasks(startup=begin)
        with pytest.raises(ValueError, match="not yet"):
            await shift.ensure_started()
        assert not shift.has_started()
        await shift.ensure_started()
        await shift.ensure_started()
        assert shift.has_started()
        assert tries == [0, 1]

    asyncio.run(run())


def test_shared_start_survives_cancellation_of_first_caller() -> None:
    async def run() -> None:
        tries: list[int] = []
        may_start = asyncio.Event()

        async def begin() -> None:
            tries.append(len(tries))
            await may_start.wait()

        shift = BackgroundTasks(startup=begin)
        first, second = asyncio.create_task(shift.ensure_started()), asyncio.create_task(shift.ensure_started())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        assert not shift.has_started()
        may_start.set()
        await second
        assert tries == [0]
        assert shift.has_started()

    asyncio.run(run())
