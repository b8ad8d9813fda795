"""A house whose cache is a real Valkey, and something that writes garbage into it."""

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
    RedisBuckets,
    RedisBus,
    RedisCaps,
    RedisInboxVersions,
    RedisLineReport,
    RedisLiveReader,
    RedisPaces,
    RedisPressure,
    RedisPullIndex,
    RedisPullReader,
    RedisRecent,
    RedisTabReport,
    RedisViewerVersions,
    connect,
    connect_async,
)
from notifier.adapters.redis.connect import RedisClient
from notifier.api.app import create
from notifier.domain.audience.activity import hour_of
from notifier.domain.delivery.backlog import Behind
from notifier.domain.delivery.slice import Pool
from notifier.domain.ids import Member
from notifier.domain.push.circuit_breaker import LeftAlone
from notifier.ports.all_ports import Ports, ReadPorts
from notifier.wiring.delivery import build_reconciler
from tests.support.fakes.clock import CountedNonces
from tests.support.fakes.inbox_versions import MemoryInboxVersions
from tests.support.fakes.pull_index import MemoryPullIndex
from tests.support.http_app import Edge, House

LASTING = timedelta(hours=1)
PATIENT = timedelta(seconds=15)
WORDS = (b"", b"\xff\xfe\x00", b"garbage", b"1", b"9" * 40, b"nan", bytes(24), bytes(range(64)))


class CachedHouse(House):
    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__()
        self.reconciler = build_reconciler(self.system)

    def chosen(self, ports: Ports) -> Ports:
        self.cache = cache = connect(self.url, self.metrics)
        return replace(
            ports,
            pull=RedisPullIndex(cache, CountedNonces()),
            recent=RedisRecent(cache),
            buckets=RedisBuckets(cache),
            pressure=RedisPressure(cache),
            report=RedisBacklogReport(cache),
            active_hours=RedisActiveHours(cache),
            paces=RedisPaces(cache),
            caps=RedisCaps(cache),
            tabs=RedisTabReport(cache),
            lines=RedisLineReport(cache),
            bus=RedisBus(cache),
            versions=RedisViewerVersions(cache),
        )

    def chosen_reads(self, reads: ReadPorts) -> ReadPorts:
        self.reading = cache = connect_async(self.url, self.metrics)
        self.cached_versions = RedisInboxVersions(cache, PATIENT)
        return replace(
            reads,
            pull=RedisPullReader(cache, self.clock),
            activity=RedisActivity(cache),
            live=RedisLiveReader(cache),
            versions=self.cached_versions,
        )

    def report(self) -> None:
        """What the parts of a running system say of themselves."""
        ports, now = self.ports, self.clock.now()
        ports.pressure.raise_to(0.5, LASTING)
        ports.report.tell({Pool.P0: Behind(slices=3, since=now)}, LASTING)
        ports.lines.tell("fcm", LeftAlone(until=now + LASTING, reason="503"), LASTING)
        ports.tabs.tell("a process", timedelta(milliseconds=30), LASTING)
        ports.active_hours.rolled_up(now, LASTING)
        ports.active_hours.touch([Member(1)], hour_of(now))

    def counted(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


FIELD_SHARE = 0.5
"""How often garbage replaces one field of a hash, instead of all of it."""


@dataclass(frozen=True, slots=True)
class Garbler:
    """Writes garbage into random keys, as one of every type or into a field."""

    client: RedisClient
    chance: random.Random = field(default_factory=lambda: random.Random("garbage"))

    def keys(self) -> list[bytes]:
        return sorted(self.client.scan_iter())

    def garble(self) -> None:
        """One key."""
        self.spoil(self.chance.choice(self.keys() or [b"pull:{0}"]))

    def garble_all(self) -> None:
        for key in self.keys():
            self.spoil(key)

    def spoil(self, key: bytes) -> None:
        client, word = self.client, self.chance.choice(WORDS)
        fields = client.hkeys(key) if client.type(key) == b"hash" else []
        if fields and self.chance.random() < FIELD_SHARE:
            client.hset(key, self.chance.choice(fields), word)
            return
        client.delete(key)
        match self.chance.randrange(6):
            case 0:
                client.set(key, word)
            case 1:
                client.rpush(key, word)
            case 2:
                client.sadd(key, word)
            case 3:
                client.zadd(key, {word: 1.5})
            case 4:
                client.hset(key, word, word)
            case _:
                client.xadd(key, {"garbage": word})


@dataclass(slots=True)
class CachedEdge(Edge):
    house: CachedHouse
    store: Edge
    """Answers from the store alone."""

    def mention(self, by: str = "ada", whom: str = "nova") -> None:
        """One more burst, delivered."""
        self.house.clock.advance(timedelta(hours=2))
        Edge.mention(self, by, whom)
        self.house.deliver()


@contextmanager
def cached_edge(url: str) -> Iterator[CachedEdge]:
    house = CachedHouse(url)
    alone = replace(
        house.reads,
        pull=MemoryPullIndex(house.clock),
        versions=MemoryInboxVersions(house.versions),
        activity=house.activity,
        live=house.bus,
    )
    store = create(house.system, alone, house.keys)
    with (
        house.cache,
        TestClient(house.app(), raise_server_exceptions=False) as client,
        TestClient(store) as other,
    ):
        yield CachedEdge(house, client, Edge(house, other))
        with client.portal() as portal:
            portal.call(house.cached_versions.close)
            portal.call(house.reading.aclose)


@contextmanager
def garbling(url: str) -> Iterator[None]:
    """Garbage appears in random keys, again and again, while the block goes on."""
    over = threading.Event()

    def work() -> None:
        with connect(url) as client:
            garbler = Garbler(client)
            while not over.is_set():
                with suppress(ResponseError):  # the key was mended between two of its commands
                    garbler.garble()

    thread = threading.Thread(target=work, name="garbler", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
