"""Read-only health checks of Kafka brokers: access, versions and topic replicas."""

import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError

from notifier.adapters.kafka.connection_options_and_errors import Access, admin_client, translated
from notifier.adapters.kafka.topics import load_topics, pending_migration_steps
from notifier.adapters.kafka.workarounds import broker_version
from notifier.domain.errors import LogUnavailable, UnusableEnvironment

BROKER_TIMEOUT_MS = 2_000
"""Timeout of one broker's answer."""
ACCESS_ERRORS = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError)
MIN_INSYNC_OPTION = "min.insync.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """Replication of a topic. The counts are the minimum over its partitions."""

    replica_count: int
    insync_count: int
    """Number of replicas that have all records now."""
    min_insync: int
    """With fewer replicas in sync, brokers refuse appends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    version: tuple[int, ...]
    broker_count: int
    pending_migration_steps: Sequence[str]
    topics: Mapping[str, TopicStatus]
    """Status by stream, only for topics that exist."""


def require_access(access: Access) -> None:
    """Raise UnusableEnvironment if a setting must change, such as a wrong password or an untrusted certificate.

    Brokers that do not answer are no error: roles also start during an outage.
    """
    with suppress(LogUnavailable):
        check_access(access)


def check_access(access: Access) -> tuple[int, ...]:
    """Return the version of a broker. Raises UnusableEnvironment like `require_access`, otherwise LogUnavailable."""
    reason, hint = "", ""
    for server in access.servers.split(","):
        try:
            _probe_connection(server, access.security.get("ssl_cafile"))
            return _authenticate({**access.admin_options(), "bootstrap_servers": [server]})
        except ACCESS_ERRORS as error:
            raise UnusableEnvironment(f"Kafka at {server} rejects the user, the password or the mechanism.") from error
        except ssl.SSLCertVerificationError as error:
            raise UnusableEnvironment(
                f"The certificate of Kafka at {server} was rejected: {error.verify_message}."
            ) from error
        except (KafkaError, ssl.SSLError) as error:
            reason, hint = str(error), " Check whether only one side uses TLS."
        except OSError as error:
            reason, hint = f"{server}: {error.strerror or error}", ""
    raise LogUnavailable(f"Can't connect to any broker of {access.servers}: {reason}.{hint}")


def cluster_status(access: Access) -> ClusterStatus:
    """Return the state of the cluster. Raises LogUnavailable, and UnusableEnvironment like `require_access`."""
    version = check_access(access)
    with translated("Reading the state of the brokers failed"), admin_client(access) as admin:
        return ClusterStatus(
            version=version,
            broker_count=len(admin.describe_cluster()["brokers"]),
            topics=dict(_topic_statuses(access, admin)),
            pending_migration_steps=pending_migration_steps(access),
        )


def _probe_connection(server: str, ca: str | None) -> None:
    """Open and close a connection without the library, to get precise errors.

    The library does not distinguish an absent broker from one without TLS. It leaves the socket of a failed handshake
    to the garbage collector, and keeps only the text of the TLS error.
    """
    host, _, port = server.rpartition(":")
    address = host.strip("[]"), int(port)
    with socket.create_connection(address, timeout=BROKER_TIMEOUT_MS / 1_000) as connection:
        if ca is not None:
            ssl.create_default_context(cafile=ca).wrap_socket(connection, server_hostname=address[0]).close()


def _authenticate(options: dict[str, Any]) -> tuple[int, ...]:
    """Authenticate and return the version. Try twice: a broker that shuts down looks like one that refuses access."""
    try:
        return broker_version(options, BROKER_TIMEOUT_MS)
    except SaslAuthenticationFailedError:
        return broker_version(options, BROKER_TIMEOUT_MS)


def _topic_statuses(access: Access, admin: KafkaAdminClient) -> Iterator[tuple[str, TopicStatus]]:
    streams = {access.topic(topic.stream): topic.stream for topic in load_topics()}
    for topic in admin.describe_topics(list(streams)):
        if partitions := topic["partitions"]:
            yield (
                streams[topic["name"]],
                TopicStatus(
                    replica_count=min(len(partition["replica_nodes"]) for partition in partitions),
                    insync_count=min(len(partition["isr_nodes"]) for partition in partitions),
                    min_insync=_min_insync(admin, topic["name"]),
                ),
            )


def _min_insync(admin: KafkaAdminClient, topic: str) -> int:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    return int(admin.describe_configs([resource], config_filter="all")["topic"][topic][MIN_INSYNC_OPTION]["value"])
