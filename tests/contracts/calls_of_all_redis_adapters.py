"""Calls of every Redis adapter: the data they write, and the reads that check it."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from notifier.adapters.redis import (
    RedisActiveHours,
    RedisActivity,
    RedisBacklogReport,
    RedisBackpressure,
    RedisCircuitReport,
    RedisFrequencyCaps,
    RedisInboxLatencyReport,
    RedisLiveBus,
    RedisLiveReader,
    RedisProviderRates,
    RedisPullIndex,
    RedisPullReader,
    RedisRecentEvents,
    RedisTokenBuckets,
    RedisViewerVersionReader,
    RedisViewerVersionWriter,
    connect,
    connect_async,
)
from notifier.adapters.redis.activity import SHARDS_PER_KEY
from notifier.adapters.redis.connect import AsyncClient, RedisClient
from notifier.domain.audience.bitmap import SHARD_MEMBERS, members
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.delivery.dispatch_backlog import PoolBacklog
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Member, Platform, Subject, UserId
from notifier.domain.push.circuit_breaker import OpenCircuit
from notifier.domain.token_bucket import BucketLimit
from notifier.metrics import Metrics
from notifier.ports.inbox_cache_freshness import member_scope
from notifier.ports.live_bus import MarksChanged
from tests.contracts.call_recorder import Recorded
from tests.contracts.calls_of_one_redis_adapter import AdapterCalls, self_repairing
from tests.contracts.pull_index_backends import ADA, BEFORE, BO, NOON, NOVA, SUBJECTS, burst
from tests.contracts.valkey_fixture import Valkey
from tests.contracts.vip_viewer_facts import KIM, REMEMBERED
from tests.support.fakes.clock_and_nonces import CountedNonces, ManualClock

HOUR = 490_000
TTL = timedelta(hours=1)
ONE_A_DAY = BucketLimit(capacity=1, refill=24 * TTL)
TEN_A_DAY = BucketLimit(capacity=10, refill=24 * TTL)
SCOPE = member_scope(Member(5))
ONE, TWO = EventId("tweets", "1"), EventId("tweets", "2")
MEMBERS = [Member(5), Member(SHARDS_PER_KEY * SHARD_MEMBERS + 7)]
BURSTS = [burst(5, ADA), burst(4), burst(3), burst(2, Subject.parse("mention:zed"))]
"""Newest first, in the order in which a rebuild reads them."""


@dataclass(frozen=True, slots=True)
class Caches:
    """All adapters on one server."""

    server: Valkey
    client: RedisClient
    async_client: AsyncClient
    runner: asyncio.Runner
    """Runner of the event loop to which the connections of `async_client` belong."""
    metrics: Metrics
    used: set[tuple[type, str]] = field(default_factory=set)

    def calls_by_adapter(self) -> Mapping[str, AdapterCalls]:
        return {
            "activity": self._activity(),
            "backlog": self._backlog(),
            "token_buckets": self._token_buckets(),
            "bus": self._bus(),
            "frequency_caps": self._frequency_caps(),
            "open_circuits": self._open_circuits(),
            "provider_rates": self._provider_rates(),
            "backpressure": self._backpressure(),
            "pull_index": self._pull_index(),
            "recent_events": self._recent_events(),
            "inbox_latency": self._inbox_latency(),
            "versions": self._versions(),
        }

    def garbage_count(self, kind: str) -> float:
        return self.metrics.registry.get_sample_value("notifier_cache_garbage_total", {"kind": kind}) or 0.0

    def _on(self, kind: type, *args: Any) -> Any:
        return Recorded(kind(self.client, *args), self.used)

    def _awaited(self, kind: type, work: Callable[[Any], Coroutine[Any, Any, Any]], *args: Any) -> Any:
        """Run an asynchronous adapter's work and return its result."""
        return self.runner.run(work(Recorded(kind(self.async_client, *args), self.used)))

    def _activity(self) -> AdapterCalls:
        hours = self._on(RedisActiveHours)

        def read(shard: int) -> object:
            return [members(bits, shard) for bits in hours.read(HOUR, [shard]).values()]

        return self_repairing(
            writes={
                "record": lambda: hours.touch(MEMBERS, HOUR),
                "record on the read path": lambda: self._awaited(RedisActivity, lambda to: to.touch(MEMBERS, HOUR)),
                "roll-up": lambda: hours.record_roll_up(NOON, TTL),
            },
            reads={
                "first shard": lambda: read(0),
                "far shard": lambda: read(SHARDS_PER_KEY),
                "last roll-up": hours.last_roll_up,
            },
        )

    def _backlog(self) -> AdapterCalls:
        report = self._on(RedisBacklogReport)
        backlog = {Pool.P0: PoolBacklog(slices=3, oldest_opened_at=NOON, deferred=1)}
        return self_repairing({"publish": lambda: report.publish(backlog, TTL)}, {"read": report.read})

    def _token_buckets(self) -> AdapterCalls:
        buckets = self._on(RedisTokenBuckets)
        return self_repairing(
            writes={
                "take": lambda: buckets.take("ann", ONE_A_DAY),
                "spend": lambda: buckets.spend({"bob": 1_000}, TEN_A_DAY),
            },
            reads={
                "take": lambda: buckets.take("ann", ONE_A_DAY),
                "left": lambda: round(buckets.spend({"bob": 0}, TEN_A_DAY)["bob"]),
            },
        )

    def _bus(self) -> AdapterCalls:
        bus = self._on(RedisLiveBus)
        marked = MarksChanged(user=UserId("kim"), bursts=(BurstKey(NOVA, 1),), by="a process")

        async def receive(reader: Any) -> object:
            async with aclosing(reader.listen()) as messages, asyncio.timeout(10):
                await anext(messages)
                bus.publish([burst(1)])
                await reader.publish_marks(marked)
                return [message async for message in _until(messages, 2)]

        return self_repairing({}, {"received": lambda: self._awaited(RedisLiveReader, receive)})

    def _frequency_caps(self) -> AdapterCalls:
        caps = self._on(RedisFrequencyCaps)
        people = [Member(1), Member(2), Member(5_000)]

        def spend(member: Member) -> object:
            return caps.spend(BurstKey(NOVA, 1), "tweet", people, NOON)[member]

        return self_repairing(
            {"spend": partial(spend, people[0])}, {f"{member}": partial(spend, member) for member in people}
        )

    def _open_circuits(self) -> AdapterCalls:
        report = self._on(RedisCircuitReport)
        circuits = {name: OpenCircuit(until=NOON, reason=f"503 {name}") for name in ("apns", "web push.example")}

        def publish() -> None:
            for name, circuit in circuits.items():
                report.publish(name, circuit, TTL)

        def read(name: str) -> object:
            return report.read().get(name)

        return self_repairing({"publish": publish}, {name: partial(read, name) for name in circuits})

    def _provider_rates(self) -> AdapterCalls:
        rates = self._on(RedisProviderRates)

        def draw(platform: Platform) -> int:
            """Draw all tokens that are left. A fraction of a token also grants one alert."""
            return sum(iter(lambda: rates.draw(platform, 1_000_000, is_p0=True, slowdown_factor=1.0, now=NOON), 0))

        def refused() -> None:
            rates.report_results(Platform.FCM, refused_count=7, is_slow=False, now=NOON)
            draw(Platform.FCM)

        return self_repairing(
            {"draw": lambda: draw(Platform.APNS), "report": refused},
            {"apns": lambda: draw(Platform.APNS), "fcm": lambda: draw(Platform.FCM)},
        )

    def _backpressure(self) -> AdapterCalls:
        backpressure = self._on(RedisBackpressure)
        return self_repairing({"set": lambda: backpressure.set_level(0.5, TTL)}, {"level": backpressure.level})

    def _pull_index(self) -> AdapterCalls:
        index, clock = self._on(RedisPullIndex, CountedNonces()), ManualClock(NOON)

        def newest(*subjects: Any) -> object:
            return self._awaited(RedisPullReader, lambda reader: reader.read_newest(subjects), clock)

        def reconcile() -> bool:
            """Run one round as the reconciler does, and return whether it succeeded."""
            with suppress(CacheUnavailable):
                if index.generation() is None:
                    index.rebuild([BURSTS], BEFORE, NOON)
                index.announce(BURSTS)
                index.record_comparison(BEFORE, NOON)
                return index.generation() is not None
            return False

        def repair() -> None:
            assert any(reconcile() for _ in range(3))

        def may_fail(work: Callable[[], object]) -> Callable[[], None]:
            def attempt() -> None:
                with suppress(CacheUnavailable):
                    work()

            return attempt

        return AdapterCalls(
            writes={
                "announce": lambda: index.announce(BURSTS),
                "rebuild": may_fail(lambda: index.rebuild([BURSTS], BEFORE, NOON)),
                "comparison": may_fail(lambda: index.record_comparison(BEFORE, NOON)),
                "reconcile": reconcile,
            },
            reads={
                "nova": lambda: newest(NOVA),
                "ada": lambda: newest(ADA),
                "quiet": lambda: newest(BO),
                "all": lambda: newest(*SUBJECTS),
                "lists": lambda: self._awaited(RedisPullReader, lambda reader: reader.subject_lists(SUBJECTS), clock),
                "complete": lambda: index.generation() is not None,
            },
            repair=repair,
        )

    def _recent_events(self) -> AdapterCalls:
        recent = self._on(RedisRecentEvents)
        hashes = {ONE: "a hash", TWO: "another hash"}
        return self_repairing(
            {"remember": lambda: recent.remember(hashes)},
            {
                **{f"hash {event.id}": partial(recent.content_hashes, [event]) for event in hashes},
                **{f"accepted {event.id}": partial(recent.was_accepted, None, event.id) for event in hashes},
                **{f"accepted {event}": partial(recent.was_accepted, event.source, event.id) for event in hashes},
            },
        )

    def _inbox_latency(self) -> AdapterCalls:
        report = self._on(RedisInboxLatencyReport)
        return self_repairing(
            {"publish": lambda: report.publish("a process", timedelta(milliseconds=30), TTL)},
            {"worst": report.worst},
        )

    def _versions(self) -> AdapterCalls:
        writer, bus = self._on(RedisViewerVersionWriter), self._on(RedisLiveBus)

        async def insert(versions: Any) -> None:
            await versions.begin([SCOPE], "c1")
            await versions.finish([SCOPE], "c1")
            await versions.insert_versions([SCOPE], "v1")
            await versions.remember(REMEMBERED)

        async def read(versions: Any) -> object:
            try:
                with suppress(CacheUnavailable):  # the first look-up removes garbage in place of the burst stream
                    await versions.look_up([SCOPE], None)
                result = await versions.look_up([SCOPE], None, [KIM])
                if SCOPE not in result.versions:
                    await versions.insert_versions([SCOPE], "v2")  # as every reader does
                return result
            finally:
                await versions.close()

        def change() -> None:
            writer.begin([SCOPE], "c0")
            writer.finish([SCOPE], "c0")
            self._awaited(RedisViewerVersionReader, insert, TTL)

        look_up = partial(self._awaited, RedisViewerVersionReader, read, TTL)
        return self_repairing(
            {"change": change, "publish": lambda: bus.publish([burst(1)])},
            # Any other version proves nothing, like a missing one.
            {"look up": lambda: look_up().versions.get(SCOPE) == "v1", "recall": lambda: KIM in look_up().remembered},
        )


@contextmanager
def caches_on(server: Valkey) -> Iterator[Caches]:
    metrics = Metrics()
    with connect(server.patient_url, metrics) as client, asyncio.Runner() as runner:
        async_client = connect_async(server.patient_url, metrics)
        try:
            yield Caches(server, client, async_client, runner, metrics)
        finally:
            runner.run(async_client.aclose())


async def _until(messages: Any, count: int) -> Any:
    """Yield the next messages, without the markers that all earlier ones were delivered."""
    while count:
        if (message := await anext(messages)) is not None:
            count -= 1
            yield message
