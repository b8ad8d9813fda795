"""The clients of one Redis server: short timeouts, no retries, and a line in which readers wait."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import Any

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import MaxConnectionsError, RedisError
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from notifier.adapters.redis.kept_connection import OneConnection, SharedConnection
from notifier.adapters.redis.keys import GarbageCount
from notifier.domain.errors import CacheUnavailable

# A breaker for a Redis that hangs, and the one place where its errors become ours.

TIMEOUT = 0.5
"""Seconds to connect, and again to answer; a healthy server needs a millisecond, and every caller can do without."""

REST = 1.0
"""Seconds after a call without an answer in which nobody asks: a hung server costs a process one time-out a second,
and not one for each event, burst and batch."""

SILENCE = (redis.ConnectionError, redis.TimeoutError, OSError)
"""No answer came. Whatever else goes wrong was said by a server that is awake, and costs no time."""


class RedisBreaker:
    """Thread-safe. After a silence every call fails at once for a while; then one call tries whether it is over."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._silent = False
        self._asks_again_at = 0.0
        self._lock = Lock()

    @contextmanager
    def answered(self) -> Iterator[None]:
        """Whatever keeps the server from answering, be it full, stopped, loading or gone, is CacheUnavailable."""
        self._admit()
        try:
            yield
        except MaxConnectionsError as error:  # says nothing about the server: no word of it was asked
            raise CacheUnavailable(f"{type(error).__name__}: {error}") from error
        except SILENCE as error:
            self._rest()
            raise CacheUnavailable(f"{type(error).__name__}: {error}") from error
        except RedisError as error:
            self._silent = False
            raise CacheUnavailable(f"{type(error).__name__}: {error}") from error
        else:
            self._silent = False

    def _admit(self) -> None:
        with self._lock:
            if not self._silent:
                return
            if self._now() < self._asks_again_at:
                raise CacheUnavailable("It didn't answer a moment ago, and isn't asked again yet.")
            # This call asks; until it knows, the others do without.
            self._asks_again_at = self._now() + REST

    def _rest(self) -> None:
        with self._lock:
            self._silent, self._asks_again_at = True, self._now() + REST


READERS = 64
"""Connections of one reading process; the next reader waits in line for one instead of opening more."""


class RedisClient(redis.Redis):
    """Thread-safe, with one breaker for all that a process asks through it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.answered = RedisBreaker().answered
        self.garbage = GarbageCount()


class RedisConnectionPool(redis.asyncio.BlockingConnectionPool):
    """Who waited too long for a connection gets an error that can be told from a server's silence."""

    async def get_connection(self, *given: Any, **named: Any) -> Any:
        try:
            return await super().get_connection(*given, **named)  # type: ignore[no-untyped-call] # the library has no types here
        except redis.ConnectionError as error:
            # A time-out of the server itself is another error, also when it is that of a connection being made.
            if isinstance(error.__cause__, TimeoutError):
                raise MaxConnectionsError(f"{READERS} others ask already.") from error
            raise


class AsyncClient(redis.asyncio.Redis):
    """For one event loop."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.answered = RedisBreaker().answered
        self.garbage = GarbageCount()
        within = self.connection_pool.connection_kwargs.get("socket_timeout") or TIMEOUT
        self.shared: SharedConnection | None = SharedConnection(OneConnection(self.connection_pool, within))
        """For short questions of many requests at once; a cluster has none."""

    async def aclose(self, *given: Any, **named: Any) -> None:
        if self.shared is not None:
            await self.shared.close()
        await super().aclose(*given, **named)


def patience() -> dict[str, Any]:
    """Of every connection of a synchronous client."""
    return _patience(Retry)


def patience_async() -> dict[str, Any]:
    return _patience(redis.asyncio.retry.Retry)


def _patience(retry: type[Any]) -> dict[str, Any]:
    return {
        "socket_timeout": TIMEOUT,
        "socket_connect_timeout": TIMEOUT,
        # Nothing is sent twice: a token would be taken twice, and a dead server would cost several timeouts. A pooled
        # connection that broke while idle is noticed when it is taken, and replaced.
        "retry": retry(NoBackoff(), 0),
        # With maintenance notifications the pool would no longer look whether an idle connection broke.
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }
