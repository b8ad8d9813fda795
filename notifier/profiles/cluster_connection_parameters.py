"""Converts settings to the connection parameters of Kafka, Cassandra and Redis."""

from notifier.adapters import cassandra, kafka
from notifier.config import Settings, variable
from notifier.domain.errors import BadSetting
from notifier.profiles.data_folder_and_instance_name import instance_name
from notifier.profiles.redis_urls_and_task_queue import checked_redis_url


def kafka_access(settings: Settings) -> kafka.Access:
    """Raises BadSetting."""
    section = settings.kafka
    return kafka.Access(
        servers=_required(section.servers, "kafka", "servers"),
        prefix=section.prefix,
        instance=instance_name(settings),
        security=kafka.security(
            user=section.user, password=section.password, mechanism=section.mechanism, ca=section.ca
        ),
    )


def cassandra_access(settings: Settings) -> cassandra.CassandraAccess:
    """Raises BadSetting."""
    section = settings.cassandra
    return cassandra.CassandraAccess(
        hosts=_required(section.hosts, "cassandra", "hosts").split(","),
        port=section.port,
        keyspace=section.keyspace,
        datacenter=section.datacenter,
        replication={"class": "NetworkTopologyStrategy", section.datacenter: str(section.replicas)},
        security_options=cassandra.security_options(user=section.user, password=section.password, ca_file=section.ca),
    )


def redis_url(settings: Settings) -> str:
    """Return the configured URL with explicit TLS options. Raises BadSetting."""
    return checked_redis_url(_required(settings.redis_url, "redis_url"))


def _required(value: str, *path: str) -> str:
    if not value:
        raise BadSetting(
            f"The cluster profile needs {variable(*path)}; `notifier services up` starts the engines on this machine."
        )
    return value
