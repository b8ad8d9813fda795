"""A system whose cache is a real Valkey, and a writer of garbage into it."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from litestar.testing import TestClient
from redis.exceptions import ResponseError

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
from notifier.adapters.redis.connect import RedisClient
from notifier.api.app import create
from notifier.domain.audience.activity import hour_of
from notifier.domain.delivery.dispatch_backlog import PoolBacklog
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.ids import Member
from notifier.domain.push.circuit_breaker import OpenCircuit
from notifier.ports.all_ports import Ports, ReadPorts
from notifier.wiring.delivery import build_reconciler
from tests.support.fakes.clock_and_nonces import CountedNonces
from tests.support.fakes.inbox_cache_freshness import MemoryViewerVersionReader
from tests.support.fakes.pull_index import MemoryPullIndex
from tests.support.in_memory_http_api import ApiClient, MemoryBackend

REPORT_TTL = timedelta(hours=1)
LONG_TIMEOUT = timedelta(seconds=15)
GARBAGE = (b"", b"\xff\xfe\x00", b"garbage", b"1", b"9" * 40, b"nan", bytes(24), bytes(range(64)))


class CachedBackend(MemoryBackend):
    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__()
        self.reconciler = build_reconciler(self.system)

    def adapt_ports(self, ports: Ports) -> Ports:
        self.cache = cache = connect(self.url, self.metrics)
        return replace(
            ports,
            pull=RedisPullIndex(cache, CountedNonces()),
            recent_events=RedisRecentEvents(cache),
            token_buckets=RedisTokenBuckets(cache),
            backpressure=RedisBackpressure(cache),
            backlog_report=RedisBacklogReport(cache),
            active_hours=RedisActiveHours(cache),
            provider_rates=RedisProviderRates(cache),
            caps=RedisFrequencyCaps(cache),
            inbox_latency=RedisInboxLatencyReport(cache),
            circuit_report=RedisCircuitReport(cache),
            bus=RedisLiveBus(cache),
            versions=RedisViewerVersionWriter(cache),
        )

    def adapt_read_ports(self, reads: ReadPorts) -> ReadPorts:
        self.reading = cache = connect_async(self.url, self.metrics)
        self.cached_versions = RedisViewerVersionReader(cache, LONG_TIMEOUT)
        return replace(
            reads,
            pull=RedisPullReader(cache, self.clock),
            activity=RedisActivity(cache),
            live=RedisLiveReader(cache),
            versions=self.cached_versions,
        )

    def report(self) -> None:
        """Publish the reports that the processes of a running system publish."""
        ports, now = self.ports, self.clock.now()
        ports.backpressure.set_level(0.5, REPORT_TTL)
        ports.backlog_report.publish({Pool.P0: PoolBacklog(slices=3, oldest_opened_at=now)}, REPORT_TTL)
        ports.circuit_report.publish("fcm", OpenCircuit(until=now + REPORT_TTL, reason="503"), REPORT_TTL)
        ports.inbox_latency.publish("a process", timedelta(milliseconds=30), REPORT_TTL)
        ports.active_hours.record_roll_up(now, REPORT_TTL)
        ports.active_hours.touch([Member(1)], hour_of(now))

    def counted(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


FIELD_PROBABILITY = 0.5
"""Probability that garbage replaces one field of a hash instead of the whole key."""


@dataclass(frozen=True, slots=True)
class Garbler:
    """Writes garbage into random keys: a value of any type, or one field of a hash."""

    client: RedisClient
    generator: random.Random = field(default_factory=lambda: random.Random("garbage"))

    def keys(self) -> list[bytes]:
        return sorted(self.client.scan_iter())

    def garble(self) -> None:
        """Overwrite one random key."""
        self.overwrite(self.generator.choice(self.keys() or [b"pull-index:{0}"]))

    def garble_all(self) -> None:
        for key in self.keys():
            self.overwrite(key)

    def overwrite(self, key: bytes) -> None:
        client, garbage = self.client, self.generator.choice(GARBAGE)
        fields = client.hkeys(key) if client.type(key) == b"hash" else []
        if fields and self.generator.random() < FIELD_PROBABILITY:
            client.hset(key, self.generator.choice(fields), garbage)
            return
        client.delete(key)
        match self.generator.randrange(6):
            case 0:
                client.set(key, garbage)
            case 1:
                client.rpush(key, garbage)
            case 2:
                client.sadd(key, garbage)
            case 3:
                client.zadd(key, {garbage: 1.5})
            case 4:
                client.hset(key, garbage, garbage)
            case _:
                client.xadd(key, {"garbage": garbage})


@dataclass(slots=True)
class CachedApiClient(ApiClient):
    backend: CachedBackend
    store: ApiClient
    """Answers from the store alone, without the cache."""

    def mention(self, by: str = "ada", account: str = "nova") -> None:
        """Open another burst and deliver it."""
        self.backend.clock.advance(timedelta(hours=2))
        ApiClient.mention(self, by, account)
        self.backend.deliver()


@contextmanager
def cached_client(url: str) -> Iterator[CachedApiClient]:
    backend = CachedBackend(url)
    store_only = replace(
        backend.reads,
        pull=MemoryPullIndex(backend.clock),
        versions=MemoryViewerVersionReader(backend.versions),
        activity=backend.activity,
        live=backend.bus,
    )
    store = create(backend.system, store_only, backend.keys)
    with (
        backend.cache,
        TestClient(backend.app(), raise_server_exceptions=False) as client,
        TestClient(store) as store_client,
    ):
        try:
            yield CachedApiClient(backend, client, ApiClient(backend, store_client))
        finally:
            with client.portal() as portal:
                portal.call(backend.cached_versions.close)
                portal.call(backend.reading.aclose)


@contextmanager
def garbage_writer(url: str) -> Iterator[None]:
    """Write garbage into random keys until the block ends."""
    stopped = threading.Event()

    def write_garbage() -> None:
        with connect(url) as client:
            garbler = Garbler(client)
            while not stopped.is_set():
                with suppress(ResponseError):  # a repair between the two commands changed the type of the key
                    garbler.garble()

    thread = threading.Thread(target=write_garbage, name="garbler", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
