"""Broker connections: addresses, names, security, timeouts and error translation."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import (
    CommitFailedError,
    CorruptRecordError,
    FencedInstanceIdError,
    IllegalGenerationError,
    KafkaError,
    MessageSizeTooLargeError,
    RebalanceInProgressError,
    RecordListTooLargeError,
    UnknownMemberIdError,
    UnsupportedCodecError,
)

from notifier.adapters.kafka.workarounds import (
    DIRECT_SOCKET_URL,
    HiddenPassword,
    create_client,
    silence_request_logs,
)
from notifier.domain.errors import BadSetting, LogUnavailable, Poison

APPEND_TIMEOUT = timedelta(seconds=3)
"""Time limit of an append. Each part of a large append has its own limit."""
METADATA_MAX_AGE = timedelta(seconds=3)
"""Age at which producers and consumers refresh their metadata, and so detect new partitions."""
LEASE = timedelta(seconds=5)
"""Session timeout. The partitions of a consumer that sends no heartbeat for this long go to other members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Broker addresses, credentials, and the names of topics, groups and instances."""

    servers: str
    """`host:port`, several separated by commas."""
    prefix: str = ""
    """Prefix of every topic and group, so that several notifiers share a cluster."""
    instance: str = ""
    """Static group instance id: a crashed process that restarts within its lease gets its partitions back.

    Only one process at a time may use an id. If it is empty, the owner of the subscription is the id. An owner whose
    name is new after each start may get other partitions.
    """
    lease: timedelta = LEASE
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Options of kafka-python, as returned by `security`. Empty means plain text."""

    def options(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.servers.split(","),
            # The default lets a client wait up to 30 s before it reconnects, which would prolong each outage.
            "reconnect_backoff_max_ms": 1_000,
            "request_timeout_ms": 2_000,
            "allow_auto_create_topics": False,
            "proxy_url": DIRECT_SOCKET_URL,  # not a proxy: selects the socket class of workarounds.py
            **self.security,
        }

    def admin_options(self) -> dict[str, Any]:
        """Return `options()` without the option that admin clients reject."""
        return {name: value for name, value in self.options().items() if name != "allow_auto_create_topics"}

    def topic(self, stream: str) -> str:
        return f"{self.prefix}{stream}"

    def group(self, stream: str, group: str) -> str:
        """Return the group id. Each stream has its own group, so consumers of other streams cause no rebalances."""
        return f"{self.prefix}{group}.{stream}"


def security(*, user: str, password: str, mechanism: str, ca: str) -> Mapping[str, Any]:
    """Return the options for SASL and TLS. Without `user` there is no SASL, without `ca` no TLS. Raises BadSetting."""
    if ca:
        try:
            ssl.create_default_context(cafile=ca)
        except (OSError, ssl.SSLError) as error:
            raise BadSetting(f"Can't read Kafka's CA certificate {ca}: {error}") from error
    if user:
        silence_request_logs()
    tls = {"ssl_cafile": ca} if ca else {}
    credentials = {"sasl_plain_username": user, "sasl_plain_password": HiddenPassword(password)}
    sasl = {"sasl_mechanism": mechanism, **credentials} if user else {}
    protocol = ("SASL_" if user else "") + ("SSL" if ca else "PLAINTEXT")
    return {"security_protocol": protocol, **tls, **sasl}


@contextmanager
def admin_client(access: Access, **options: Any) -> Iterator[KafkaAdminClient]:
    """Open an admin client for a few calls. Raises the library's KafkaError: use it inside `translated`."""
    admin = create_client(KafkaAdminClient, **{**access.admin_options(), **options})
    try:
        yield admin
    finally:
        admin.close()


class PartitionsLost(LogUnavailable):
    """The member has missed a rebalance, and may no longer own its partitions."""


class Fenced(LogUnavailable):
    """Another process has joined under the same instance id."""


class UnreadableBatch(LogUnavailable):
    """The client cannot decode a batch. Replace the client: its next poll would never return."""


LIBRARY_ERRORS: Mapping[type[LogUnavailable], tuple[type[KafkaError], ...]] = {
    PartitionsLost: (
        CommitFailedError,
        IllegalGenerationError,
        RebalanceInProgressError,
        UnknownMemberIdError,
    ),
    Fenced: (FencedInstanceIdError,),
    UnreadableBatch: (CorruptRecordError, UnsupportedCodecError),
}
TOO_LARGE_ERRORS = (MessageSizeTooLargeError, RecordListTooLargeError)


def translate(error: BaseException, failure: str) -> LogUnavailable | Poison:
    """Return the project's error for a library error: Poison for a record that is too large, else LogUnavailable."""
    if isinstance(error, TOO_LARGE_ERRORS):
        return Poison(f"{failure}: the record is larger than the log accepts.")
    outage_type = next(
        (outage for outage, errors in LIBRARY_ERRORS.items() if isinstance(error, errors)), LogUnavailable
    )
    return outage_type(f"{failure}: {type(error).__name__}.")


@contextmanager
def translated(failure: str) -> Iterator[None]:
    """Translate the library's errors. `failure` says what failed, and begins the message."""
    try:
        yield
    except KafkaError as error:
        raise translate(error, failure) from error
