"""Connections to Redis, whatever stands at the address: one server, sentinels or a cluster."""

import time
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, cast

import redis.asyncio.sentinel
import redis.sentinel

from notifier.adapters.redis.address import Several, several
from notifier.adapters.redis.cluster import AsyncClusterClient, ClusterClient
from notifier.adapters.redis.keys import GarbageCount
from notifier.adapters.redis.node import (
    READERS,
    TIMEOUT,
    AsyncClient,
    RedisBreaker,
    RedisClient,
    RedisConnectionPool,
    patience,
    patience_async,
)
from notifier.domain.errors import BadSetting, CacheUnavailable
from notifier.metrics import Metrics

__all__ = [
    "READERS",
    "TIMEOUT",
    "AsyncClient",
    "RedisBreaker",
    "RedisClient",
    "await_answer",
    "connect",
    "connect_async",
]

ASKS_EVERY = 0.1
"""Seconds between two questions to a server that is waited for."""


class _SentinelLine(redis.asyncio.sentinel.SentinelConnectionPool, RedisConnectionPool):
    """Connections to whichever server is the primary now, for one reader after the other."""

    async def disconnect(self, inuse_connections: bool = True) -> None:
        await super().disconnect(inuse_connections)
        for sentinel in self.sentinel_manager.sentinels:
            await sentinel.connection_pool.disconnect()


def connect(url: str, metrics: Metrics | None = None) -> RedisClient:
    """A client that connects at its first command; thread-safe, and to be made after a fork. Raises BadSetting."""
    match several(url):
        case None:
            client = _one(url)
        case Several(kind="cluster") as found:
            # Answers the commands that the adapters use, with keys where they have them.
            client = cast(RedisClient, ClusterClient(found))
        case found:
            client = _primary(found)
    client.garbage = GarbageCount(metrics.garbage if metrics else None)
    return client


def await_answer(url: str, within: float) -> None:
    """Returns once the server answers, tried at least once. Raises CacheUnavailable with the last cause, or BadSetting.

    A server that still loads is given the time; a wrong password too, for it costs no more.
    """
    deadline, client = monotonic() + within, connect(url)
    try:
        while True:
            try:
                with RedisBreaker().answered():
                    client.ping()
                return
            except CacheUnavailable:
                if monotonic() >= deadline:
                    raise
            sleep(ASKS_EVERY)
    finally:
        client.close()


def connect_async(url: str, metrics: Metrics | None = None) -> AsyncClient:
    match several(url):
        case None:
            client = _one_async(url)
        case Several(kind="cluster") as found:
            client = cast(AsyncClient, AsyncClusterClient(found))
        case found:
            client = _primary_async(found)
    client.garbage = GarbageCount(metrics.garbage if metrics else None)
    return client


def _one(url: str) -> RedisClient:
    try:
        client = RedisClient.from_url(url, **patience())
    except ValueError:
        # Without its words, which quote a password that isn't escaped.
        raise BadSetting(
            "The Redis URL can't be read; what its password has of / # ? @ or : is to be escaped."
        ) from None
    assert isinstance(client, RedisClient)
    return client


def _one_async(url: str) -> AsyncClient:
    pool = RedisConnectionPool.from_url(url, max_connections=READERS, timeout=TIMEOUT, **patience_async())
    client = AsyncClient.from_pool(pool)
    assert isinstance(client, AsyncClient)
    return client


def _primary(at: Several) -> RedisClient:
    """Each new connection asks a sentinel where the primary is. One that was broken by a fail-over is such a one."""
    asked = patience() | at.options
    sentinel = redis.sentinel.Sentinel(at.hosts, sentinel_kwargs={**asked, "db": 0}, **asked)  # type: ignore[no-untyped-call] # the library has no types here
    client = sentinel.master_for(at.service, redis_class=RedisClient)  # type: ignore[no-untyped-call] # as above
    assert isinstance(client, RedisClient)
    return client


def _primary_async(at: Several) -> AsyncClient:
    asked = patience_async() | at.options
    sentinel = redis.asyncio.sentinel.Sentinel(at.hosts, sentinel_kwargs={**asked, "db": 0}, **asked)  # type: ignore[no-untyped-call] # as above
    pool = _SentinelLine(at.service, sentinel, max_connections=READERS, timeout=TIMEOUT, **asked)  # type: ignore[no-untyped-call] # as above
    client = AsyncClient.from_pool(pool)
    assert isinstance(client, AsyncClient)
    return client


# A look at a server, for whoever is asked whether it is as it must be; it changes nothing.


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisServer:
    name: str
    """`redis` or `valkey`."""
    version: str
    policy: str
    """What it does when it is full."""
    ahead: float
    """Seconds of its clock before ours, less what the way of the answer may have made of them."""


def look(url: str) -> RedisServer:
    """Raises CacheUnavailable, and BadSetting."""
    client = connect(url)
    try:
        with client.answered():
            info: Any = client.info()
            before = time.time()
            seconds, micros = client.time()
            after = time.time()
    finally:
        client.close()
    theirs = seconds + micros / 1_000_000
    return RedisServer(
        name=str(info.get("server_name", "redis")),
        version=str(info.get("valkey_version", info.get("redis_version", "0"))),
        policy=str(info.get("maxmemory_policy", "")),
        ahead=theirs - min(max(theirs, before), after),
    )
