"""Settings of the cluster's engines: addresses and credentials."""

import re
from dataclasses import dataclass
from typing import Any

from notifier.config.field import Hides, setting

MOST_PORT = 65535
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
NAME = r"[a-z][a-z0-9_]{0,47}"
HOST = r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]"


def matches(pattern: str) -> Any:
    return lambda text: re.fullmatch(pattern, text) is not None


def listed(pattern: str) -> Any:
    """Return a validator for an empty text or a comma-separated list."""
    return matches(rf"|({pattern})(,({pattern}))*")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    servers: str = setting(
        "",
        must="empty, or host:port, several with commas between them",
        means="the brokers to ask first; needed by the cluster profile",
        holds=listed(rf"({HOST}):[0-9]+"),
    )
    prefix: str = setting(
        "",
        must="empty, or letters, digits, dots, dashes and underscores",
        means="of every topic and group, so that several notifiers share a cluster",
        holds=matches(r"[A-Za-z0-9._-]{0,100}"),
    )
    user: str = setting("", must="a name", means="for SASL; none: whoever connects is let in")
    password: str = setting("", must="a password", means="of that user", hides=Hides.ALL)
    mechanism: str = setting(
        MECHANISMS[0],
        must=", ".join(MECHANISMS[:-1]) + f" or {MECHANISMS[-1]}",
        means="how the user shows the password",
        holds=lambda name: name in MECHANISMS,
    )
    ca: str = setting("", must="a file", means="with the authority's certificate; none: no TLS")


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraSettings:
    hosts: str = setting(
        "",
        must="empty, or hosts with commas between them",
        means="the nodes to ask first; needed by the cluster profile",
        holds=listed(HOST),
    )
    port: int = setting(
        9042, must="a whole number from 1 to 65535", means="of every node", holds=lambda port: 1 <= port <= MOST_PORT
    )
    keyspace: str = setting(
        "notifier", must="small letters, digits and _, a letter first", means="ours", holds=matches(NAME)
    )
    datacenter: str = setting(
        "datacenter1",
        must="a datacenter's name",
        means="whose nodes are asked, and whose quorum is enough",
        holds=matches(r"[\w.-]+"),
    )
    replicas: int = setting(
        3,
        must="a whole number from 1 to 9",
        means="in that datacenter, of a keyspace that `notifier migrate` makes; one that is there keeps what it has",
        holds=lambda number: 1 <= number <= 9,
    )
    user: str = setting("", must="a name", means="none: whoever connects is let in")
    password: str = setting("", must="a password", means="of that user", hides=Hides.ALL)
    ca: str = setting("", must="a file", means="with the authority's certificate; none: no TLS")


HOSTS = rf"({HOST})(:[0-9]+)?(,({HOST})(:[0-9]+)?)*"
REDIS = rf"(redis|rediss|unix)://\S+|rediss?\+sentinel://([^@\s]*@)?{HOSTS}/[^/\s]+\S*|rediss?\+cluster://([^@\s]*@)?{HOSTS}\S*"
"""One server, a primary by its name at the sentinels, or some nodes of a Redis Cluster."""

BROKER = r"(rediss?|amqps?)://\S+"


def _broker(pool: str) -> Any:
    return setting(
        "",
        must="empty, or a redis://, rediss://, amqp:// or amqps:// address",
        means=f"the Celery broker of the pool {pool}; none: a database of its own on `NOTIFIER_REDIS_URL`",
        holds=matches(f"|{BROKER}"),
        hides=Hides.PASSWORD,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    p0: str = _broker("p0")
    p1: str = _broker("p1")
    p2: str = _broker("p2")
    push_apns: str = _broker("push.apns")
    push_fcm: str = _broker("push.fcm")
    push_web: str = _broker("push.web")
