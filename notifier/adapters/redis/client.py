"""Connections to Redis: short timeouts, no retries, and the one place where its errors become ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from notifier.domain.errors import BadSetting, CacheUnavailable

TIMEOUT = 0.5
"""Seconds to connect, and again to answer; a healthy server needs a millisecond, and every caller can do without."""

READERS = 64
"""Connections of one reading process; the next reader waits in line for one instead of opening more."""


def connect(url: str) -> redis.Redis:
    """A client that connects at its first command; thread-safe, and to be made after a fork. Raises BadSetting."""
    try:
        return redis.Redis.from_url(url, **_settings(Retry))
    except ValueError as error:
        raise BadSetting(f"The Redis URL: {error}.") from error


def connect_async(url: str) -> redis.asyncio.Redis:
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        url, max_connections=READERS, timeout=TIMEOUT, **_settings(redis.asyncio.retry.Retry)
    )
    return redis.asyncio.Redis.from_pool(pool)


def _settings(retry: type[Any]) -> dict[str, Any]:
    return {
        "socket_timeout": TIMEOUT,
        "socket_connect_timeout": TIMEOUT,
        # Nothing is sent twice: a token would be taken twice, and a dead server would cost several timeouts. A pooled
        # connection that broke while idle is noticed when it is taken, and replaced.
        "retry": retry(NoBackoff(), 0),
        # With maintenance notifications the pool would no longer look whether an idle connection broke.
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }


@contextmanager
def answered() -> Iterator[None]:
    """Whatever keeps the server from answering, be it full, stopped, loading or gone, is CacheUnavailable."""
    try:
        yield
    except (RedisError, OSError) as error:
        raise CacheUnavailable(f"{type(error).__name__}: {error}") from error
