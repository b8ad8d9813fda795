"""Request rate limits: no request waits, processes share counts, also when Redis fails."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from notifier.api.background.request_limiters import MAX_LOCAL_BUCKETS, WRITES_WINDOW, RequestMeter, request_meter
from notifier.config import RequestLimits
from notifier.domain.errors import CacheUnavailable
from notifier.domain.token_bucket import BucketLimit
from notifier.metrics import Metrics
from tests.support.fakes.api_threads import InlineThreads
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.recent_events_and_load_limits import MemoryTokenBuckets

TOKEN_REFILL = WRITES_WINDOW / 10
"""Time in which a client with ten writes per window regains one."""


@dataclass(slots=True)
class SharedRedis:
    """A Redis that several processes share."""

    clock: ManualClock = field(default_factory=ManualClock)
    metrics: Metrics = field(default_factory=Metrics)
    unavailable: bool = False
    round_trips: int = 0
    reported: set[str] = field(default_factory=set)
    meanwhile: Callable[[], object] = lambda: None
    """Runs after Redis has counted and before its answer arrives."""
    buckets: MemoryTokenBuckets = field(init=False)

    def __post_init__(self) -> None:
        self.buckets = MemoryTokenBuckets(self.clock)

    def process(self, limits: RequestLimits) -> RequestMeter:
        return request_meter(
            limits, buckets=self, threads=InlineThreads(), clock=self.clock, metrics=self.metrics, pause=self.pause
        )

    def take(self, name: str, limit: BucketLimit) -> bool:
        return self.buckets.take(name, limit)

    def spend(self, spent: Mapping[str, int], limit: BucketLimit) -> Mapping[str, float]:
        self.round_trips += 1
        self.reported |= {name.partition(":")[2] for name in spent}
        if self.unavailable:
            raise CacheUnavailable
        remaining = self.buckets.spend(spent, limit)
        self.meanwhile()
        return remaining

    async def pause(self, _: float) -> None:
        await asyncio.sleep(0)

    async def pass_round(self) -> None:
        """Wait until the second and the round trip have passed in all processes."""
        for _ in range(5):
            await asyncio.sleep(0)


def test_two_processes_share_one_limit() -> None:
    async def play(shared: SharedRedis) -> None:
        first, second = (shared.process(RequestLimits(writes=10)) for _ in range(2))
        assert count_grants(first, "zoe", 6) == 6
        await shared.pass_round()
        assert count_grants(second, "zoe", 1) == 1
        await shared.pass_round()
        assert (count_grants(second, "zoe", 9), count_grants(second, "ada", 1)) == (3, 1)
        await shared.pass_round()
        assert count_grants(first, "zoe", 9) == 4  # it does not know the other grants yet
        await shared.pass_round()
        assert (count_grants(first, "zoe", 1), count_grants(second, "zoe", 1)) == (0, 0)
        shared.clock.advance(TOKEN_REFILL * 4)
        assert count_grants(first, "zoe", 9) == 0  # the debt of double grants is earned back first
        shared.clock.advance(TOKEN_REFILL)
        assert count_grants(first, "zoe", 9) == 1

    run_with_redis(play)


def test_occasional_client_is_not_reported_to_redis() -> None:
    async def play(shared: SharedRedis) -> None:
        process = shared.process(RequestLimits(writes=300))
        for name in ("zoe", "ada"):
            assert count_grants(process, name, 2) == 2
        await shared.pass_round()
        assert shared.round_trips == 0
        assert count_grants(process, "zoe", 1) == 1
        await shared.pass_round()
        assert (shared.round_trips, shared.reported) == (1, {"zoe"})

    run_with_redis(play)


def test_busy_clients_are_reported_in_one_round_trip() -> None:
    async def play(shared: SharedRedis) -> None:
        process = shared.process(RequestLimits(writes=10))
        for number in range(50):
            count_grants(process, str(number), 2)
        await shared.pass_round()
        assert (shared.round_trips, len(shared.reported)) == (1, 50)

    run_with_redis(play)


def test_grant_during_a_round_trip_is_counted() -> None:
    async def play(shared: SharedRedis) -> None:
        first, second = (shared.process(RequestLimits(writes=10)) for _ in range(2))
        assert count_grants(second, "zoe", 5) == 5
        await shared.pass_round()
        shared.meanwhile = lambda: count_grants(first, "zoe", 1) if shared.round_trips == 2 else None
        assert count_grants(first, "zoe", 4) == 4
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (shared.round_trips, count_grants(first, "zoe", 1)) == (2, 0)
        await shared.pass_round()

    run_with_redis(play)


def test_process_without_redis_keeps_its_own_limit() -> None:
    async def play(shared: SharedRedis) -> None:
        process = shared.process(RequestLimits(writes=10))
        shared.unavailable = True
        assert count_grants(process, "zoe", 7) == 7
        await shared.pass_round()
        assert count_grants(process, "zoe", 7) == 3
        await shared.pass_round()
        assert shared.metrics.outages.labels("cache")._value.get() == 2
        shared.unavailable = False
        shared.clock.advance(WRITES_WINDOW)
        assert count_grants(process, "zoe", 20) == 10
        await shared.pass_round()
        assert shared.buckets.held["writes:zoe"].tokens == 0

    run_with_redis(play)


def test_flushed_redis_grants_no_more() -> None:
    async def play(shared: SharedRedis) -> None:
        process = shared.process(RequestLimits(writes=10))
        count_grants(process, "zoe", 9)
        await shared.pass_round()
        shared.buckets.wipe()
        assert count_grants(process, "zoe", 1) == 1
        await shared.pass_round()
        assert count_grants(process, "zoe", 1) == 0

    run_with_redis(play)


def test_memory_is_bounded_and_recent_clients_are_kept() -> None:
    async def play(shared: SharedRedis) -> None:
        process = shared.process(RequestLimits(writes=3))
        assert count_grants(process, "zoe", 9) == 3
        for number in range(MAX_LOCAL_BUCKETS - 1):
            count_grants(process, str(number), 1)
        assert count_grants(process, "zoe", 1) == 0
        count_grants(process, "one more", 1)
        assert len(process.local_buckets) == MAX_LOCAL_BUCKETS
        await shared.pass_round()

    run_with_redis(play)


def count_grants(process: RequestMeter, client: str, times: int) -> int:
    assert process.write_limit
    return sum(process.take(process.write_limit, client)[0] for _ in range(times))


def run_with_redis(play: Callable[[SharedRedis], Awaitable[None]]) -> None:
    async def run() -> None:
        await play(SharedRedis())

    asyncio.run(run())
