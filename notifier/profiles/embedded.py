"""The embedded profile: SQLite files, a Valkey server of our own, Celery on it; nothing but Python packages."""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from notifier.adapters.celery import CeleryQueue, application
from notifier.adapters.console import ConsoleSender
from notifier.adapters.redis import (
    RedisActivity,
    RedisBacklogReport,
    RedisBuckets,
    RedisBus,
    RedisLiveReader,
    RedisPressure,
    RedisPullIndex,
    RedisPullReader,
    RedisRecent,
    await_answer,
    connect,
    connect_async,
)
from notifier.adapters.sqlite import (
    Files,
    Reader,
    SqliteArchive,
    SqliteBursts,
    SqliteClaims,
    SqliteDeadLetters,
    SqliteDirectory,
    SqliteHeads,
    SqliteInbox,
    SqliteLeases,
    SqliteLedger,
    SqliteLog,
    SqliteMemberSets,
    SqlitePeople,
    SqliteRecentBursts,
    SqliteSeals,
    SqliteSent,
    SqliteSpared,
    SqliteThrottles,
    SqliteTimeline,
)
from notifier.adapters.system_clock import SystemClock, UuidNonces
from notifier.adapters.valkey import ValkeyServer, empty, valkey_binary
from notifier.config import PREFIX, Settings, without_password
from notifier.domain.errors import CacheUnavailable, DataLocked, Unwritable
from notifier.domain.slice import Pool
from notifier.system import Ports, Reads

NOWHERE = "redis://127.0.0.1:1"
"""While no `notifier up` runs on the folder there is no Redis: every call to it fails at once, and is done without."""

ANSWERS_WITHIN = 5.0
"""Seconds that a given Redis has for its first answer: one that is started beside `up` needs one or two."""


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

    def migrate(self) -> int:
        _writable(self._settings.data)
        return self._files.migrate()

    @contextmanager
    def services(self, alone: Callable[[], None] = lambda: None) -> Iterator[Mapping[str, str]]:
        _writable(self._run)
        with _locked(self._run / "lock"), ExitStack() as stack:
            alone()
            if self._settings.redis_url:
                _require_redis(self._settings.redis_url, ANSWERS_WITHIN)
            url = self._settings.redis_url or stack.enter_context(self._valkey())
            stack.enter_context(_remembered(self._run / "redis.url", url))
            yield {PREFIX + "REDIS_URL": url, PREFIX + "DATA": str(self._settings.data.absolute())}

    def require_services(self) -> None:
        if self._settings.redis_url:
            _require_redis(self._settings.redis_url, 0.0)
        else:
            valkey_binary()

    def pids(self) -> Mapping[str, int]:
        pid = self._server.pid if self._server else None
        return {} if pid is None else {"valkey": pid}

    def ports(self) -> Ports:
        files, clock, nonces = self._files, self._clock, UuidNonces()
        redis, queue = connect(self._redis_url()), CeleryQueue(self._redis_url())
        log = SqliteLog(files.log, clock)
        out = (self._settings.data / "alerts.ndjson").open("ab", buffering=0)
        for closing in (log.close, redis.close, queue.close, out.close):
            self._closing.callback(closing)
        return Ports(
            log=log,
            directory=SqliteDirectory(files.core),
            sets=SqliteMemberSets(files.core),
            heads=SqliteHeads(files.core),
            bursts=SqliteBursts(files.core),
            recent_bursts=SqliteRecentBursts(files.core),
            ledger=SqliteLedger(files.core),
            claims=SqliteClaims(files.core),
            seals=SqliteSeals(files.inboxes, clock),
            inbox=SqliteInbox(files.inboxes),
            throttles=SqliteThrottles(files.core),
            dead_letters=SqliteDeadLetters(files.core),
            sent=SqliteSent(files.core),
            spared=SqliteSpared(files.core),
            leases=SqliteLeases(files.core),
            archive=SqliteArchive(files.core, files.inboxes),
            pull=RedisPullIndex(redis, nonces),
            recent=RedisRecent(redis),
            buckets=RedisBuckets(redis),
            pressure=RedisPressure(redis),
            report=RedisBacklogReport(redis),
            bus=RedisBus(redis),
            queue=queue,
            sender=ConsoleSender(out),
            clock=clock,
            nonces=nonces,
        )

    def reads(self) -> Reads:
        redis, reader = connect_async(self._redis_url()), Reader()
        self._leaving.push_async_callback(redis.aclose)
        return Reads(
            people=SqlitePeople(self._files.core, reader),
            timeline=SqliteTimeline(self._files.core, self._files.inboxes, reader),
            pull=RedisPullReader(redis, self._clock),
            activity=RedisActivity(redis),
            live=RedisLiveReader(redis),
            clock=self._clock,
        )

    async def leave(self) -> None:
        await self._leaving.aclose()

    def application(self, pool: Pool) -> Any:
        return application(self._redis_url(), pool)

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

    def _redis_url(self) -> str:
        if self._settings.redis_url:
            return self._settings.redis_url
        try:
            return (self._run / "redis.url").read_text()
        except FileNotFoundError:
            return NOWHERE


def _require_redis(url: str, within: float) -> None:
    """One that doesn't answer at the first start is mostly a wrong address; later it is an outage, and survived."""
    try:
        await_answer(url, within)
    except CacheUnavailable as error:
        raise CacheUnavailable(f"{PREFIX}REDIS_URL is {without_password(url)!r}. {error.detail}") from error


def _writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "not writable")
    except OSError as error:
        raise Unwritable(f"{folder}: {error.strerror}.") from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """The lock is the process's: whatever kills it unlocks the folder."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataLocked(f"The folder is {path.parent.parent}.") from error
        yield


@contextmanager
def _remembered(path: Path, url: str) -> Iterator[None]:
    """For the commands that a person runs beside `notifier up`; it holds a password, so it is ours alone to read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(url)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
