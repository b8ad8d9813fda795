"""Workarounds for kafka-python 3.0, each with the library behavior that it corrects.

Two features are not used at all, because their defects have no workaround:

- the idempotent producer (`PRODUCER_OPTIONS`);
- `pause()` and `resume()`: a resumed partition stays empty.
"""

import logging
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import MemberToRemove
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.errors import KafkaConnectionError, KafkaError, SaslAuthenticationFailedError
from kafka.net import KafkaNetSocket
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.metadata import MetadataRequest

LOGGER = logging.getLogger("notifier.kafka")

PRODUCER_OPTIONS: Mapping[str, Any] = {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1}
"""Producer options that replace idempotence.

An idempotent producer hangs permanently once a sent batch exceeds `delivery_timeout_ms`, as in an outage.
Without idempotence a retried batch could be written after its successor, so only one request is in flight at a time.
A record may be written twice; readers tolerate duplicates.
"""

MIN_POLL_TO_JOIN, MIN_POLL_TO_READ = timedelta(seconds=1), timedelta(seconds=0.1)
"""Shortest poll durations, while joining and while reading. Shorter polls may never complete a join or a rejoin.

Measured: 0 of 4 consumers joined with polls of 5 ms, 2 of 3 with 20 ms, and 15 of 15 with 100 ms or more.
"""

BOOTSTRAP_TIMEOUT_MS = 1_000
"""Timeout until any broker has answered. The library connects in the constructor and would retry for 30 s."""


# Race that makes a response undecodable for all clients of the process.

REGISTRY_ATTRIBUTE = "_response_class_registry"


def pin_response_classes() -> None:
    """Make the library decode each response with the class that its module defines.

    The library creates a class for each version of a response on first use, and registers it by a weak reference. If
    two threads create the same version concurrently, the registered class may be garbage collected. From then on
    every client of the process fails to decode that response. The module's class decodes every version and is never
    collected.
    """
    registered = getattr(ResponseClassRegistry, REGISTRY_ATTRIBUTE, {})
    pinned = {api_key: reference[None] for api_key, reference in registered.items()}
    setattr(ResponseClassRegistry, REGISTRY_ATTRIBUTE, _FirstEntryWins(pinned))


class _FirstEntryWins(dict[int, Any]):
    def __setitem__(self, api_key: int, response_class: Any) -> None:
        self.setdefault(api_key, response_class)


# Sockets and threads that the library leaves behind.

DIRECT_SOCKET_URL = "direct://"
"""The `proxy_url` that selects `DirectSocket`; no proxy is involved."""


class DirectSocket(KafkaNetSocket):  # type: ignore[misc]  # the library has no types
    """Socket that is closed if its connection fails; the library leaves it to the garbage collector."""

    SCHEMES = ("direct",)

    async def sock_connect(self, net: Any, sock: socket.socket, sockaddr: Any, timeout_at: float | None = None) -> Any:
        try:
            return await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise


