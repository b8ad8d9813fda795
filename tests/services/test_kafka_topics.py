"""Topics are created, grown and kept as topics.toml says, and never shrink."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from notifier.adapters.kafka import Access, KafkaLog, admin_client, load_topics, migrate, pending_migration_steps
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log_and_dead_letters import Record
from notifier.topics import GROUPS, MENTIONS, PARTITION_COUNTS
from tests.services.wait_for_engine_change import wait_until

GIVES_UP_WITHIN = 10.0
"""Seconds, on a busy machine."""
CREATED = [f"create {topic.stream}" for topic in load_topics()]
LARGER = [replace(topic, partition_count=8) for topic in load_topics()]


@pytest.fixture
def access(kafka: str) -> Access:
    return Access(servers=kafka, prefix=f"t{uuid4().hex[:8]}.")


def replica_counts(access: Access, stream: str = MENTIONS) -> Sequence[int]:
    """Return the number of replicas of each partition."""
    with admin_client(access) as admin:
        [description] = admin.describe_topics([access.topic(stream)])
    return [len(partition["replica_nodes"]) for partition in description["partitions"]]


def test_every_stream_has_its_topic_and_partitions() -> None:
    assert {topic.stream: topic.partition_count for topic in load_topics()} == PARTITION_COUNTS
    assert all(1 <= topic.min_insync < topic.replica_count <= 3 for topic in load_topics())


def test_missing_topics_are_created_once_within_broker_count(access: Access) -> None:
    assert pending_migration_steps(access) == CREATED
    assert migrate(access) == len(CREATED)
    assert list(pending_migration_steps(access)) == []
    assert migrate(access) == 0
    assert list(replica_counts(access)) == [1] * PARTITION_COUNTS[MENTIONS]
    log = KafkaLog(access)
    log.append([Record(stream=MENTIONS, key="a", value=b"taken by one replica")])
    log.close()


def test_topic_grows_and_changes_retention_but_never_shrinks(access: Access) -> None:
    migrate(access)
    changed = [replace(LARGER[0], retention=timedelta(hours=200))]
    assert list(pending_migration_steps(access, changed)) == [
        "grow mentions to 8",
        "set retention.ms of mentions to 720000000",
    ]
    assert migrate(access, changed) == 2
    wait_until(
        lambda: not list(pending_migration_steps(access, changed))
    )  # a broker reports a change a moment after it has accepted it
    assert migrate(access, [replace(changed[0], partition_count=2)]) == 0
    assert len(replica_counts(access)) == 8


def test_concurrent_runners_create_topics_once(access: Access) -> None:
    with ThreadPoolExecutor() as threads:
        assert sum(threads.map(lambda _: migrate(access), range(2))) == len(CREATED)
        assert sum(threads.map(lambda _: migrate(access, LARGER), range(2))) == len(LARGER)
    assert len(replica_counts(access)) == 8


def test_growth_commits_start_offsets_of_unread_group(access: Access) -> None:
    migrate(access)
    migrate(access, LARGER)
    group = access.group(MENTIONS, GROUPS[MENTIONS])
    with admin_client(access) as admin:
        offsets = admin.list_group_offsets(group)[group]
    assert {partition.partition: offset.offset for partition, offset in offsets.items()} == dict.fromkeys(range(4), 0)


def test_topic_does_not_grow_during_growth(access: Access) -> None:
    migrate(access)
    migrate(access, LARGER)
    with pytest.raises(LogUnavailable, match="still growing"):
        migrate(access, [replace(topic, partition_count=12) for topic in LARGER])
    assert len(replica_counts(access)) == 8


@pytest.mark.parametrize("servers", ["127.0.0.1:1", "no.such.host.invalid:9092"])
@pytest.mark.parametrize("operation", [pending_migration_steps, migrate])
def test_unreachable_brokers_are_reported_in_time(operation: Callable[[Access], object], servers: str) -> None:
    before, started_at = {*threading.enumerate()}, time.monotonic()
    with pytest.raises(LogUnavailable):
        operation(Access(servers=servers))
    assert time.monotonic() - started_at < GIVES_UP_WITHIN
    assert {*threading.enumerate()} <= before
