"""Embedded profile: SQLite files, a private Valkey server, and Celery on top of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from random import random
from typing import Any

from notifier.adapters.celery import CeleryQueue, application
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
from notifier.adapters.sqlite import (
    Files,
    SqliteArchive,
    SqliteBurstChanges,
    SqliteBursts,
    SqliteClaims,
    SqliteDeadLetters,
    SqliteDevices,
    SqliteDirectory,
    SqliteEpochs,
    SqliteFlags,
    SqliteFollows,
    SqliteHeads,
    SqliteHolds,
    SqliteInbox,
    SqliteLaneTallies,
    SqliteLeases,
    SqliteLedger,
    SqliteLog,
    SqliteMemberSets,
    SqliteOveralls,
    SqlitePartings,
    SqlitePeople,
    SqlitePreferences,
    SqliteReaches,
    SqliteReader,
    SqliteRecentBursts,
    SqliteRetractions,
    SqliteSeals,
    SqliteSent,
    SqliteSleepers,
    SqliteSpared,
    SqliteStays,
    SqliteThrottles,
    SqliteTimeline,
    SqliteTraces,
    SqliteViewerLapses,
    SqliteWants,
)
from notifier.adapters.system_clock import SystemClock, UuidNonces
from notifier.adapters.valkey import ValkeyServer, empty, valkey_binary
from notifier.config import PREFIX, Settings
from notifier.domain.delivery.slice import Pool
from notifier.flow.inbox.versioned_ports import versioned
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports, ReadPorts
from notifier.profiles.celery_brokers import brokers
from notifier.profiles.data_folder import ANSWERS_WITHIN, checked, locked, remembered, require_redis, writable
from notifier.profiles.profile import Inspection
from notifier.profiles.push_providers import providers, served

NOWHERE = "redis://127.0.0.1:1"
"""URL while no `notifier up` runs on the folder and there is no Redis. Calls fail at once and callers degrade."""


class Embedded:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._run = settings.data / "run"
        self._files = Files.at(settings.data)
        self._clock = SystemClock()
        self._closing, self._leaving = ExitStack(), AsyncExitStack()
        self._server: ValkeyServer | None = None

    def pending(self) -> Sequence[str]:
        return self._files.pending()

    def migrate(self, phase: str | None = None) -> int:
        """Apply all steps in the first phase: no old code shares these files."""
        if phase == "post":
            return 0
        writable(self._settings.data)
        return self._files.migrate()

    def prepare(self) -> None:
        self.migrate()

    def require_log(self) -> None:
        """Do nothing: the log is a local file."""

    def warm(self) -> None:
        """Do nothing: all stores are local."""

    @contextmanager
    def services(self, alone: Callable[[], None] = lambda: None) -> Iterator[Mapping[str, str]]:
        writable(self._run)
        with locked(self._run / "lock"), ExitStack() as stack:
            alone()
            if self._settings.redis_url:
                brokers(self._settings, self._settings.redis_url)
                require_redis(self._settings.redis_url, ANSWERS_WITHIN)
            url = self._settings.redis_url or stack.enter_context(self._valkey())
            stack.enter_context(remembered(self._run / "redis.url", url))
            yield {PREFIX + "REDIS_URL": url, PREFIX + "DATA": str(self._settings.data.absolute())}

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
            return checked(self._settings.redis_url)
        try:
            return (self._run / "redis.url").read_text()
        except FileNotFoundError:
            return NOWHERE

    def processes(self) -> Mapping[Pool, int]:
        return {}

    def pids(self) -> Mapping[str, int]:
        pid = self._server.pid if self._server else None
        return {} if pid is None else {"valkey": pid}

    def ports(self, metrics: Metrics | None = None) -> Ports:
        files, clock, nonces = self._files, self._clock, UuidNonces()
        redis, queue = (
            connect(self.redis_url(), metrics),
            CeleryQueue(brokers(self._settings, self.redis_url()), metrics),
        )
        log = SqliteLog(files.log, clock)
        phones = providers(self._settings, clock, self._closing)
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
            sleepers=SqliteSleepers(files.core),
            claims=SqliteClaims(files.core),
            seals=SqliteSeals(files.inboxes, clock),
            inbox=SqliteInbox(files.inboxes),
            follows=SqliteFollows(files.core),
            wants=SqliteWants(files.core),
            flags=SqliteFlags(files.core),
            devices=SqliteDevices(files.core, clock),
            retractions=SqliteRetractions(files.core),
            overalls=SqliteOveralls(files.core),
            partings=SqlitePartings(files.core),
            stays=SqliteStays(files.core),
            epochs=SqliteEpochs(files.core),
            reaches=SqliteReaches(files.core),
            holds=SqliteHolds(files.core, clock),
            traces=SqliteTraces(files.core),
            throttles=SqliteThrottles(files.core),
            dead_letters=SqliteDeadLetters(files.core),
            lane_tallies=SqliteLaneTallies(files.core),
            sent=SqliteSent(files.core, clock),
            spared=SqliteSpared(files.core),
            leases=SqliteLeases(files.core),
            archive=SqliteArchive(files.core, files.inboxes),
            pull=RedisPullIndex(redis, nonces),
            recent=RedisRecent(redis),
            buckets=RedisBuckets(redis),
            pressure=RedisPressure(redis),
            report=RedisBacklogReport(redis),
            active_hours=RedisActiveHours(redis),
            paces=RedisPaces(redis, self._settings.push.paces),
            caps=RedisCaps(redis, self._settings.push.caps),
            tabs=RedisTabReport(redis),
            lines=RedisLineReport(redis),
            bus=RedisBus(redis),
            versions=RedisViewerVersions(redis),
            queue=queue,
            providers=phones,
            platforms=served(phones),
            clock=clock,
            nonces=nonces,
            chance=random,
        )
        return versioned(ports)

    def reads(self, metrics: Metrics | None = None) -> ReadPorts:
        redis, reader = connect_async(self.redis_url(), metrics), SqliteReader()
        self._leaving.push_async_callback(redis.aclose)
        versions = RedisInboxVersions(redis)
        self._leaving.push_async_callback(versions.close)
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

    async def leave(self) -> None:
        await self._leaving.aclose()

    def application(self, pool: Pool, metrics: Metrics | None = None) -> Any:
        return application(brokers(self._settings, self.redis_url())[pool], pool, metrics=metrics)

    def empty(self) -> bool:
        return empty(self._run / "valkey")

    def close(self) -> None:
        self._closing.close()
        self._files.close()

    @contextmanager
    def _valkey(self) -> Iterator[str]:
        self._server = ValkeyServer(self._run / "valkey")
        self._server.start()
        try:
            yield self._server.url()
        finally:
            self._server.close()
