"""The way to the brokers: where they are, under which names our topics stand there, what their errors mean."""

import logging
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kafka.errors import KafkaError, MessageSizeTooLargeError
from kafka.net import KafkaNetSocket

from notifier.domain.errors import BadSetting, LogUnavailable, Poison

# How a client connects: straight to the broker, closing at once what didn't come about.

STRAIGHT = "straight://"
"""The `proxy_url` that chooses it: the library's own way leaves the sockets of refused connections to the collector."""


class _Straight(KafkaNetSocket):  # type: ignore[misc]  # the library has no types
    SCHEMES = ("straight",)

    async def sock_connect(self, net: Any, sock: socket.socket, sockaddr: Any, timeout_at: float | None = None) -> Any:
        try:
            return await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise


LEASE = timedelta(seconds=5)
"""A reader that gives no sign of life for so long is replaced."""
TALKS_OF_PASSWORDS = ("kafka.net.connection", "kafka.protocol.parser")
"""Loggers of the library: at the level of debug they write down each request, and one of them is who we are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    servers: str
    """`host:port`, several with commas between them."""
    prefix: str = ""
    """Of every topic and group, so that several notifiers share a cluster."""
    instance: str = ""
    """The name under which readers of this process are known after a restart: whoever comes back by it takes its own
    partitions at once. One process at a time has it; none: the owner's name, which may be another each time."""
    lease: timedelta = LEASE
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """As kafka-python calls it; empty: plain text."""

    def options(self) -> dict[str, Any]:
        """Of every client. One that waits 30 s before it looks for a broker again is away half a minute too long."""
        return {
            "bootstrap_servers": self.servers.split(","),
            "reconnect_backoff_max_ms": 1_000,
            "request_timeout_ms": 2_000,
            "allow_auto_create_topics": False,
            "proxy_url": STRAIGHT,
            **self.security,
        }

    def admin(self) -> dict[str, Any]:
        return {name: value for name, value in self.options().items() if name != "allow_auto_create_topics"}

    def topic(self, stream: str) -> str:
        return f"{self.prefix}{stream}"

    def group(self, stream: str, group: str) -> str:
        """One for each stream: whoever reads another has no part in who reads this one."""
        return f"{self.prefix}{group}.{stream}"


def security(*, user: str, password: str, mechanism: str, ca: str) -> Mapping[str, Any]:
    """Of an access: who we are, and TLS with whatever names that authority vouches for. Raises BadSetting."""
    if ca:
        try:
            ssl.create_default_context(cafile=ca)
        except (OSError, ssl.SSLError) as error:
            raise BadSetting(f"The certificate of Kafka's authority, {ca}, can't be read: {error}") from error
    for name in TALKS_OF_PASSWORDS if user else ():
        logging.getLogger(name).addFilter(_not_verbatim)
    tls = {"ssl_cafile": ca} if ca else {}
    hidden = {"sasl_plain_username": user, "sasl_plain_password": _Hidden(password)}
    sasl = {"sasl_mechanism": mechanism, **hidden} if user else {}
    protocol = ("SASL_" if user else "") + ("SSL" if ca else "PLAINTEXT")
    return {"security_protocol": protocol, **tls, **sasl}


class _Hidden(str):
    """A password that the library can use, and that shows in none of the settings it writes down."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'"


def _not_verbatim(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


@contextmanager
def translated(what: str) -> Iterator[None]:
    """An error of the library's is an outage to us: a loop tries again, a caller is told so. A record that no broker
    will ever take is none."""
    try:
        yield
    except MessageSizeTooLargeError as error:
        raise Poison(f"{what}: it is larger than the log takes.") from error
    except KafkaError as error:
        raise LogUnavailable(f"{what}: {type(error).__name__}.") from error