class ClosingSelector(NetworkSelector):  # type: ignore[misc]  # the library has no types
    """Event loop that closes its sockets.

    The library leaves a socket open if its client is closed during a TLS handshake, or before all of a request is sent.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._sockets = WeakSet[socket.socket]()

    def register_event(self, fileobj: Any, event: int, task: Any) -> None:
        self._sockets.add(fileobj)
        super().register_event(fileobj, event, task)

    def close(self) -> None:
        self.stop()
        sockets = [*self._sockets]  # the library drops sockets of unfinished handshakes
        try:
            super().close()
        finally:
            for sock in sockets:
                sock.close()


ClientT = TypeVar("ClientT")


def create_client(client_class: type[ClientT], **options: Any) -> ClientT:
    """Construct a client of the library. Raises the library's KafkaError.

    A client that finds no broker fails in its constructor and leaks its thread and sockets; this function closes them.
    """
    connections: list[KafkaNetClient] = []

    def connect(**config: Any) -> KafkaNetClient:
        connections.append(KafkaNetClient(net=ClosingSelector(**config), **config))
        return connections[-1]

    try:
        return client_class(**{"bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS, "kafka_client": connect, **options})
    except BaseException:
        for connection in connections:
            with suppress(KafkaError):
                connection.close()
            connection._manager._net.stop()
        raise


# Metadata refresh that an error ends for good, and a busy loop while a partition has no leader.


def cluster_metadata(client: KafkaConsumer | KafkaProducer) -> Any:
    return client._metadata if isinstance(client, KafkaProducer) else client._cluster


def ensure_metadata_refresh(client: KafkaConsumer | KafkaProducer) -> None:
    """Start the client's refresh of its metadata again if an error has ended it.

    An unexpected error ends the refresh task, for example if another thread changes a set during an iteration. The
    library does not start a new task. Topics, partitions and leaders that the client does not know yet stay unknown.
    """
    cluster = cluster_metadata(client)
    with cluster._lock:
        refresh = cluster._refresh_loop_future
        if refresh is None or not refresh.is_done or cluster.closed:
            return
        cluster._refresh_loop_future = None
        cluster._need_update = True
        cluster.start_refresh_loop()
    LOGGER.warning("the metadata refresh of a Kafka client had ended, and was restarted: %r", refresh.exception)


def create_producer(**options: Any) -> KafkaProducer:
    """Construct a producer whose thread waits for new metadata instead of requesting it in a loop.

    A partition has no leader while its topic is deleted or its brokers are down. The library's thread then requests new
    metadata before each poll, and the request ends the poll immediately. This loop keeps a core busy until there is a
    leader. So a request is not repeated while it is pending.
    """
    producer = create_client(KafkaProducer, **options)
    cluster = cluster_metadata(producer)
    request = cluster.request_update

    def request_update() -> Any:
        pending = cluster._future
        return pending if cluster.need_update and pending is not None and not pending.is_done else request()

    cluster.request_update = request_update
    return producer


# Passwords in logs.

REQUEST_LOGGERS = ("kafka.net.connection", "kafka.protocol.parser")
"""Loggers that write full requests at level DEBUG, including the SASL handshake."""


class HiddenPassword(str):
    """Password whose repr is hidden, because the library logs its configuration."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'"


def silence_request_logs() -> None:
    for name in REQUEST_LOGGERS:
        logging.getLogger(name).addFilter(_above_debug)


