"""Embedded profile: SQLite files, a private Valkey server, and Celery on it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from random import random
from typing import Any

from notifier.adapters.clock_and_nonces import SystemClock, UuidNonces
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
from notifier.adapters.sqlite import (
    Files,
    SqliteAccountFlags,
    SqliteAccountPreferences,
    SqliteActiveSets,
    SqliteAudienceSnapshots,
    SqliteAuthorVerdicts,
    SqliteBurstChanges,
    SqliteBursts,
    SqliteClaims,
    SqliteDeadLetters,
    SqliteDeadLetterTallies,
    SqliteDeferredBursts,
    SqliteDevices,
    SqliteDirectory,
    SqliteEpochs,
    SqliteErasureTargets,
    SqliteFollows,
    SqliteHeads,
    SqliteHeldMentions,
    SqliteInbox,
    SqliteLeases,
    SqliteLedger,
    SqliteLog,
    SqliteMemberSets,
    SqlitePeople,
    SqlitePreferences,
    SqlitePushSuppressions,
    SqliteReader,
    SqliteRecentBursts,
    SqliteRetractions,
    SqliteSendLog,
    SqliteStoreScan,
    SqliteSubjectPreferences,
    SqliteThrottles,
    SqliteTimeline,
    SqliteUserBlocks,
    SqliteViewerLapses,
)
from notifier.adapters.valkey import ValkeyServer, flush_all, valkey_binary
from notifier.config import VARIABLE_PREFIX, Settings
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.flow.inbox.cache_invalidating_ports import versioned
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports, ReadPorts
from notifier.ports.inbox_cache_freshness import LOOKUP_SHARE
from notifier.profiles.data_folder_and_instance_name import locked, require_writable
from notifier.profiles.profile import Inspection
from notifier.profiles.push_providers import configured_platforms, providers
from notifier.profiles.redis_urls_and_task_queue import (
    REDIS_STARTUP_TIMEOUT,
    TaskQueue,
    broker_urls,
    checked_redis_url,
    remembered_redis_url,
    require_redis,
)

NO_REDIS_URL = "redis://127.0.0.1:1"
"""A URL at which nothing listens, so that calls to Redis fail at once."""


class EmbeddedProfile:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._run_folder = settings.data / "run"
        self._files = Files.at(settings.data)
        self._clock = SystemClock()
        self._closing, self._closing_async = ExitStack(), AsyncExitStack()
        self._valkey_server: ValkeyServer | None = None

    def pending(self) -> Sequence[str]:
        return self._files.pending()

    def migrate(self, phase: str | None = None) -> int:
        """Apply all steps; none is left for the phase `post`. No process of another version shares these files."""
        if phase == "post":
            return 0
        require_writable(self._settings.data)
        return self._files.migrate()

    def ensure_schema(self) -> None:
        self.migrate()

    def require_log(self) -> None:
        """Do nothing: the log is a local file."""

    def warm(self) -> None:
        """Do nothing: all stores are local."""

    @contextmanager
    def services(self, on_locked: Callable[[], None] = lambda: None) -> Iterator[Mapping[str, str]]:
        require_writable(self._run_folder)
        with locked(self._run_folder / "lock"), ExitStack() as stack:
            on_locked()
            if self._settings.redis_url:
                broker_urls(self._settings, self._settings.redis_url)  # raises BadSetting before any role starts
                require_redis(self._settings.redis_url, REDIS_STARTUP_TIMEOUT)
            url = self._settings.redis_url or stack.enter_context(self._running_valkey())
            stack.enter_context(remembered_redis_url(self._run_folder / "redis.url", url))
            yield {VARIABLE_PREFIX + "REDIS_URL": url, VARIABLE_PREFIX + "DATA": str(self._settings.data.absolute())}

    def require_services(self) -> None:
        if self._settings.redis_url:
            require_redis(self._settings.redis_url, 0.0)
        else:
            valkey_binary()

    def inspect(self) -> Iterator[Inspection]:
        """Return no inspections: this profile has no external engines."""
        return iter(())

    def redis_url(self) -> str:
        if self._settings.redis_url:
            return checked_redis_url(self._settings.redis_url)
        try:
            return (self._run_folder / "redis.url").read_text()
        except FileNotFoundError:
            return NO_REDIS_URL

    def worker_counts(self) -> Mapping[Pool, int]:
        return {}

    def service_pids(self) -> Mapping[str, int]:
        pid = self._valkey_server.pid if self._valkey_server else None
        return {} if pid is None else {"valkey": pid}

    def ports(self, metrics: Metrics | None = None) -> Ports:
        files, clock, nonces = self._files, self._clock, UuidNonces()
        redis, queue = (
            connect(self.redis_url(), metrics),
            TaskQueue(broker_urls(self._settings, self.redis_url()), metrics),
        )
        log = SqliteLog(files.log, clock)
        push_providers = providers(self._settings, clock, self._closing)
        for closing in (log.close, redis.close, queue.close):
            self._closing.callback(closing)
        ports = Ports(
            log=log,
            directory=SqliteDirectory(files.core),
            sets=SqliteMemberSets(files.core),
            heads=SqliteHeads(files.core),
            bursts=SqliteBursts(files.core),
            recent_bursts=SqliteRecentBursts(files.core),
            viewer_lapses=SqliteViewerLapses(files.core),
            ledger=SqliteLedger(files.core),
            deferred_bursts=SqliteDeferredBursts(files.core),
            claims=SqliteClaims(files.core),
            audience_snapshots=SqliteAudienceSnapshots(files.inboxes, clock),
            inbox=SqliteInbox(files.inboxes),
            follows=SqliteFollows(files.core),
            subject_preferences=SqliteSubjectPreferences(files.core),
            account_flags=SqliteAccountFlags(files.core),
            devices=SqliteDevices(files.core, clock),
            retractions=SqliteRetractions(files.core),
            account_preferences=SqliteAccountPreferences(files.core),
            user_blocks=SqliteUserBlocks(files.core),
            active_sets=SqliteActiveSets(files.core),
            epochs=SqliteEpochs(files.core),
            author_verdicts=SqliteAuthorVerdicts(files.core),
            held_mentions=SqliteHeldMentions(files.core, clock),
            erasure_targets=SqliteErasureTargets(files.core),
            throttles=SqliteThrottles(files.core),
            dead_letters=SqliteDeadLetters(files.core),
            lane_tallies=SqliteDeadLetterTallies(files.core),
            send_log=SqliteSendLog(files.core, clock),
            push_suppressions=SqlitePushSuppressions(files.core),
            leases=SqliteLeases(files.core),
            store_scan=SqliteStoreScan(files.core, files.inboxes),
            pull=RedisPullIndex(redis, nonces),
            recent_events=RedisRecentEvents(redis),
            token_buckets=RedisTokenBuckets(redis),
            backpressure=RedisBackpressure(redis),
            backlog_report=RedisBacklogReport(redis),
            active_hours=RedisActiveHours(redis),
            provider_rates=RedisProviderRates(redis, self._settings.push.provider_limits),
            caps=RedisFrequencyCaps(redis, self._settings.push.caps),
            inbox_latency=RedisInboxLatencyReport(redis),
            circuit_report=RedisCircuitReport(redis),
            bus=RedisLiveBus(redis),
            versions=RedisViewerVersionWriter(redis),
            queue=queue,
            providers=push_providers,
            platforms=configured_platforms(push_providers),
            clock=clock,
            nonces=nonces,
            random=random,
        )
        return versioned(ports)

    def read_ports(self, metrics: Metrics | None = None) -> ReadPorts:
        redis, reader = connect_async(self.redis_url(), metrics), SqliteReader()
        self._closing_async.push_async_callback(redis.aclose)
        versions = RedisViewerVersionReader(redis, self._settings.inbox.deadline * LOOKUP_SHARE)
        self._closing_async.push_async_callback(versions.close)
        return ReadPorts(
            people=SqlitePeople(self._files.core, reader),
            preferences=SqlitePreferences(self._files.core, reader),
            timeline=SqliteTimeline(self._files.core, self._files.inboxes, reader),
            burst_changes=SqliteBurstChanges(self._files.core, reader),
            pull=RedisPullReader(redis, self._clock),
            activity=RedisActivity(redis),
            live=RedisLiveReader(redis),
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
        return flush_all(self._run_folder / "valkey")

    def close(self) -> None:
        self._closing.close()
        self._files.close()

    @contextmanager
    def _running_valkey(self) -> Iterator[str]:
        self._valkey_server = ValkeyServer(self._run_folder / "valkey")
        self._valkey_server.start()
        try:
            yield self._valkey_server.url()
        finally:
            self._valkey_server.close()
