"""Metering: nobody waits, several processes add up, and without Redis each goes on alone."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from notifier.api.background.limiters import MAX_LOCAL_BUCKETS, RequestMeter, request_meter
from notifier.config import RequestLimits
from notifier.domain.errors import CacheUnavailable
from notifier.domain.token_bucket import BucketLimit
from notifier.metrics import Metrics
from tests.support.fakes.cache import MemoryBuckets
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.threads import InlineThreads


@dataclass(slots=True)
class Town:
    """Processes that share a Redis."""

    clock: ManualClock = field(default_factory=ManualClock)
    metrics: Metrics = field(default_factory=Metrics)
    away: bool = False
    trips: int = 0
    told: set[str] = field(default_factory=set)
    meanwhile: Callable[[], object] = lambda: None
    """Done once Redis has counted, before it is heard."""
    buckets: MemoryBuckets = field(init=False)

    def __post_init__(self) -> None:
        self.buckets = MemoryBuckets(self.clock)

    def process(self, limits: RequestLimits) -> RequestMeter:
        return request_meter(
            limits, buckets=self, threads=InlineThreads(), clock=self.clock, metrics=self.metrics, pause=self.pause
        )

    def take(self, name: str, limit: BucketLimit) -> bool:
        return self.buckets.take(name, limit)

    def spend(self, spent: Mapping[str, int], limit: BucketLimit) -> Mapping[str, float]:
        self.trips += 1
        self.told |= {name.partition(":")[2] for name in spent}
        if self.away:
            raise CacheUnavailable
        left = self.buckets.spend(spent, limit)
        self.meanwhile()
        return left

    async def pause(self, _: float) -> None:
        await asyncio.sleep(0)

    async def settled(self) -> None:
        """The second has passed in all processes, and their round trip."""
        for _ in range(5):
            await asyncio.sleep(0)


def test_of_two_processes_none_gives_what_the_other_gave() -> None:
    async def play(town: Town) -> None:
        here, there = (town.process(RequestLimits(writes=10)) for _ in range(2))
        assert grants(here, "zoe", 6) == 6
        await town.settled()
        assert grants(there, "zoe", 1) == 1
        await town.settled()
        assert (grants(there, "zoe", 9), grants(there, "ada", 1)) == (3, 1)
        await town.settled()
        assert grants(here, "zoe", 9) == 4  # it can't know yet
        await town.settled()
        assert (grants(here, "zoe", 1), grants(there, "zoe", 1)) == (0, 0)
        town.clock.advance(timedelta(hours=3) / 10 * 4)
        assert grants(here, "zoe", 9) == 0  # what was given twice is earned back first
        town.clock.advance(timedelta(hours=3) / 10)
        assert grants(here, "zoe", 9) == 1

    played(play)


def test_who_asks_now_and_then_is_never_told_of() -> None:
    async def play(town: Town) -> None:
        here = town.process(RequestLimits(writes=300))
        for name in ("zoe", "ada"):
            assert grants(here, name, 2) == 2
        await town.settled()
        assert town.trips == 0
        assert grants(here, "zoe", 1) == 1
        await town.settled()
        assert (town.trips, town.told) == (1, {"zoe"})

    played(play)


def test_all_who_asked_for_much_are_told_of_in_one_round_trip() -> None:
    async def play(town: Town) -> None:
        here = town.process(RequestLimits(writes=10))
        for number in range(50):
            grants(here, str(number), 2)
        await town.settled()
        assert (town.trips, len(town.told)) == (1, 50)

    played(play)


def test_what_is_given_while_it_is_settled_counts_too() -> None:
    async def play(town: Town) -> None:
        here, there = (town.process(RequestLimits(writes=10)) for _ in range(2))
        assert grants(there, "zoe", 5) == 5
        await town.settled()
        town.meanwhile = lambda: grants(here, "zoe", 1) if town.trips == 2 else None
        assert grants(here, "zoe", 4) == 4
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (town.trips, grants(here, "zoe", 1)) == (2, 0)
        await town.settled()

    played(play)


def test_without_redis_a_process_holds_its_own_limit() -> None:
    async def play(town: Town) -> None:
        here = town.process(RequestLimits(writes=10))
        town.away = True
        assert grants(here, "zoe", 7) == 7
        await town.settled()
        assert grants(here, "zoe", 7) == 3
        await town.settled()
        assert town.metrics.outages.labels("cache")._value.get() == 2
        town.away = False
        town.clock.advance(timedelta(hours=3))
        assert grants(here, "zoe", 20) == 10
        await town.settled()
        assert town.buckets.held["writes:zoe"].tokens == 0

    played(play)


def test_an_emptied_redis_gives_nobody_more() -> None:
    async def play(town: Town) -> None:
        here = town.process(RequestLimits(writes=10))
        grants(here, "zoe", 9)
        await town.settled()
        town.buckets.wipe()
        assert grants(here, "zoe", 1) == 1
        await town.settled()
        assert grants(here, "zoe", 1) == 0

    played(play)


def test_a_crowd_takes_bounded_memory_and_who_asked_last_is_known() -> None:
    async def play(town: Town) -> None:
        here = town.process(RequestLimits(writes=3))
        assert grants(here, "zoe", 9) == 3
        for number in range(MAX_LOCAL_BUCKETS - 1):
            grants(here, str(number), 1)
        assert grants(here, "zoe", 1) == 0
        grants(here, "one more", 1)
        assert len(here.local_buckets) == MAX_LOCAL_BUCKETS
        await town.settled()

    played(play)


def grants(process: RequestMeter, who: str, times: int) -> int:
    assert process.writes
    return sum(process.take(process.writes, who)[0] for _ in range(times))


def played(play: Callable[[Town], Awaitable[None]]) -> None:
    async def run() -> None:
        await play(Town())

    asyncio.run(run())
