"""How long pages take is told to those who send alerts, once a second, and no page waits for it."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast

import httpx
import pytest

from notifier.adapters.redis.push_limits import RedisTabReport
from notifier.api.background.housekeeping import FEWEST, LATELY, Timing, p99
from notifier.domain.errors import CacheUnavailable
from notifier.metrics import Metrics
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.threads import InlineThreads
from tests.support.http_app import House

__all__ = ["valkey", "valkey_server"]

MS = timedelta(milliseconds=1)


def opened(house: House, times: int) -> list[int]:
    """The statuses; what was left for later is done when it returns."""

    async def run() -> list[int]:
        answered = asyncio.Event()
        app = cast(Any, house.app(lambda _: answered.wait()))  # the two libraries spell ASGI differently
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://house") as client:
            bearer = {"Authorization": f"Bearer {house.token('u1')}"}
            answers = [await client.get("/v1/inbox", headers=bearer) for _ in range(times)]
        answered.set()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        return [answer.status_code for answer in answers]

    return asyncio.run(run())


def test_who_opens_pages_is_told_of_in_a_real_valkey(valkey: Valkey) -> None:
    house = House()
    tabs = RedisTabReport(valkey.client)
    house.system = replace(house.system, ports=replace(house.ports, tabs=tabs))
    assert opened(house, FEWEST) == [200] * FEWEST
    found = tabs.worst()
    assert found is not None
    assert valkey.client.hkeys("tabs") == [house.system.owner.encode()]


def test_a_few_pages_say_nothing() -> None:
    house = House()
    opened(house, FEWEST - 1)
    assert house.tabs.worst() is None


def test_without_the_cache_pages_are_answered() -> None:
    house = House()
    house.broken.cache = CacheUnavailable()
    assert opened(house, FEWEST) == [200] * FEWEST


@pytest.mark.parametrize(
    ("took", "found"), [([5], 5), (range(1, 101), 99), ([1] * 98 + [7, 9], 7), ([1] * 999 + [500], 1)]
)
def test_one_in_a_hundred_may_be_slower(took: list[int], found: int) -> None:
    assert p99([number * MS for number in took]) == found * MS


@dataclass(slots=True)
class KeptTabReport:
    told: list[tuple[str, timedelta, timedelta]] = field(default_factory=list)

    def tell(self, process: str, p99: timedelta, lasting: timedelta) -> None:
        self.told.append((process, p99, lasting))

    def worst(self) -> timedelta | None:
        return max((p99 for _, p99, _ in self.told), default=None)


def test_pages_of_the_last_seconds_count_and_those_that_fail_do_too() -> None:
    clock, tabs = ManualClock(), KeptTabReport()

    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    async def play() -> None:
        timing = Timing(tabs=tabs, owner="api", threads=InlineThreads(), clock=clock, metrics=Metrics(), pause=at_once)
        for took in (80, 5):
            for _ in range(FEWEST):
                with suppress(ZeroDivisionError), timing():
                    clock.advance(took * MS)
                    raise ZeroDivisionError
            await asyncio.sleep(0)
            assert timing.going
            await timing.going
            clock.advance(LATELY)

    asyncio.run(play())
    assert tabs.told == [("api", 80 * MS, LATELY), ("api", 5 * MS, LATELY)]
