"""Celery's brokers as both profiles choose them; BadSetting, with the remedy, where a Redis can't be one."""

from collections.abc import Mapping

from notifier.adapters.celery import on_redis
from notifier.config import Settings, variable
from notifier.config.field import split
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import BadSetting
from notifier.profiles.redis_tls import checked


def brokers(settings: Settings, redis_url: str) -> Mapping[Pool, str]:
    """The pools' own where they are given, else databases of the Redis."""
    given = {pool: checked(url) for pool in Pool if (url := getattr(settings.brokers, _setting(pool)))}
    return given if len(given) == len(Pool) else {**_databases(redis_url), **given}


def _setting(pool: Pool) -> str:
    """`push_apns` of `push.apns`: no variable has a dot in its name."""
    return pool.replace(".", "_")


def _databases(redis_url: str) -> Mapping[Pool, str]:
    """Celery knows neither clusters nor sentinels' primaries, and a cluster has but one database."""
    scheme = split(redis_url).scheme
    if scheme not in {"redis", "rediss"}:
        needed = ", ".join(variable("brokers", _setting(pool)) for pool in Pool)
        raise BadSetting(
            f"Celery can't work on {variable('redis_url')}, a {scheme}:// address. Give each pool a redis://, rediss://,"
            f" amqp:// or amqps:// address of its own: {needed}."
        )
    return on_redis(redis_url)
