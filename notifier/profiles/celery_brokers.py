"""Celery brokers of both profiles. Imports no optional library, because `embedded` needs none."""

from collections.abc import Mapping

from notifier.adapters.celery import redis_broker_urls
from notifier.config import Settings, variable
from notifier.config.field import split_url
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import BadSetting
from notifier.profiles.data_folder import checked_redis_url


def brokers(settings: Settings, redis_url: str) -> Mapping[Pool, str]:
    """Return each pool's broker URL: its own setting, else a database of the Redis.

    Raises BadSetting if a pool needs a database and the Redis is not a single server.
    """
    configured = {pool: checked_redis_url(url) for pool in Pool if (url := getattr(settings.brokers, _setting(pool)))}
    return configured if len(configured) == len(Pool) else {**_databases(redis_url), **configured}


def _setting(pool: Pool) -> str:
    """Return the pool's setting, `push_apns` for `push.apns`: a variable name cannot contain a dot."""
    return pool.replace(".", "_")


def _databases(redis_url: str) -> Mapping[Pool, str]:
    """Return one Redis database per pool. Celery supports neither Redis Cluster nor our Sentinel URLs.

    A Redis Cluster also has only one database. Raises BadSetting.
    """
    scheme = split_url(redis_url).scheme
    if scheme not in {"redis", "rediss"}:
        variables = ", ".join(variable("brokers", _setting(pool)) for pool in Pool)
        raise BadSetting(
            f"Celery does not support {variable('redis_url')} with {scheme}://. Give each pool its own "
            f"redis://, rediss://, amqp:// or amqps:// URL: {variables}."
        )
    return redis_broker_urls(redis_url)
