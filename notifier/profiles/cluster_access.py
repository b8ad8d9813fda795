"""The settings of a cluster as its clients take them; BadSetting, with the remedy, for what is needed and missing."""

from notifier.adapters import cassandra, kafka
from notifier.config import Settings, variable
from notifier.domain.errors import BadSetting
from notifier.profiles.data_folder import instance
from notifier.profiles.redis_tls import checked


def of_kafka(settings: Settings) -> kafka.Access:
    at = settings.kafka
    return kafka.Access(
        servers=_needed(at.servers, "kafka", "servers"),
        prefix=at.prefix,
        instance=instance(settings),
        security=kafka.security(user=at.user, password=at.password, mechanism=at.mechanism, ca=at.ca),
    )


def of_cassandra(settings: Settings) -> cassandra.Access:
    at = settings.cassandra
    return cassandra.Access(
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
