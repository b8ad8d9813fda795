"""Converts settings to the connection parameters of Kafka, Cassandra, Redis and Celery."""

from collections.abc import Mapping

from notifier.adapters import cassandra, kafka
from notifier.adapters.celery import on_redis
from notifier.config import Settings, variable
from notifier.config.field import split
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import BadSetting
from notifier.profiles.data_folder import checked, instance


def of_kafka(settings: Settings) -> kafka.Access:
    """Raises BadSetting if the broker addresses are missing."""
    section = settings.kafka
    return kafka.Access(
        servers=_needed(section.servers, "kafka", "servers"),
        prefix=section.prefix,
        instance=instance(settings),
        security=kafka.security(
            user=section.user, password=section.password, mechanism=section.mechanism, ca=section.ca
        ),
    )


def of_cassandra(settings: Settings) -> cassandra.CassandraAccess:
    """Raises BadSetting if the node addresses are missing."""
    section = settings.cassandra
    return cassandra.CassandraAccess(
        hosts=_needed(section.hosts, "cassandra", "hosts").split(","),
        port=section.port,
        keyspace=section.keyspace,
        datacenter=section.datacenter,
        replication={"class": "NetworkTopologyStrategy", section.datacenter: str(section.replicas)},
        security=cassandra.security(user=section.user, password=section.password, ca=section.ca),
    )


def of_redis(settings: Settings) -> str:
    """Raises BadSetting if the Redis URL is missing or invalid."""
    return checked(_needed(settings.redis_url, "redis_url"))


def _needed(value: str, *path: str) -> str:
    if not value:
        raise BadSetting(
            f"The cluster profile needs {variable(*path)}; `notifier services up` starts the engines here."
        )
    return value


# Celery brokers of both profiles.


def brokers(settings: Settings, redis_url: str) -> Mapping[Pool, str]:
    """Return each pool's broker URL: its own setting, else a database of the Redis.

    Raises BadSetting if a pool needs a database and the Redis is not a single server.
    """
    own = {pool: checked(url) for pool in Pool if (url := getattr(settings.brokers, _setting(pool)))}
    return own if len(own) == len(Pool) else {**_databases(redis_url), **own}


def _setting(pool: Pool) -> str:
    """Return the pool's setting, `push_apns` for `push.apns`: a variable name cannot contain a dot."""
    return pool.replace(".", "_")


def _databases(redis_url: str) -> Mapping[Pool, str]:
    """Return one Redis database per pool. Celery supports neither Redis Cluster nor our Sentinel URLs.

    A Redis Cluster also has only one database. Raises BadSetting.
    """
    scheme = split(redis_url).scheme
    if scheme not in {"redis", "rediss"}:
        needed = ", ".join(variable("brokers", _setting(pool)) for pool in Pool)
        raise BadSetting(
            f"Celery can't work on {variable('redis_url')}, a {scheme}:// address. Give each pool a redis://, rediss://,"
            f" amqp:// or amqps:// address of its own: {needed}."
        )
    return on_redis(redis_url)
