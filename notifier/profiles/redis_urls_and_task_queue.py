"""Redis and broker URLs, and the task queue, of both profiles.

This module imports no optional libraries, because the embedded profile must run without them.
"""

import os
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from notifier.adapters.redis import await_answer
from notifier.config import VARIABLE_PREFIX, Settings, variable, without_password
from notifier.config.setting_field import split_url
from notifier.domain.delivery.slice_and_pool import Pool, Slice
from notifier.domain.errors import BadSetting, CacheUnavailable
from notifier.metrics import Metrics

if TYPE_CHECKING:
    from notifier.adapters.celery.queue import CeleryQueue

# TLS options of a Redis URL.

CERTIFICATE_MODES = {"required": "required", "CERT_REQUIRED": "required", "none": "none", "CERT_NONE": "none"}
"""Modes of certificate verification: each spelling of redis-py or Celery's library, with the one that both accept."""


def checked_redis_url(url: str) -> str:
    """Return the URL with explicit TLS options. Raises BadSetting.

    The error does not contain the URL, which may hold a password.
    """
    parts = split_url(url)
    try:
        for host in parts.netloc.rpartition("@")[2].split(","):
            _ = urlsplit(f"//{host}").port
    except ValueError:
        # Drop the cause: it contains the invalid port, which may be part of a password.
        raise BadSetting("A Redis URL has an invalid port; write / in a password as %2F.") from None
    return url if parts.scheme != "rediss" else urlunsplit(parts._replace(query=_with_tls_options(parts.query)))


def _with_tls_options(query: str) -> str:
    """Set `ssl_cert_reqs` explicitly, because Celery's library does not verify certificates by default."""
    options = dict(parse_qsl(query, keep_blank_values=True))
    verification = options.get("ssl_cert_reqs", "required")
    if verification not in CERTIFICATE_MODES:
        raise BadSetting(f"A Redis URL has ssl_cert_reqs={verification}; it must be required or none.")
    if ca := options.get("ssl_ca_certs"):
        try:
            ssl.create_default_context(cafile=ca)
        except (OSError, ssl.SSLError) as error:
            raise BadSetting(f"The CA certificate of Redis, {ca}, can't be read: {error}") from error
    return urlencode({**options, "ssl_cert_reqs": CERTIFICATE_MODES[verification]}, safe="/")


# Redis: waiting for it, and the file with its URL.

REDIS_STARTUP_TIMEOUT = 5.0
"""Seconds that `up` waits for a configured Redis. A Redis that starts at the same time needs one or two seconds."""


def require_redis(url: str, timeout: float) -> None:
    """Wait up to `timeout` seconds for Redis to answer. Raises CacheUnavailable or BadSetting.

    At startup, a missing answer mostly means a wrong address. Roles tolerate later outages.
    """
    try:
        await_answer(checked_redis_url(url), timeout)
    except CacheUnavailable as error:
        raise CacheUnavailable(f"{VARIABLE_PREFIX}REDIS_URL is {without_password(url)!r}. {error.detail}") from error


@contextmanager
def remembered_redis_url(path: Path, url: str) -> Iterator[None]:
    """Store the Redis URL in a file until the block ends, for CLI commands that run beside `notifier up`.

    The file has mode 0600, because the URL may contain a password.
    """
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(url)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


# Brokers of the pools.

REDIS_DATABASES = {Pool.P0: 1, Pool.P1: 2, Pool.P2: 3, Pool.APNS: 4, Pool.FCM: 5, Pool.WEB: 6}
"""Redis database of each pool. Database 0 is for other data.

Celery records all unacknowledged tasks of a database under the same keys, whatever their queue. With a database for
each pool, only the pool's workers put these tasks back into their queues.
"""


def broker_urls(settings: Settings, redis_url: str) -> Mapping[Pool, str]:
    """Return each pool's broker URL: from its setting or, if empty, a database of the Redis. Raises BadSetting."""
    configured = {
        pool: checked_redis_url(url) for pool in Pool if (url := getattr(settings.brokers, _setting_name(pool)))
    }
    return configured if len(configured) == len(Pool) else {**_redis_databases(redis_url), **configured}


def _setting_name(pool: Pool) -> str:
    """Return the name of the pool's setting: `push_apns` for `push.apns`, because a variable name has no dots."""
    return pool.replace(".", "_")


def _redis_databases(redis_url: str) -> Mapping[Pool, str]:
    """Return the URL of one Redis database per pool.

    Raises BadSetting for a URL of sentinels or of a Redis Cluster, which Celery does not support.
    """
    scheme = split_url(redis_url).scheme
    if scheme not in {"redis", "rediss"}:
        raise BadSetting(
            f"Celery does not support {variable('redis_url')} with {scheme}://. Give each pool its own "
            f"redis://, rediss://, amqp:// or amqps:// URL: {_broker_variables()}."
        )
    return redis_broker_urls(redis_url)


def _broker_variables() -> str:
    return ", ".join(variable("brokers", _setting_name(pool)) for pool in Pool)


def redis_broker_urls(url: str) -> Mapping[Pool, str]:
    """Return the broker URLs of all pools on one Redis server, one database each."""
    parts = split_url(url)
    return {pool: urlunsplit(parts._replace(path=f"/{number}")) for pool, number in REDIS_DATABASES.items()}


class TaskQueue:
    """Celery queue that is created on first use. Thread-safe. The first use raises BadSetting for an invalid URL.

    Importing Celery takes a quarter of a second, and most commands queue nothing.
    """

    def __init__(self, brokers: Mapping[Pool, str], metrics: Metrics | None = None) -> None:
        self._brokers = brokers
        self._metrics = metrics
        self._queue: CeleryQueue | None = None
        self._lock = Lock()

    def enqueue(self, slices: Sequence[Slice]) -> None:
        self._created().enqueue(slices)

    def depth(self, pool: Pool) -> int:
        return self._created().depth(pool)

    def close(self) -> None:
        with self._lock:
            if self._queue is not None:
                self._queue.close()

    def _created(self) -> "CeleryQueue":
        with self._lock:
            if self._queue is None:
                from notifier.adapters.celery.queue import CeleryQueue

                try:
                    self._queue = CeleryQueue(self._brokers, self._metrics)
                except (KeyError, TypeError, ValueError):
                    # Drop the cause: it may contain a part of the URL, which may hold a password.
                    raise BadSetting(
                        f"The URL of a broker has an invalid option. The URLs are in {_broker_variables()}."
                    ) from None
            return self._queue
