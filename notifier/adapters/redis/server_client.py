"""Clients of one Redis server: short timeouts, circuit breaker, no retries."""

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

from notifier.adapters.redis.keys_checksums_lua_scripts import GarbageCount
from notifier.adapters.redis.persistent_and_shared_connections import PersistentConnection, SharedConnection
from notifier.domain.errors import CacheUnavailable

TIMEOUT = 0.5
"""Seconds allowed to connect, and again to answer. A healthy server needs a millisecond."""

OPEN_SECONDS = 1.0
"""Seconds that the circuit stays open. Without a breaker, each call to a hung server would cost a timeout."""

OUTAGE_ERRORS = (redis.ConnectionError, redis.TimeoutError, OSError)
"""Errors that open the circuit, for example if the server is loading its data or refuses the password."""


class RedisBreaker:
    """Thread-safe circuit breaker.

    After one of OUTAGE_ERRORS, calls fail immediately for OPEN_SECONDS. Then one trial call is let through.
    """

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._is_open = False
        self._retry_at = 0.0
        self._lock = Lock()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Raise CacheUnavailable for any Redis error, and immediately while the circuit is open."""
        self._require_closed()
        try:
            yield
        except MaxConnectionsError as error:  # no request reached the server, so the breaker keeps its state
            raise CacheUnavailable(f"{type(error).__name__}: {error}") from error
        except OUTAGE_ERRORS as error:
            self._open_circuit()
            raise CacheUnavailable(f"{type(error).__name__}: {error}") from error
        except RedisError as error:
            self._is_open = False
            raise CacheUnavailable(f"{type(error).__name__}: {error}") from error
        else:
            self._is_open = False

    def _require_closed(self) -> None:
        with self._lock:
            if not self._is_open:
                return
            if self._now() < self._retry_at:
                raise CacheUnavailable("Redis did not answer a moment ago; it is tried again within a second.")
            # This is the trial call. Other calls fail until its result is known, but at most for OPEN_SECONDS.
            self._retry_at = self._now() + OPEN_SECONDS

    def _open_circuit(self) -> None:
        with self._lock:
            self._is_open, self._retry_at = True, self._now() + OPEN_SECONDS


MAX_CONNECTIONS = 64
"""Maximum number of connections in the pool of an asynchronous client. Further calls wait for a free connection."""


class RedisClient(redis.Redis):
    """Thread-safe client with one circuit breaker (`guarded`)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.guarded = RedisBreaker().guarded
        self.garbage = GarbageCount()


class RedisConnectionPool(redis.asyncio.BlockingConnectionPool):
    """Pool that raises MaxConnectionsError if no connection becomes free in time. That error opens no circuit."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_closed = False

    async def get_connection(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super().get_connection(*args, **kwargs)  # type: ignore[no-untyped-call] # the library has no types here
        except redis.ConnectionError as error:
            # A server that does not answer causes a redis.TimeoutError instead.
            if isinstance(error.__cause__, TimeoutError):
                raise MaxConnectionsError(f"{MAX_CONNECTIONS} connections are in use.") from error
            raise

    async def aclose(self) -> None:
        self._is_closed = True
        await super().aclose()

    async def release(self, connection: Any) -> None:
        if self._is_closed:  # `aclose` misses a connection that is not connected yet
            await connection.disconnect(nowait=True)
        await super().release(connection)


class AsyncClient(redis.asyncio.Redis):
    """Asynchronous client of one event loop, with one circuit breaker (`guarded`)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.guarded = RedisBreaker().guarded
        self.garbage = GarbageCount()
        timeout = self.connection_pool.connection_kwargs.get("socket_timeout") or TIMEOUT
        self.shared_connection: SharedConnection | None = SharedConnection(
            PersistentConnection(self.connection_pool, timeout)
        )
        """Connection whose round trips concurrent calls share. An AsyncClusterClient has none."""

    async def aclose(self, *args: Any, **kwargs: Any) -> None:
        if self.shared_connection is not None:
            await self.shared_connection.close()
        await super().aclose(*args, **kwargs)


def timeout_options() -> dict[str, Any]:
    """Return the timeout and retry options for connections of synchronous clients."""
    return _timeout_options(Retry)


def timeout_options_async() -> dict[str, Any]:
    return _timeout_options(redis.asyncio.retry.Retry)


def _timeout_options(retry_class: type[Any]) -> dict[str, Any]:
    return {
        "socket_timeout": TIMEOUT,
        "socket_connect_timeout": TIMEOUT,
        # Never resend: a token could be taken twice, and a dead server would cost several timeouts. The pool replaces
        # a connection that broke while idle, before a call gets it.
        "retry": retry_class(NoBackoff(), 0),
        # With maintenance notifications the pool would no longer check idle connections.
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }
