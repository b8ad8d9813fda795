"""Connections to Redis: short timeouts, no retries, and the one place where its errors become ours."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic, sleep
from typing import Any

import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import MaxConnectionsError, RedisError
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from notifier.domain.errors import BadSetting, CacheUnavailable

TIMEOUT = 0.5
"""Seconds to connect, and again to answer; a healthy server needs a millisecond, and every caller can do without."""

REST = 1.0
"""Seconds after a call without an answer in which nobody asks: a hung server costs a process one time-out a second,
and not one for each event, burst and batch."""

ASKS_EVERY = 0.1
"""Seconds between two questions to a server that is waited for."""

READERS = 64
"""Connections of one reading process; the next reader waits in line for one instead of opening more."""

SILENCE = (redis.ConnectionError, redis.TimeoutError, OSError)
"""No answer came. Whatever else goes wrong was said by a server that is awake, and costs no time."""


class Breaker:
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


class Client(redis.Redis):
    """Thread-safe, with one breaker for all that a process asks through it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.answered = Breaker().answered


class _Line(redis.asyncio.BlockingConnectionPool):
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
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.answered = Breaker().answered


def connect(url: str) -> Client:
    """A client that connects at its first command; thread-safe, and to be made after a fork. Raises BadSetting."""
    try:
        client = Client.from_url(url, **_settings(Retry))
    except ValueError as error:
        raise BadSetting(f"The Redis URL: {error}.") from error
    assert isinstance(client, Client)
    return client


def await_answer(url: str, within: float) -> None:
    """Returns once the server answers, tried at least once. Raises CacheUnavailable with the last cause, or BadSetting.

    A server that still loads is given the time; a wrong password too, for it costs no more.
    """
    deadline, client = monotonic() + within, connect(url)
    try:
        while True:
            try:
                with Breaker().answered():
                    client.ping()
                return
            except CacheUnavailable:
                if monotonic() >= deadline:
                    raise
            sleep(ASKS_EVERY)
    finally:
        client.close()


def connect_async(url: str) -> AsyncClient:
    pool = _Line.from_url(url, max_connections=READERS, timeout=TIMEOUT, **_settings(redis.asyncio.retry.Retry))
    client = AsyncClient.from_pool(pool)
    assert isinstance(client, AsyncClient)
    return client


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