def _above_debug(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


# Refused credentials.


def broker_version(options: Mapping[str, Any], timeout_ms: int) -> tuple[int, ...]:
    """Connect to the only bootstrap server and return its version, derived from the API versions that it reports.

    The library's clients would retry forever and give no reason. Raises SaslAuthenticationFailedError if the user or
    password is refused, even if the library reports only a closed connection.
    """
    net = ClosingSelector(**options)
    manager = KafkaConnectionManager(net, **options)
    [broker] = manager.cluster.bootstrap_brokers()
    try:
        net.run(_handshake, manager, broker.node_id, timeout_ms)
        return tuple(manager.broker_version)
    except KafkaConnectionError as error:
        connection = manager._conns.get(broker.node_id)
        if connection is not None and connection.broker_version_data is not None:
            raise SaslAuthenticationFailedError("The broker closed the connection.") from error
        raise
    finally:
        manager.close()
        net.drain()
        net.close()


async def _handshake(manager: Any, node_id: object, timeout_ms: int) -> None:
    """Send one request that needs authentication: brokers report their versions before they authenticate a client."""
    connection = manager.get_connection(
        node_id, timeout_ms=timeout_ms, pop_on_close=False, refresh_metadata_on_err=False
    )
    await manager.wait_for(connection.init_future, timeout_ms)
    request = MetadataRequest(topics=MetadataRequest.NO_TOPICS)
    await manager.wait_for(connection.send_request(request), timeout_ms)


# Consumer groups.

SETTLED_GROUP_STATES = ("Stable", "Empty", "Dead")
"""States of a group in which no rebalance is in progress."""


def leave_group(admin: KafkaAdminClient, group: str, member_id: str, instance_id: str) -> None:
    """Remove a static member; `KafkaConsumer.close()` keeps it in the group until its lease expires.

    Both ids are sent, so that a process that has taken over the instance id is not removed.
    """
    admin.remove_group_members(group, [MemberToRemove(member_id=member_id, group_instance_id=instance_id)])


def has_unassigned_partitions(admin: KafkaAdminClient, topic: str, group: str) -> bool:
    """Return whether some partition of the topic has no reader although no rebalance is in progress.

    There are two causes. A group leader without metadata of the topic assigns no partitions, and does not repeat the
    assignment when the metadata arrives. The last member of a group may not notice that the brokers have removed it.
    """
    description = admin.describe_groups([group])[group]
    [topic_description] = admin.describe_topics([topic])
    if description["group_state"] not in SETTLED_GROUP_STATES:
        return False
    assignments = [member["member_assignment"] for member in description["members"]]
    assigned = sum(
        len(topic_assignment["partitions"])
        for assignment in assignments
        if isinstance(assignment, dict)  # a member that has just joined has none
        for topic_assignment in assignment["assigned_partitions"]
        if topic_assignment["topic"] == topic
    )
    return assigned < len(topic_description["partitions"])


def topic_id(consumer: KafkaConsumer, topic: str) -> object:
    """Return the broker's id of the topic, or None if it is unknown. The library has no public method for it."""
    return cluster_metadata(consumer).topic_id(topic)


class AssignmentListener(Protocol):
    """Callbacks that run during a poll when the partitions of a group member change."""

    def on_assigned(self, partitions: Iterable[int]) -> None: ...

    def on_revoked(self) -> None:
        """Handle the revocation of all partitions, which happens at each rebalance.

        A partition that is assigned again is read from its commit.
        """
        ...


class RebalanceListener(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """Forwards rebalances to `listener`, and remembers which partitions this member keeps in a rebalance.

    It is asynchronous because the library does not let a synchronous listener call the consumer.
    """

    def __init__(self, listener: AssignmentListener) -> None:
        self._listener = listener
        self._revoked_partitions: set[int] = set()
        self._closed = False
        self.consumer: KafkaConsumer | None = None
        self.joined = False
        self.partitions_to_rewind: set[int] = set()
        """Partitions that this member kept in a rebalance, and that `rewind_partitions` has not rewound yet."""

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._revoked_partitions |= {tp.partition for tp in revoked}
        self.joined = False
        if self.consumer is not None:
            # When a topic has grown, the leader of the group starts a rebalance. If a member's poll ends before its new
            # assignment is confirmed, no later poll continues the rebalance: the member stops reading and sending
            # heartbeats. Requesting another rebalance prevents that.
            self.consumer._coordinator.request_rejoin()
        if not self._closed:
            self._listener.on_revoked()

    async def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._revoked_partitions.clear()
        self.joined = False
        if not self._closed:
            self._listener.on_revoked()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        partitions = {tp.partition for tp in assigned}
        self.joined = True
        self.partitions_to_rewind, self._revoked_partitions = (
            (self.partitions_to_rewind | self._revoked_partitions) & partitions,
            set(),
        )
        if not self._closed:
            self._listener.on_assigned(partitions)

    def close(self) -> None:
        """Stop forwarding events: a late event would be attributed to the next membership."""
        self._closed = True

    def rewind_partitions(self, topic: str, timeout_ms: int) -> None:
        """Seek the kept partitions back to their commits. Raises the library's KafkaError.

        The library continues a kept partition after the last record that it returned. But `on_revoked` of the listener
        has discarded the records that were not processed yet.
        """
        if self.consumer is None:
            return
        for partition in sorted(self.partitions_to_rewind):
            tp = TopicPartition(topic, partition)
            offset = self.consumer.committed(tp, timeout_ms=timeout_ms)
            if offset is None:
                self.consumer.seek_to_beginning(tp)
            else:
                self.consumer.seek(tp, offset)
            self.partitions_to_rewind.discard(partition)
