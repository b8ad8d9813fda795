"""URLs of the Celery brokers, for both profiles.

This module imports no optional library, because the embedded profile must run without them.
"""

from collections.abc import Mapping

from notifier.adapters.celery import redis_broker_urls
from notifier.config import Settings, variable
from notifier.config.field import split_url
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import BadSetting
from notifier.profiles.data_folder import checked_redis_url


def broker_urls(settings: Settings, redis_url: str) -> Mapping[Pool, str]:
    """Return each pool's broker URL: the one in its setting or, if that is empty, a database of the Redis.

    Raises BadSetting if a pool needs a database, but `redis_url` has another scheme than redis:// and rediss://.
    """
    configured = {
        pool: checked_redis_url(url) for pool in Pool if (url := getattr(settings.brokers, _setting_name(pool)))
    }
    return configured if len(configured) == len(Pool) else {**_redis_databases(redis_url), **configured}


def _setting_name(pool: Pool) -> str:
    """Return the name of the pool's setting: `push_apns` for `push.apns`, because a variable name has no dots."""
    return pool.replace(".", "_")


def _redis_databases(redis_url: str) -> Mapping[Pool, str]:
    """Return the URL of one Redis database per pool.

    Raises BadSetting for a URL that Celery does not support, such as one of sentinels or of a Redis Cluster. A Redis
    Cluster also has only one database.
    """
    scheme = split_url(redis_url).scheme
    if scheme not in {"redis", "rediss"}:
        variables = ", ".join(variable("brokers", _setting_name(pool)) for pool in Pool)
        raise BadSetting(
            f"Celery does not support {variable('redis_url')} with {scheme}://. Give each pool its own "
            f"redis://, rediss://, amqp:// or amqps:// URL: {variables}."
        )
    return redis_broker_urls(redis_url)
