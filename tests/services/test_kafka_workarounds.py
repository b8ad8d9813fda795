"""Workarounds for defects of kafka-python."""

import socket
import ssl
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from kafka.errors import CoordinatorNotAvailableError
from kafka.net.manager import KafkaConnectionManager

from notifier.adapters.kafka import Access, KafkaLog, admin_client
from notifier.adapters.kafka.workarounds import (
    DIRECT_SOCKET_URL,
    ClosingSelector,
    cluster_metadata,
    has_unassigned_partitions,
)
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log_and_dead_letters import Record
from notifier.topics import MENTIONS, MENTIONS_STANDARD
from tests.services.wait_for_engine_change import wait_until


@pytest.fixture
def log(access: Access) -> Iterator[KafkaLog]:
    log = KafkaLog(access)
    yield log
    log.close()


@pytest.mark.parametrize("has_pending_update", [False, True])
def test_producer_whose_refresh_ended_sends_to_a_topic_that_is_new_to_it(
    log: KafkaLog, *, has_pending_update: bool
) -> None:
    assert accepts(log, MENTIONS)
    client = log._producer._client
    assert client is not None
    end_metadata_refresh(cluster_metadata(client))
    if has_pending_update:
        client._metadata.request_update()
    wait_until(lambda: accepts(log, MENTIONS_STANDARD))


def test_consumer_whose_refresh_ended_refreshes_its_metadata_again(log: KafkaLog) -> None:
    consumer: Any = log.subscribe(MENTIONS, "router", "one")
    consumer.poll(1, timedelta(0))
    metadata = cluster_metadata(consumer._membership._consumer)
    end_metadata_refresh(metadata)
    updates: list[object] = []
    metadata.add_listener(updates.append)
    consumer.poll(1, timedelta(0))
    wait_until(lambda: bool(updates))
    consumer.close()


def test_group_without_members_has_unassigned_partitions(access: Access) -> None:
    """A member that the brokers have removed without its notice finds its group like this."""
    wait_until(lambda: has_unassigned(access))


def test_client_closed_before_its_request_is_sent_closes_its_socket(access: Access) -> None:
    with admin_client(access) as admin:
        admin.list_topics()
        [transport] = [connection.transport for connection in admin._manager._conns.values() if connection.connected]
        sock = transport._sock
        transport._write_buffer.append(b"request")
    assert sock.fileno() == -1


def test_client_closed_during_a_tls_handshake_closes_its_socket() -> None:
    """Otherwise the destructor of the socket warns, which fails the test."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        options = {
            "bootstrap_servers": f"127.0.0.1:{server.getsockname()[1]}",
            "security_protocol": "SSL",
            "proxy_url": DIRECT_SOCKET_URL,
        }
        loop = ClosingSelector(**options)
        manager = KafkaConnectionManager(loop, **options)
        manager.get_connection(manager.cluster.bootstrap_brokers()[0].node_id)

        def waits_for_the_server() -> bool:
            loop.poll(timeout_ms=10)
            return any(isinstance(sock, ssl.SSLSocket) for sock in loop._sockets)

        wait_until(waits_for_the_server)
        manager.close()
        loop.close()


def end_metadata_refresh(metadata: Any) -> None:
    """Let the refresh end as by an error of the library: each listener is called in its task."""

    def fail(_: object) -> None:
        raise RuntimeError("Set changed size during iteration")

    metadata.add_listener(fail)
    metadata.request_update()
    wait_until(lambda: metadata._refresh_loop_future.is_done)
    metadata.remove_listener(fail)


def accepts(log: KafkaLog, stream: str) -> bool:
    try:
        log.append([Record(stream=stream, key="a", value=b"a")])
    except LogUnavailable:
        return False
    return True


def has_unassigned(access: Access) -> bool:
    try:
        with admin_client(access) as admin:
            return has_unassigned_partitions(admin, access.topic(MENTIONS), access.group(MENTIONS, "router"))
    except CoordinatorNotAvailableError:  # of a broker that has just started
        return False
