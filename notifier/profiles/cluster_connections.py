"""The settings of a cluster as its clients take them; BadSetting, with the remedy, for what is needed and missing."""

from collections.abc import Mapping

from notifier.adapters import cassandra, kafka
from notifier.adapters.celery import on_redis
from notifier.config import Settings, variable
from notifier.config.field import split
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import BadSetting
from notifier.profiles.data_folder import checked, instance


def of_kafka(settings: Settings) -> kafka.Access:
    at = settings.kafka
    return kafka.Access(
        servers=_needed(at.servers, "kafka", "servers"),
        prefix=at.prefix,
        instance=instance(settings),
        security=kafka.security(user=at.user, password=at.password, mechanism=at.mechanism, ca=at.ca),
    )


def of_cassandra(settings: Settings) -> cassandra.CassandraAccess:
    at = settings.cassandra
    return cassandra.CassandraAccess(
        hosts=_needed(at.hosts, "cassandra", "hosts").split(","),
        port=at.port,
        keyspace=at.keyspace,
        datacenter=at.datacenter,
        replication={"class": "NetworkTopologyStrategy", at.datacenter: str(at.replicas)},
        security=cassandra.security(user=at.user, password=at.password, ca=at.ca),
    )


def of_redis(settings: Settings) -> str:
    return checked(_needed(settings.redis_url, "redis_url"))


def _needed(value: str, *path: str) -> str:
    if not value:
        raise BadSetting(
            f"The cluster profile needs {variable(*path)}; `notifier services up` starts the engines here."
        )
    return value


# Celery's brokers as both profiles choose them; BadSetting, with the remedy, where a Redis can't be one.


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
