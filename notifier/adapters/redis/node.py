"""The clients of one Redis server: short timeouts, no retries, and a line in which readers wait."""

from typing import Any

import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import MaxConnectionsError
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from notifier.adapters.redis.circuit_breaker import TIMEOUT, Breaker
from notifier.adapters.redis.kept_connection import OneConnection, SharedConnection
from notifier.adapters.redis.keys import GarbageCount

READERS = 64
"""Connections of one reading process; the next reader waits in line for one instead of opening more."""


class Client(redis.Redis):
    """Thread-safe, with one breaker for all that a process asks through it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.answered = Breaker().answered
        self.garbage = GarbageCount()


class Line(redis.asyncio.BlockingConnectionPool):
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
        self.answered = Breaker().answered
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
