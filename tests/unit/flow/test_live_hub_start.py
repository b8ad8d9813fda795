"""Live hub: background tasks start once for all callers, and again after a failure."""

import asyncio

import pytest

from notifier.flow.live.hub import BackgroundTasks


def test_start_is_retried_after_a_failure() -> None:
    async def run() -> None:
        tries: list[int] = []

        async def startup() -> None:
            tries.append(len(tries))
            if len(tries) == 1:
                raise ValueError("not yet")

        background_tasks = BackgroundTasks(startup=startup)
        with pytest.raises(ValueError, match="not yet"):
            await background_tasks.ensure_started()
        assert not background_tasks.has_started()
        await background_tasks.ensure_started()
        await background_tasks.ensure_started()
        assert background_tasks.has_started()
        assert tries == [0, 1]

    asyncio.run(run())


def test_shared_start_survives_cancellation_of_first_caller() -> None:
    async def run() -> None:
        tries: list[int] = []
        may_start = asyncio.Event()

        async def startup() -> None:
            tries.append(len(tries))
            await may_start.wait()

        background_tasks = BackgroundTasks(startup=startup)
        first, second = (
            asyncio.create_task(background_tasks.ensure_started()),
            asyncio.create_task(background_tasks.ensure_started()),
        )
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        assert not background_tasks.has_started()
        may_start.set()
        await second
        assert tries == [0]
        assert background_tasks.has_started()

    asyncio.run(run())
