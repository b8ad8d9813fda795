"""Settings of the cluster's engines: addresses and credentials."""

import re
from dataclasses import dataclass
from typing import Any

from notifier.config.setting_field import HiddenPart, setting

MAX_PORT = 65535
SASL_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
KEYSPACE_PATTERN = r"[a-z][a-z0-9_]{0,47}"
HOST_PATTERN = r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]"


def matches_pattern(pattern: str) -> Any:
    return lambda text: re.fullmatch(pattern, text) is not None


def comma_separated(pattern: str) -> Any:
    """Return a validator for an empty text or a comma-separated list."""
    return matches_pattern(rf"|({pattern})(,({pattern}))*")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    servers: str = setting(
        "",
        requirement="empty, or host:port, separated by commas",
        meaning="Brokers to contact first. Required by the cluster profile.",
        is_valid=comma_separated(rf"({HOST_PATTERN}):[0-9]+"),
    )
    prefix: str = setting(
        "",
        requirement="empty, or at most 100 letters, digits, dots, dashes and underscores",
        meaning="Prefix of every topic and group, so that several installations can share a cluster.",
        is_valid=matches_pattern(r"[A-Za-z0-9._-]{0,100}"),
    )
    user: str = setting("", requirement="a name", meaning="SASL user. If empty, no authentication is used.")
    password: str = setting("", requirement="a password", meaning="Password of that user.", hidden=HiddenPart.ALL)
    mechanism: str = setting(
        SASL_MECHANISMS[0],
        requirement=", ".join(SASL_MECHANISMS[:-1]) + f" or {SASL_MECHANISMS[-1]}",
        meaning="SASL mechanism.",
        is_valid=lambda name: name in SASL_MECHANISMS,
    )
    ca: str = setting("", requirement="a file", meaning="CA certificate. If empty, TLS is not used.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraSettings:
    hosts: str = setting(
        "",
        requirement="empty, or hosts separated by commas",
        meaning="Nodes to contact first. Required by the cluster profile.",
        is_valid=comma_separated(HOST_PATTERN),
    )
    port: int = setting(
        9042,
        requirement="a whole number from 1 to 65535",
        meaning="Port of every node.",
        is_valid=lambda port: 1 <= port <= MAX_PORT,
    )
    keyspace: str = setting(
        "notifier",
        requirement="at most 48 lower-case letters, digits and _, beginning with a letter",
        meaning="Keyspace of this installation.",
        is_valid=matches_pattern(KEYSPACE_PATTERN),
    )
    datacenter: str = setting(
        "datacenter1",
        requirement="a datacenter name",
        meaning="Datacenter whose nodes are used.",
        is_valid=matches_pattern(r"[\w.-]+"),
    )
    replicas: int = setting(
        3,
        requirement="a whole number from 1 to 9",
        meaning="Replicas in that datacenter, for a keyspace that `notifier migrate` creates. An existing "
        "keyspace stays unchanged.",
        is_valid=lambda number: 1 <= number <= 9,
    )
    user: str = setting("", requirement="a name", meaning="Cassandra user. If empty, no authentication is used.")
    password: str = setting("", requirement="a password", meaning="Password of that user.", hidden=HiddenPart.ALL)
    ca: str = setting("", requirement="a file", meaning="CA certificate. If empty, TLS is not used.")


HOST_LIST_PATTERN = rf"({HOST_PATTERN})(:[0-9]+)?(,({HOST_PATTERN})(:[0-9]+)?)*"
REDIS_URL_PATTERN = rf"(redis|rediss|unix)://\S+|rediss?\+sentinel://([^@\s]*@)?{HOST_LIST_PATTERN}/[^/\s]+\S*|rediss?\+cluster://([^@\s]*@)?{HOST_LIST_PATTERN}\S*"
"""URL of one server, of sentinels with the name of the primary, or of some nodes of a Redis Cluster."""

BROKER_URL_PATTERN = r"(rediss?|amqps?)://\S+"


def _broker_setting(pool: str) -> Any:
    return setting(
        "",
        requirement="empty, or a redis://, rediss://, amqp:// or amqps:// URL",
        meaning=f"Celery broker of the pool {pool}. If empty, a separate database on `NOTIFIER_REDIS_URL` is used.",
        is_valid=matches_pattern(f"|{BROKER_URL_PATTERN}"),
        hidden=HiddenPart.PASSWORD,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    p0: str = _broker_setting("p0")
    p1: str = _broker_setting("p1")
    p2: str = _broker_setting("p2")
    push_apns: str = _broker_setting("push.apns")
    push_fcm: str = _broker_setting("push.fcm")
    push_web: str = _broker_setting("push.web")
