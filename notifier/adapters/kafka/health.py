"""A look at the brokers, for whoever is asked whether they are as they must be; it changes nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from notifier.adapters.kafka.auth import knock
from notifier.adapters.kafka.config import Access, translated
from notifier.adapters.kafka.python_client_patches import administration
from notifier.adapters.kafka.topics import pending, plan

LEAST = "min.insync.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A topic as it stands; of several partitions the worst of each."""

    replicas: int
    insync: int
    """Replicas that have all records now."""
    least: int
    """So many must have a record before it is acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    version: tuple[int, ...]
    number: int
    pending: Sequence[str]
    """Steps that `migrate` would take."""
    topics: Mapping[str, Standing]
    """By stream; those that are there."""


def look(access: Access) -> Brokers:
    """Raises LogUnavailable, and Environment where no broker lets us in."""
    version = knock(access)
    with translated("The brokers don't tell about themselves"), administration(access) as admin:
        return Brokers(
            version=version,
            number=len(admin.describe_cluster()["brokers"]),
            topics=dict(_topics(access, admin)),
            pending=pending(access),
        )


def _topics(access: Access, admin: KafkaAdminClient) -> Iterator[tuple[str, Standing]]:
    streams = {access.topic(topic.stream): topic.stream for topic in plan()}
    for one in admin.describe_topics(list(streams)):
        if one["partitions"]:
            yield streams[one["name"]], _standing(one["partitions"], _least(admin, one["name"]))


def _standing(partitions: Sequence[Any], least: int) -> Standing:
    return Standing(
        replicas=min(len(each["replica_nodes"]) for each in partitions),
        insync=min(len(each["isr_nodes"]) for each in partitions),
        least=least,
    )


def _least(admin: KafkaAdminClient, name: str) -> int:
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    return int(admin.describe_configs([resource], config_filter="all")["topic"][name][LEAST]["value"])
