"""The topics: made, grown and kept as topics.toml says, by one runner or several, and never taken from anybody."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from notifier.adapters.kafka import Access, KafkaLog, admin_client, migrate, pending, plan
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log import Record
from notifier.topics import GROUPS, MENTIONS, PARTITIONS
from tests.services.waiting import until

MADE = [f"make {topic.stream}" for topic in plan()]
LARGER = [replace(topic, partitions=8) for topic in plan()]


@pytest.fixture
def access(kafka: str) -> Access:
    return Access(servers=kafka, prefix=f"t{uuid4().hex[:8]}.")


def standing(access: Access, stream: str = MENTIONS) -> Sequence[int]:
    """The number of replicas of each partition."""
    with admin_client(access) as admin:
        [found] = admin.describe_topics([access.topic(stream)])
    return [len(one["replica_nodes"]) for one in found["partitions"]]


def test_every_stream_has_its_topic_with_as_many_partitions_as_elsewhere() -> None:
    assert {topic.stream: topic.partitions for topic in plan()} == PARTITIONS
    assert all(1 <= topic.insync < topic.replicas <= 3 for topic in plan())


def test_what_is_missing_is_made_once_with_no_more_replicas_than_brokers(access: Access) -> None:
    assert pending(access) == MADE
    assert migrate(access) == len(MADE)
    assert list(pending(access)) == []
    assert migrate(access) == 0
    assert list(standing(access)) == [1] * PARTITIONS[MENTIONS]
    log = KafkaLog(access)
    log.append([Record(stream=MENTIONS, key="a", value=b"taken by one replica")])
    log.close()


def test_a_topic_grows_and_is_kept_as_long_as_wished_and_never_shrinks(access: Access) -> None:
    migrate(access)
    wished = [replace(LARGER[0], retention=timedelta(hours=200))]
    assert list(pending(access, wished)) == ["grow mentions to 8", "set retention.ms of mentions to 720000000"]
    assert migrate(access, wished) == 2
    until(lambda: not list(pending(access, wished)))  # a broker tells what it has applied, a moment after it was taken
    assert migrate(access, [replace(wished[0], partitions=2)]) == 0
    assert len(standing(access)) == 8


def test_two_runners_at_once_make_everything_once(access: Access) -> None:
    with ThreadPoolExecutor() as threads:
        assert sum(threads.map(lambda _: migrate(access), range(2))) == len(MADE)
        assert sum(threads.map(lambda _: migrate(access, LARGER), range(2))) == len(LARGER)
    assert len(standing(access)) == 8


def test_before_a_topic_grows_it_is_written_down_that_its_group_has_read_nothing(access: Access) -> None:
    migrate(access)
    migrate(access, LARGER)
    group = access.group(MENTIONS, GROUPS[MENTIONS])
    with admin_client(access) as admin:
        found = admin.list_group_offsets(group)[group]
    assert {place.partition: at.offset for place, at in found.items()} == dict.fromkeys(range(4), 0)


def test_a_topic_does_not_grow_while_its_last_growth_is_not_over(access: Access) -> None:
    migrate(access)
    migrate(access, LARGER)
    with pytest.raises(LogUnavailable, match="still growing"):
        migrate(access, [replace(topic, partitions=12) for topic in LARGER])
    assert len(standing(access)) == 8


@pytest.mark.parametrize("servers", ["127.0.0.1:1", "no.such.host.invalid:9092"])
@pytest.mark.parametrize("asked", [pending, migrate])
def test_brokers_that_are_away_are_said_to_be_in_time_and_leave_nothing_behind(
    asked: Callable[[Access], object], servers: str
) -> None:
    before, began = {*threading.enumerate()}, time.monotonic()
    with pytest.raises(LogUnavailable):
        asked(Access(servers=servers))
    assert time.monotonic() - began < 5
    assert {*threading.enumerate()} <= before
