"""Reading inboxes ahead is bounded: of too many users at once, the last are left to their first opening."""

import asyncio

from notifier.domain.subject import UserId
from notifier.flow.inbox.warm_up import MOST_WAITING, WarmUp
from tests.flow.inboxes import Processes
from tests.flow.stage import Stage


def test_users_beyond_those_who_may_wait_are_dropped() -> None:
    processes = Processes(Stage())

    async def add_many() -> None:
        warm_up = WarmUp(inbox=processes.inboxes[0], metrics=processes.metrics)
        for number in range(MOST_WAITING + 5):
            warm_up.add(UserId(f"nobody{number}"))
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    asyncio.run(add_many())
    assert processes.count("inbox_warm_ups", result="dropped") == 5
    assert processes.count("inbox_warm_ups", result="failed") == MOST_WAITING
