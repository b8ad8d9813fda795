"""Connects to one Redis server, through sentinels, or to a cluster."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, cast

import redis.asyncio.sentinel
import redis.sentinel

from notifier.adapters.redis.cluster import AsyncClusterClient, ClusterClient
from notifier.adapters.redis.keys_checksums_lua_scripts import GarbageCount
from notifier.adapters.redis.multi_host_address import MultiHostAddress, multi_host_address
from notifier.adapters.redis.server_client import (
    MAX_CONNECTIONS,
    TIMEOUT,
    AsyncClient,
    RedisBreaker,
    RedisClient,
    RedisConnectionPool,
    timeout_options,
    timeout_options_async,
)
from notifier.domain.errors import BadSetting, CacheUnavailable
from notifier.metrics import Metrics

__all__ = [
    "MAX_CONNECTIONS",
    "TIMEOUT",
    "AsyncClient",
    "RedisBreaker",
    "RedisClient",
    "await_answer",
    "connect",
    "connect_async",
]

PING_INTERVAL = 0.1
"""Seconds between two pings while waiting for a server to come up."""


class _SentinelConnectionPool(redis.asyncio.sentinel.SentinelConnectionPool, RedisConnectionPool):
    """Pool of connections to the current primary. `disconnect` also closes the connections to the sentinels."""

    async def disconnect(self, inuse_connections: bool = True) -> None:
        await super().disconnect(inuse_connections)
        for sentinel in self.sentinel_manager.sentinels:
            await sentinel.connection_pool.disconnect()


def connect(url: str, metrics: Metrics | None = None) -> RedisClient:
    """Return a thread-safe client that connects at its first command. Raises BadSetting.

    A process that forks must create the client in the child.
    """
    match multi_host_address(url):
        case None:
            client = _single_server_client(url)
        case MultiHostAddress(kind="cluster") as address:
            # ClusterClient supports the commands that the adapters use, so the cast is safe.
            client = cast(RedisClient, ClusterClient(address))
        case address:
            client = _primary_client(address)
    client.garbage = GarbageCount(metrics.redis_garbage if metrics else None)
    return client


def await_answer(url: str, timeout: float) -> None:
    """Ping the server until it answers. Raises CacheUnavailable after `timeout` seconds, and BadSetting.

    An error is no answer, for example while the server loads its data.
    """
    deadline = monotonic() + timeout
    while True:
        # A new client for each attempt: one of a cluster would keep asking the node that held the slot at first.
        with closing(connect(url)) as client:
            try:
                with RedisBreaker().guarded():
                    client.ping()
                return
            except CacheUnavailable:
                if monotonic() >= deadline:
                    raise
        sleep(PING_INTERVAL)


def connect_async(url: str, metrics: Metrics | None = None) -> AsyncClient:
    """Return a client for one event loop. It connects at its first command. Raises BadSetting."""
    match multi_host_address(url):
        case None:
            client = _single_server_client_async(url)
        case MultiHostAddress(kind="cluster") as address:
            client = cast(AsyncClient, AsyncClusterClient(address))
        case address:
            client = _primary_client_async(address)
    client.garbage = GarbageCount(metrics.redis_garbage if metrics else None)
    return client


def _single_server_client(url: str) -> RedisClient:
    with _valid_url():
        client = RedisClient.from_url(url, **timeout_options())
    assert isinstance(client, RedisClient)
    return client


def _single_server_client_async(url: str) -> AsyncClient:
    with _valid_url():
        pool = RedisConnectionPool.from_url(
            url, max_connections=MAX_CONNECTIONS, timeout=TIMEOUT, **timeout_options_async()
        )
    client = AsyncClient.from_pool(pool)
    assert isinstance(client, AsyncClient)
    return client


@contextmanager
def _valid_url() -> Iterator[None]:
    """Translate the library's error for an invalid URL to BadSetting."""
    try:
        yield
    except ValueError:
        # The original message is dropped: it may quote an unescaped password.
        raise BadSetting("The Redis URL is invalid; escape / # ? @ and : in its password.") from None


def _primary_client(address: MultiHostAddress) -> RedisClient:
    """Return a client of the primary that the sentinels name.

    Each new connection asks a sentinel for the primary.
    """
    options = timeout_options() | address.options
    sentinel = redis.sentinel.Sentinel(address.hosts, sentinel_kwargs={**options, "db": 0}, **options)  # type: ignore[no-untyped-call] # the library has no types here
    client = sentinel.master_for(address.service, redis_class=RedisClient)  # type: ignore[no-untyped-call] # as above
    assert isinstance(client, RedisClient)
    return client


def _primary_client_async(address: MultiHostAddress) -> AsyncClient:
    options = timeout_options_async() | address.options
    sentinel = redis.asyncio.sentinel.Sentinel(address.hosts, sentinel_kwargs={**options, "db": 0}, **options)  # type: ignore[no-untyped-call] # as above
    pool = _SentinelConnectionPool(
        address.service, sentinel, max_connections=MAX_CONNECTIONS, timeout=TIMEOUT, **options
    )  # type: ignore[no-untyped-call] # as above
    client = AsyncClient.from_pool(pool)
    assert isinstance(client, AsyncClient)
    return client


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisServerStatus:
    name: str
    """`redis` or `valkey`."""
    version: str
    eviction_policy: str
    """Value of `maxmemory-policy`."""
    clock_lead: float
    """Seconds that the server's clock is ahead (negative: behind); 0 if the round trip explains the difference."""


def server_status(url: str) -> RedisServerStatus:
    """Ask the server for its status. Raises CacheUnavailable or BadSetting."""
    client = connect(url)
    try:
        with client.guarded():
            info: Any = client.info()
            before = time.time()
            seconds, microseconds = client.time()
            after = time.time()
    finally:
        client.close()
    server_time = seconds + microseconds / 1_000_000
    return RedisServerStatus(
        name=str(info.get("server_name", "redis")),
        version=str(info.get("valkey_version", info.get("redis_version", "0"))),
        eviction_policy=str(info.get("maxmemory_policy", "")),
        clock_lead=server_time - min(max(server_time, before), after),
    )
