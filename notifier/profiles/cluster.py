"""Cluster profile: Cassandra, Kafka, Redis and Celery brokers, all operated externally."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from random import random
from typing import Any

from notifier.adapters import cassandra, kafka, redis
from notifier.adapters.cassandra import (
    CassandraArchive,
    CassandraBurstChanges,
    CassandraBursts,
    CassandraClaims,
    CassandraDeadLetters,
    CassandraDevices,
    CassandraDirectory,
    CassandraEpochs,
    CassandraFlags,
    CassandraFollows,
    CassandraHeads,
    CassandraHolds,
    CassandraInbox,
    CassandraLaneTallies,
    CassandraLeases,
    CassandraLedger,
    CassandraMemberSets,
    CassandraOveralls,
    CassandraPartings,
    CassandraPeople,
    CassandraPreferences,
    CassandraReaches,
    CassandraReader,
    CassandraRecentBursts,
    CassandraRetractions,
    CassandraSeals,
    CassandraSent,
    CassandraSleepers,
    CassandraSpared,
    CassandraStays,
    CassandraThrottles,
    CassandraTimeline,
    CassandraTraces,
    CassandraViewerLapses,
    CassandraWants,
    Cluster,
    Phase,
    migrate,
    pending,
    require,
)
from notifier.adapters.cassandra.driver import warmup as beforehand
from notifier.adapters.celery import CeleryQueue, application, knock
from notifier.adapters.directory_cache import RememberedDirectory
from notifier.adapters.kafka import KafkaLog
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
from notifier.adapters.system_clock import SystemClock, UuidNonces
from notifier.config import PREFIX, Settings
from notifier.config.field import split
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import OUTAGES, StoreUnavailable
from notifier.flow.inbox.versioned_ports import versioned
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports, ReadPorts
from notifier.profiles import health as judging
from notifier.profiles.celery_brokers import brokers
from notifier.profiles.cluster_connections import of_cassandra, of_kafka, of_redis
from notifier.profiles.data_folder import ANSWERS_WITHIN, locked, require_redis, writable
from notifier.profiles.health import Look, inspected
from notifier.profiles.profile import Inspection
from notifier.profiles.push_providers import providers, served


class Clustered:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._run = settings.data / "run"
        self._cluster = Cluster(of_cassandra(settings), require)
        self._kafka = of_kafka(settings)
        self._clock = SystemClock()
        self._closing, self._leaving = ExitStack(), AsyncExitStack()
        self._closing.callback(self._cluster.close)

    def pending(self) -> Sequence[str]:
        kafka.check_access(self._kafka)
        steps = [step for phase in Phase for step in pending(self._cluster, phase)]
        return [*steps, *kafka.pending(self._kafka)]

    def migrate(self, phase: str | None = None) -> int:
        kafka.check_access(self._kafka)
        steps = sum(migrate(self._cluster, each_phase) for each_phase in Phase if phase in (None, each_phase))
        return steps + (kafka.migrate(self._kafka) if phase != Phase.POST else 0)

    def prepare(self) -> None:
        with suppress(StoreUnavailable):  # an outage: roles start anyway and serve what they can
            require(self._cluster)

    def require_log(self) -> None:
        kafka.require_access(self._kafka)

    def warm(self) -> None:
        with suppress(*OUTAGES):
            beforehand.prepare(self._cluster)

    @contextmanager
    def services(self, alone: Callable[[], None] = lambda: None) -> Iterator[Mapping[str, str]]:
        writable(self._run)
        with locked(self._run / "lock"):
            alone()
            brokers(self._settings, self.redis_url())
            require_redis(self.redis_url(), ANSWERS_WITHIN)
            yield {PREFIX + "REDIS_URL": self.redis_url(), PREFIX + "DATA": str(self._settings.data.absolute())}

    def require_services(self) -> None:
        require_redis(self.redis_url(), 0.0)

    def inspect(self) -> Iterator[Inspection]:
        nodes, urls = of_cassandra(self._settings), brokers(self._settings, self.redis_url())
        looks: dict[str, Look] = {
            "cassandra": lambda: list(judging.of_cassandra(cassandra.look(nodes), nodes)),
            "kafka": lambda: list(judging.of_kafka(kafka.cluster_status(self._kafka))),
            "redis": self._look_at_redis(self.redis_url(), "redis", queues=self.redis_url() in urls.values()),
        }
        # Inspect each server once, even if several pools have their databases on it.
        seen: set[str] = set()
        for pool, url in urls.items():
            if (server := split(url).netloc) not in seen:
                looks[f"broker {pool}"] = self._look_at_broker(url, pool)
            seen.add(server)
        return inspected(looks)

    def _look_at_broker(self, url: str, pool: Pool) -> Look:
        def knocked() -> Sequence[Inspection]:
            knock(url, pool)
            return []

        is_redis = split(url).scheme in ("redis", "rediss")
        return self._look_at_redis(url, f"broker {pool}", queues=True) if is_redis else knocked

    def _look_at_redis(self, url: str, name: str, *, queues: bool) -> Look:
        return lambda: list(judging.of_redis(name, redis.look(url), queues=queues))

    def redis_url(self) -> str:
        return of_redis(self._settings)

    def pids(self) -> Mapping[str, int]:
        return {}

    def processes(self) -> Mapping[Pool, int]:
        # While one process waits for the store, the other divides audiences. One alone leaves 1/6 of two cores idle.
        return {Pool.P0: 2, Pool.P1: 2}

    def ports(self, metrics: Metrics | None = None) -> Ports:
        cluster, clock, nonces = self._cluster, self._clock, UuidNonces()
        cache, queue = (
            connect(self.redis_url(), metrics),
            CeleryQueue(brokers(self._settings, self.redis_url()), metrics),
        )
        log, ledger = KafkaLog(self._kafka), CassandraLedger(cluster, clock)
        bursts = CassandraBursts(cluster, clock)
        phones = providers(self._settings, clock, self._closing)
        for closing in (log.close, cache.close, queue.close):
            self._closing.callback(closing)
        ports = Ports(
            log=log,
            directory=RememberedDirectory(CassandraDirectory(cluster)),
            sets=CassandraMemberSets(cluster),
            heads=CassandraHeads(cluster),
            bursts=bursts,
            recent_bursts=CassandraRecentBursts(cluster, clock),
            viewer_lapses=CassandraViewerLapses(cluster, clock, nonces),
            ledger=ledger,
            sleepers=CassandraSleepers(cluster, clock, ledger.openings),
            claims=CassandraClaims(cluster),
            seals=CassandraSeals(cluster, clock),
            inbox=CassandraInbox(cluster, clock),
            follows=CassandraFollows(cluster),
            wants=CassandraWants(cluster),
            flags=CassandraFlags(cluster),
            devices=CassandraDevices(cluster, clock),
            retractions=CassandraRetractions(cluster),
            overalls=CassandraOveralls(cluster),
            partings=CassandraPartings(cluster),
            stays=CassandraStays(cluster, clock),
            epochs=CassandraEpochs(cluster),
            reaches=CassandraReaches(cluster),
            holds=CassandraHolds(cluster, clock),
            traces=CassandraTraces(cluster, clock),
            throttles=CassandraThrottles(cluster, clock),
            dead_letters=CassandraDeadLetters(cluster, clock),
            lane_tallies=CassandraLaneTallies(cluster),
            sent=CassandraSent(cluster),
            spared=CassandraSpared(cluster),
            leases=CassandraLeases(cluster),
            archive=CassandraArchive(cluster, ledger, bursts),
            pull=RedisPullIndex(cache, nonces),
            recent=RedisRecent(cache),
            buckets=RedisBuckets(cache),
            pressure=RedisPressure(cache),
            report=RedisBacklogReport(cache),
            active_hours=RedisActiveHours(cache),
            paces=RedisPaces(cache, self._settings.push.paces),
            caps=RedisCaps(cache, self._settings.push.caps),
            tabs=RedisTabReport(cache),
            lines=RedisLineReport(cache),
            bus=RedisBus(cache),
            versions=RedisViewerVersions(cache),
            queue=queue,
            providers=phones,
            platforms=served(phones),
            clock=clock,
            nonces=nonces,
            chance=random,
        )
        return versioned(ports)

    def reads(self, metrics: Metrics | None = None) -> ReadPorts:
        cache, reader = connect_async(self.redis_url(), metrics), CassandraReader(self._cluster)
        self._leaving.push_async_callback(cache.aclose)
        versions = RedisInboxVersions(cache)
        self._leaving.push_async_callback(versions.close)
        return ReadPorts(
            people=CassandraPeople(reader, self._clock),
            preferences=CassandraPreferences(reader),
            timeline=CassandraTimeline(reader, self._clock),
            burst_changes=CassandraBurstChanges(reader, self._clock, UuidNonces()),
            pull=RedisPullReader(cache, self._clock),
            activity=RedisActivity(cache),
            live=RedisLiveReader(cache),
            versions=versions,
            clock=self._clock,
            nonces=UuidNonces(),
        )

    async def leave(self) -> None:
        await self._leaving.aclose()

    def application(self, pool: Pool, metrics: Metrics | None = None) -> Any:
        return application(brokers(self._settings, self.redis_url())[pool], pool, metrics=metrics)

    def empty(self) -> bool:
        """Return False: other systems may share this Redis."""
        return False

    def close(self) -> None:
        self._closing.close()
