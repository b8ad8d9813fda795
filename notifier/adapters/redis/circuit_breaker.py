"""A breaker for a Redis that hangs, and the one place where its errors become ours."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic

import redis
from redis.exceptions import MaxConnectionsError, RedisError

from notifier.domain.errors import CacheUnavailable

TIMEOUT = 0.5
"""Seconds to connect, and again to answer; a healthy server needs a millisecond, and every caller can do without."""

REST = 1.0
"""Seconds after a call without an answer in which nobody asks: a hung server costs a process one time-out a second,
and not one for each event, burst and batch."""

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
