"""Kafka group membership: rebalances, commits and partitions without a leader."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.cluster import ClusterMetadata
from kafka.errors import KafkaTimeoutError

from notifier.adapters.kafka.connection_options_and_errors import Access
from notifier.adapters.kafka.group_membership import GroupMembership, KafkaGroupMember
from notifier.adapters.kafka.workarounds import RebalanceListener
from notifier.domain.errors import LogUnavailable

RETAINED, ADDED = TopicPartition("mentions", 0), TopicPartition("mentions", 1)
RECORDS = {
    topic_partition: [SimpleNamespace(partition=topic_partition.partition, offset=9, key=b"k", value=b"v")]
    for topic_partition in (RETAINED, ADDED)
}
MEMBER = KafkaGroupMember(access=Access(servers="nowhere:1"), stream="mentions", group="router", instance_id="one")


class Events:
    """An AssignmentListener that records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_assigned(self, partitions: Iterable[int]) -> None:
        self.calls.append(f"assigned {sorted(partitions)}")

    def on_revoked(self) -> None:
        self.calls.append("revoked")


class FakeKafkaConsumer:
    """The library's consumer, whose group rebalances during the first poll."""

    def __init__(self) -> None:
        self.listener: RebalanceListener
        self.commits_unknown = False
        self.without_leader: set[TopicPartition] = set()
        self.polls = self.rejoins = 0
        self.seeks: list[tuple[TopicPartition, int]] = []
        self._coordinator = SimpleNamespace(request_rejoin=self._rejoin)
        self._cluster = ClusterMetadata()

    def subscribe(self, topics: Sequence[str], listener: RebalanceListener) -> None:
        self.listener = listener

    def poll(self, timeout_ms: int, max_records: int) -> Mapping[TopicPartition, Sequence[object]]:
        self.polls += 1
        if self.polls == 1:
            asyncio.run(self.listener.on_partitions_revoked([RETAINED]))
            asyncio.run(self.listener.on_partitions_assigned([RETAINED, ADDED]))
        return RECORDS

    def committed(self, topic_partition: TopicPartition, timeout_ms: int) -> int:
        if self.commits_unknown:
            raise KafkaTimeoutError("no answer")
        return 3

    def beginning_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {tp: 0 for tp in partitions if tp not in self.without_leader}

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {tp: 9 for tp in partitions if tp not in self.without_leader}

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        self.seeks.append((topic_partition, offset))

    def group_metadata(self) -> object:
        return SimpleNamespace(member_id="")

    def close(self, *, autocommit: bool) -> None:
        """Report a late rebalance, as the library may while it closes."""
        asyncio.run(self.listener.on_partitions_revoked([RETAINED]))
        asyncio.run(self.listener.on_partitions_assigned([RETAINED]))
        asyncio.run(self.listener.on_partitions_lost([RETAINED]))

    def _rejoin(self) -> None:
        self.rejoins += 1


class MembershipWithFakeConsumer(GroupMembership):
    def __init__(self, library: FakeKafkaConsumer, events: Events) -> None:
        self.library = library
        super().__init__(MEMBER, events)

    def _connect(self) -> Any:
        return self.library


@pytest.fixture
def library() -> FakeKafkaConsumer:
    return FakeKafkaConsumer()


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def membership(library: FakeKafkaConsumer, events: Events) -> GroupMembership:
    return MembershipWithFakeConsumer(library, events)


def polled_partitions(membership: GroupMembership) -> list[str]:
    return [logged.partition for logged in membership.poll(timedelta(0))]


def test_retained_partition_is_read_from_its_commit(membership: GroupMembership, library: FakeKafkaConsumer) -> None:
    assert polled_partitions(membership) == ["mentions/1"]
    assert polled_partitions(membership) == ["mentions/0", "mentions/1"]
    assert library.seeks == [(RETAINED, 3)]
    polled_partitions(membership)
    assert library.seeks == [(RETAINED, 3)]


def test_nothing_is_read_while_the_commit_is_unknown(membership: GroupMembership, library: FakeKafkaConsumer) -> None:
    polled_partitions(membership)
    library.commits_unknown = True
    for _ in range(2):
        with pytest.raises(LogUnavailable):
            polled_partitions(membership)
    assert library.polls == 1
    library.commits_unknown = False
    assert polled_partitions(membership) == ["mentions/0", "mentions/1"]
    assert library.seeks == [(RETAINED, 3)]


def test_rebalance_is_requested_again_when_partitions_are_revoked(
    membership: GroupMembership, library: FakeKafkaConsumer, events: Events
) -> None:
    polled_partitions(membership)
    assert library.rejoins == 1
    assert events.calls == ["revoked", "assigned [0, 1]"]


def test_closed_membership_reports_no_events_to_its_successor(membership: GroupMembership, events: Events) -> None:
    membership.close()
    assert events.calls == []


def test_offsets_of_a_partition_without_leader_are_an_outage(
    membership: GroupMembership, library: FakeKafkaConsumer
) -> None:
    assert membership.bounds([0, 1]) == {0: (0, 9), 1: (0, 9)}
    library.without_leader = {ADDED}
    with pytest.raises(LogUnavailable, match="a partition has no leader"):
        membership.bounds([0, 1])
