"""Cache warm-up is bounded: users beyond the limit are loaded at their first open."""

import asyncio

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import UserId
from notifier.flow.inbox.page_deadline_and_breaker import BREAKER_SETTINGS
from notifier.flow.inbox.warm_up import MAX_WAITING_USERS, WarmUp
from tests.flow.two_api_processes import KIM, Processes
from tests.support.in_memory_system import Stage


def test_users_beyond_the_waiting_limit_are_dropped() -> None:
    processes = Processes(Stage())

    async def add_many() -> None:
        warm_up = WarmUp(inbox=processes.inboxes[0], metrics=processes.metrics)
        for number in range(MAX_WAITING_USERS + 5):
            warm_up.add(UserId(f"nobody{number}"))
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    asyncio.run(add_many())
    assert processes.count("inbox_warm_ups", result="dropped") == 5
    assert processes.count("inbox_warm_ups", result="failed") == MAX_WAITING_USERS


def test_waiting_user_is_loaded_once() -> None:
    processes = Processes(Stage())

    async def add_twice() -> None:
        warm_up = WarmUp(inbox=processes.inboxes[0], metrics=processes.metrics)
        for _ in range(2):
            warm_up.add(KIM)
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    asyncio.run(add_twice())
    assert [processes.count("inbox_warm_ups", result=result) for result in ("done", "known")] == [1, 0]


def test_warm_up_stops_while_the_store_fails() -> None:
    processes = Processes(Stage())
    inbox, now = processes.inboxes[0], processes.stage.state.clock.now()
    for _ in range(BREAKER_SETTINGS.failures_to_open):
        inbox.breaker.record_failure(StoreUnavailable(), now)
    WarmUp(inbox=inbox, metrics=processes.metrics).add(KIM)
    assert processes.count("inbox_warm_ups", result="dropped") == 1
