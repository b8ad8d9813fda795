"""Cluster profile: Cassandra, Kafka, Redis and Celery brokers, all operated externally."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from random import random
from typing import Any

from notifier.adapters import cassandra, kafka, redis
from notifier.adapters.cassandra import (
    AsyncQueries,
    CassandraAccountFlags,
    CassandraAccountPreferences,
    CassandraActiveSets,
    CassandraAudienceSnapshots,
    CassandraAuthorVerdicts,
    CassandraBurstChanges,
    CassandraBursts,
    CassandraClaims,
    CassandraDeadLetters,
    CassandraDeadLetterTallies,
    CassandraDeferredBursts,
    CassandraDevices,
    CassandraDirectory,
    CassandraEpochs,
    CassandraErasureTargets,
    CassandraFollows,
    CassandraHeads,
    CassandraHeldMentions,
    CassandraInbox,
    CassandraLeases,
    CassandraLedger,
    CassandraMemberSets,
    CassandraPeople,
    CassandraPreferences,
    CassandraPushSuppressions,
    CassandraRecentBursts,
    CassandraRetractions,
    CassandraSendLog,
    CassandraStoreScan,
    CassandraSubjectPreferences,
    CassandraThrottles,
    CassandraTimeline,
    CassandraUserBlocks,
    CassandraViewerLapses,
    Cluster,
    Phase,
    migrate,
    pending_migrations,
    require_schema,
)
from notifier.adapters.cassandra.driver.statements import prepare_statements
from notifier.adapters.clock_and_nonces import SystemClock, UuidNonces
from notifier.adapters.kafka import KafkaLog
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
from notifier.adapters.user_directory_cache import CachedDirectory
from notifier.config import VARIABLE_PREFIX, Settings
from notifier.config.setting_field import split_url
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import OUTAGES, StoreUnavailable
from notifier.flow.inbox.cache_invalidating_ports import versioned
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports, ReadPorts
from notifier.ports.inbox_cache_freshness import LOOKUP_SHARE
from notifier.profiles import engine_inspections
from notifier.profiles.cluster_connection_parameters import cassandra_access, kafka_access, redis_url
from notifier.profiles.data_folder_and_instance_name import locked, require_writable
from notifier.profiles.engine_inspections import EngineInspection, run_inspections
from notifier.profiles.profile import Inspection
from notifier.profiles.push_providers import configured_platforms, providers
from notifier.profiles.redis_urls_and_task_queue import REDIS_STARTUP_TIMEOUT, TaskQueue, broker_urls, require_redis


class ClusterProfile:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._run_folder = settings.data / "run"
        self._cluster = Cluster(cassandra_access(settings), require_schema)
        self._kafka_access = kafka_access(settings)
        self._clock = SystemClock()
        self._closing, self._closing_async = ExitStack(), AsyncExitStack()
        self._closing.callback(self._cluster.close)

    def pending(self) -> Sequence[str]:
        kafka.check_access(self._kafka_access)
        steps = [step for phase in Phase for step in pending_migrations(self._cluster, phase)]
        return [*steps, *kafka.pending_migration_steps(self._kafka_access)]

    def migrate(self, phase: str | None = None) -> int:
        kafka.check_access(self._kafka_access)
        step_count = sum(
            migrate(self._cluster, migration_phase) for migration_phase in Phase if phase in (None, migration_phase)
        )
        return step_count + (kafka.migrate(self._kafka_access) if phase != Phase.POST else 0)

    def ensure_schema(self) -> None:
        with suppress(StoreUnavailable):  # in an outage roles start anyway, and serve what they can
            require_schema(self._cluster)

    def require_log(self) -> None:
        kafka.require_access(self._kafka_access)

    def warm(self) -> None:
        with suppress(*OUTAGES):
            prepare_statements(self._cluster)

    @contextmanager
    def services(self, on_locked: Callable[[], None] = lambda: None) -> Iterator[Mapping[str, str]]:
        require_writable(self._run_folder)
        with locked(self._run_folder / "lock"):
            on_locked()
            broker_urls(self._settings, self.redis_url())  # raises BadSetting here, before any role starts
            require_redis(self.redis_url(), REDIS_STARTUP_TIMEOUT)
            yield {
                VARIABLE_PREFIX + "REDIS_URL": self.redis_url(),
                VARIABLE_PREFIX + "DATA": str(self._settings.data.absolute()),
            }

    def require_services(self) -> None:
        require_redis(self.redis_url(), 0.0)

    def inspect(self) -> Iterator[Inspection]:
        access, urls = cassandra_access(self._settings), broker_urls(self._settings, self.redis_url())
        inspections: dict[str, EngineInspection] = {
            "cassandra": lambda: list(engine_inspections.inspect_cassandra(cassandra.cassandra_status(access), access)),
            "kafka": lambda: list(engine_inspections.inspect_kafka(kafka.cluster_status(self._kafka_access))),
            "redis": self._redis_inspection(self.redis_url(), "redis", holds_tasks=self.redis_url() in urls.values()),
        }
        # Inspect each broker once, even if several pools have their databases on it.
        seen_servers: set[str] = set()
        for pool, url in urls.items():
            if (server := split_url(url).netloc) not in seen_servers:
                inspections[f"broker {pool}"] = self._broker_inspection(url, pool)
            seen_servers.add(server)
        return run_inspections(inspections)

    def _broker_inspection(self, url: str, pool: Pool) -> EngineInspection:
        def probe_connection() -> Sequence[Inspection]:
            from notifier.adapters.celery.queue import check_connection

            check_connection(url, pool)
            return []

        is_redis = split_url(url).scheme in ("redis", "rediss")
        return self._redis_inspection(url, f"broker {pool}", holds_tasks=True) if is_redis else probe_connection

    def _redis_inspection(self, url: str, name: str, *, holds_tasks: bool) -> EngineInspection:
        return lambda: list(engine_inspections.inspect_redis(name, redis.server_status(url), holds_tasks=holds_tasks))

    def redis_url(self) -> str:
        return redis_url(self._settings)

    def service_pids(self) -> Mapping[str, int]:
        return {}

    def worker_counts(self) -> Mapping[Pool, int]:
        # While one process waits for the store, the other computes audiences. A single process left a sixth of two
        # cores idle.
        return {Pool.P0: 2, Pool.P1: 2}

    def ports(self, metrics: Metrics | None = None) -> Ports:
        cluster, clock, nonces = self._cluster, self._clock, UuidNonces()
        cache, queue = (
            connect(self.redis_url(), metrics),
            TaskQueue(broker_urls(self._settings, self.redis_url()), metrics),
        )
        log, ledger = KafkaLog(self._kafka_access), CassandraLedger(cluster, clock)
        bursts = CassandraBursts(cluster, clock)
        push_providers = providers(self._settings, clock, self._closing)
        for closing in (log.close, cache.close, queue.close):
            self._closing.callback(closing)
        ports = Ports(
            log=log,
            directory=CachedDirectory(CassandraDirectory(cluster)),
            sets=CassandraMemberSets(cluster),
            heads=CassandraHeads(cluster),
            bursts=bursts,
            recent_bursts=CassandraRecentBursts(cluster, clock),
            viewer_lapses=CassandraViewerLapses(cluster, clock, nonces),
            ledger=ledger,
            deferred_bursts=CassandraDeferredBursts(cluster, clock, ledger.unfinished_burst_list),
            claims=CassandraClaims(cluster),
            audience_snapshots=CassandraAudienceSnapshots(cluster, clock),
            inbox=CassandraInbox(cluster, clock),
            follows=CassandraFollows(cluster),
            subject_preferences=CassandraSubjectPreferences(cluster),
            account_flags=CassandraAccountFlags(cluster),
            devices=CassandraDevices(cluster, clock),
            retractions=CassandraRetractions(cluster),
            account_preferences=CassandraAccountPreferences(cluster),
            user_blocks=CassandraUserBlocks(cluster),
            active_sets=CassandraActiveSets(cluster, clock),
            epochs=CassandraEpochs(cluster),
            author_verdicts=CassandraAuthorVerdicts(cluster),
            held_mentions=CassandraHeldMentions(cluster, clock),
            erasure_targets=CassandraErasureTargets(cluster, clock),
            throttles=CassandraThrottles(cluster, clock),
            dead_letters=CassandraDeadLetters(cluster, clock),
            lane_tallies=CassandraDeadLetterTallies(cluster),
            send_log=CassandraSendLog(cluster),
            push_suppressions=CassandraPushSuppressions(cluster),
            leases=CassandraLeases(cluster),
            store_scan=CassandraStoreScan(cluster, ledger, bursts),
            pull=RedisPullIndex(cache, nonces),
            recent_events=RedisRecentEvents(cache),
            token_buckets=RedisTokenBuckets(cache),
            backpressure=RedisBackpressure(cache),
            backlog_report=RedisBacklogReport(cache),
            active_hours=RedisActiveHours(cache),
            provider_rates=RedisProviderRates(cache, self._settings.push.provider_limits),
            caps=RedisFrequencyCaps(cache, self._settings.push.caps),
            inbox_latency=RedisInboxLatencyReport(cache),
            circuit_report=RedisCircuitReport(cache),
            bus=RedisLiveBus(cache),
            versions=RedisViewerVersionWriter(cache),
            queue=queue,
            providers=push_providers,
            platforms=configured_platforms(push_providers),
            clock=clock,
            nonces=nonces,
            random=random,
        )
        return versioned(ports)

    def read_ports(self, metrics: Metrics | None = None) -> ReadPorts:
        cache, async_queries = connect_async(self.redis_url(), metrics), AsyncQueries(self._cluster)
        self._closing_async.push_async_callback(cache.aclose)
        versions = RedisViewerVersionReader(cache, self._settings.inbox.deadline * LOOKUP_SHARE)
        self._closing_async.push_async_callback(versions.close)
        return ReadPorts(
            people=CassandraPeople(async_queries, self._clock),
            preferences=CassandraPreferences(async_queries),
            timeline=CassandraTimeline(async_queries, self._clock),
            burst_changes=CassandraBurstChanges(async_queries, self._clock, UuidNonces()),
            pull=RedisPullReader(cache, self._clock),
            activity=RedisActivity(cache),
            live=RedisLiveReader(cache),
            versions=versions,
            clock=self._clock,
            nonces=UuidNonces(),
        )

    async def close_reads(self) -> None:
        await self._closing_async.aclose()

    def celery_app(self, pool: Pool, metrics: Metrics | None = None) -> Any:
        from notifier.adapters.celery.app import celery_app

        return celery_app(broker_urls(self._settings, self.redis_url())[pool], pool, metrics=metrics)

    def flush_redis(self) -> bool:
        """Return False: other systems may share this Redis."""
        return False

    def close(self) -> None:
        self._closing.close()
