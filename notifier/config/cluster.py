"""Settings of the cluster's engines: addresses and credentials."""

import re
from dataclasses import dataclass
from typing import Any

from notifier.config.field import HiddenPart, setting

MAX_PORT = 65535
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
NAME = r"[a-z][a-z0-9_]{0,47}"
HOST = r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]"


def matches_pattern(pattern: str) -> Any:
    return lambda text: re.fullmatch(pattern, text) is not None


def comma_separated(pattern: str) -> Any:
    """Return a validator for an empty text or a comma-separated list."""
    return matches_pattern(rf"|({pattern})(,({pattern}))*")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    servers: str = setting(
        "",
        requirement="empty, or host:port, several with commas between them",
        meaning="the brokers to ask first; needed by the cluster profile",
        is_valid=comma_separated(rf"({HOST}):[0-9]+"),
    )
    prefix: str = setting(
        "",
        requirement="empty, or letters, digits, dots, dashes and underscores",
        meaning="of every topic and group, so that several notifiers share a cluster",
        is_valid=matches_pattern(r"[A-Za-z0-9._-]{0,100}"),
    )
    user: str = setting("", requirement="a name", meaning="for SASL; none: whoever connects is let in")
    password: str = setting("", requirement="a password", meaning="of that user", hidden=HiddenPart.ALL)
    mechanism: str = setting(
        MECHANISMS[0],
        requirement=", ".join(MECHANISMS[:-1]) + f" or {MECHANISMS[-1]}",
        meaning="how the user shows the password",
        is_valid=lambda name: name in MECHANISMS,
    )
    ca: str = setting("", requirement="a file", meaning="with the authority's certificate; none: no TLS")


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraSettings:
    hosts: str = setting(
        "",
        requirement="empty, or hosts with commas between them",
        meaning="the nodes to ask first; needed by the cluster profile",
        is_valid=comma_separated(HOST),
    )
    port: int = setting(
        9042,
        requirement="a whole number from 1 to 65535",
        meaning="of every node",
        is_valid=lambda port: 1 <= port <= MAX_PORT,
    )
    keyspace: str = setting(
        "notifier",
        requirement="small letters, digits and _, a letter first",
        meaning="ours",
        is_valid=matches_pattern(NAME),
    )
    datacenter: str = setting(
        "datacenter1",
        requirement="a datacenter's name",
        meaning="whose nodes are asked, and whose quorum is enough",
        is_valid=matches_pattern(r"[\w.-]+"),
    )
    replicas: int = setting(
        3,
        requirement="a whole number from 1 to 9",
        meaning="in that datacenter, of a keyspace that `notifier migrate` makes; one that is there keeps what it has",
        is_valid=lambda number: 1 <= number <= 9,
    )
    user: str = setting("", requirement="a name", meaning="none: whoever connects is let in")
    password: str = setting("", requirement="a password", meaning="of that user", hidden=HiddenPart.ALL)
    ca: str = setting("", requirement="a file", meaning="with the authority's certificate; none: no TLS")


HOSTS = rf"({HOST})(:[0-9]+)?(,({HOST})(:[0-9]+)?)*"
REDIS = rf"(redis|rediss|unix)://\S+|rediss?\+sentinel://([^@\s]*@)?{HOSTS}/[^/\s]+\S*|rediss?\+cluster://([^@\s]*@)?{HOSTS}\S*"
"""One server, a primary by its name at the sentinels, or some nodes of a Redis Cluster."""

BROKER = r"(rediss?|amqps?)://\S+"


def _broker(pool: str) -> Any:
    return setting(
        "",
        requirement="empty, or a redis://, rediss://, amqp:// or amqps:// address",
        meaning=f"the Celery broker of the pool {pool}; none: a database of its own on `NOTIFIER_REDIS_URL`",
        is_valid=matches_pattern(f"|{BROKER}"),
        hidden=HiddenPart.PASSWORD,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    p0: str = _broker("p0")
    p1: str = _broker("p1")
    p2: str = _broker("p2")
    push_apns: str = _broker("push.apns")
    push_fcm: str = _broker("push.fcm")
    push_web: str = _broker("push.web")
