"""A Kafka consumer replaces a stalled membership and keeps one that only waits."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from notifier.adapters.kafka.connection_options_and_errors import Access, Fenced, PartitionsLost, UnreadableBatch
from notifier.adapters.kafka.consumer import KafkaLogConsumer
from notifier.adapters.kafka.group_membership import (
    FENCED_REJOIN_DELAY,
    JOIN_TIMEOUT,
    REJOIN_TIMEOUT,
    STALL_TIMEOUT,
    GroupMembership,
    KafkaGroupMember,
)
from notifier.adapters.kafka.workarounds import AssignmentListener
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log_and_dead_letters import Logged, Record

RECORD = Logged(partition="mentions/0", offset=0, record=Record(stream="mentions", key="k", value=b""))
NO_WAIT = timedelta(0)


class FakeMembership(GroupMembership):
    """A membership with ten records; the test chooses its partitions and the records it returns."""

    def __init__(self, listener: AssignmentListener, *, has_unassigned: bool) -> None:
        self.listener, self.has_unassigned = listener, has_unassigned
        self.batches = [list[Logged]()]
        self.poll_error: Exception | None = None
        self.commits_unknown = self.commits_refused = False
        self.ends_unknown: Exception | None = None
        self.end = 10
        self.closed = False

    def poll(self, wait: timedelta) -> Sequence[Logged]:
        if self.poll_error is not None:
            raise self.poll_error
        return self.batches.pop() if self.batches else []

    def commits(self) -> Mapping[int, int | None]:
        if self.commits_unknown:
            raise LogUnavailable
        return {0: None if self.commits_refused else 0}

    def commit(self, offsets: Mapping[int, int]) -> None:
        if self.commits_refused:
            raise PartitionsLost

    def bounds(self, partitions: Iterable[int]) -> Mapping[int, tuple[int, int]]:
        if self.ends_unknown is not None:
            raise self.ends_unknown
        return dict.fromkeys(partitions, (0, self.end))

    def topic_incarnation(self) -> str:
        return ""

    def has_unassigned_partitions(self) -> bool:
        return self.has_unassigned

    def close(self) -> None:
        self.closed = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeMember(KafkaGroupMember):
    access: Access = field(default_factory=lambda: Access(servers="nowhere:1"))
    stream: str = "mentions"
    group: str = "router"
    instance_id: str = "one"
    has_unassigned: bool = False
    memberships: list[FakeMembership] = field(default_factory=list)

    def join(self, listener: AssignmentListener) -> FakeMembership:
        self.memberships.append(FakeMembership(listener, has_unassigned=self.has_unassigned))
        return self.memberships[-1]

    def topic_incarnation(self) -> str:
        return "incarnation"


class Harness:
    """One consumer, its memberships, and the time."""

    def __init__(self, *, idle_check_interval: float = 5.0, has_unassigned: bool = False) -> None:
        self.now = 1_000.0
        self.member = FakeMember(has_unassigned=has_unassigned)
        self.consumer = KafkaLogConsumer(
            self.member, idle_check_interval=idle_check_interval, monotonic=lambda: self.now
        )

    @property
    def first(self) -> FakeMembership:
        return self.member.memberships[0]

    @property
    def closed(self) -> list[bool]:
        return [membership.closed for membership in self.member.memberships]

    def poll(self, limit: int = 10) -> int:
        return len(self.consumer.poll(limit, NO_WAIT))

    def step(self) -> None:
        """Poll and measure the lag, as the pump does after each step that did not fail."""
        with suppress(LogUnavailable):
            self.poll()
            self.consumer.lag()


def joined(*partitions: int, idle_check_interval: float = 5.0, has_unassigned: bool = False) -> Harness:
    harness = Harness(idle_check_interval=idle_check_interval, has_unassigned=has_unassigned)
    harness.poll()
    harness.first.listener.on_assigned(partitions)
    return harness


def test_membership_is_replaced_if_it_never_joins() -> None:
    harness = Harness()
    harness.poll()
    harness.first.listener.on_revoked()
    harness.now += JOIN_TIMEOUT - 1
    harness.poll()
    assert harness.closed == [False]
    harness.now += 2
    harness.poll()
    assert harness.closed == [True, False]


def test_membership_is_replaced_if_it_does_not_rejoin() -> None:
    harness = joined(0)
    harness.now += 10 * REJOIN_TIMEOUT
    harness.poll()
    harness.first.listener.on_revoked()
    harness.now += REJOIN_TIMEOUT - 1
    harness.poll()
    assert harness.closed == [False]
    harness.now += 2
    harness.poll()
    assert harness.closed == [True, False]


def test_membership_is_replaced_if_it_reads_none_of_its_backlog() -> None:
    harness = joined(0)
    for seconds, closed in ((0.0, False), (STALL_TIMEOUT - 1, False), (2.0, True)):
        harness.now += seconds
        harness.poll()
        assert harness.consumer.lag() == 10
        assert harness.first.closed == closed


def test_membership_is_replaced_if_its_first_commits_are_refused() -> None:
    harness = joined(0)
    harness.first.commits_refused = True
    for seconds, closed in ((0.0, [False]), (STALL_TIMEOUT - 1, [False]), (2.0, [True])):
        harness.now += seconds
        harness.step()
        assert harness.closed == closed
    harness.step()
    assert harness.closed == [True, False]


@pytest.mark.parametrize("outage", ["poll_error", "ends_unknown"])
def test_membership_is_kept_in_an_outage(outage: str) -> None:
    """A new member would get the same errors, and its join would stop the others for a moment."""
    harness = joined(0)
    setattr(harness.first, outage, LogUnavailable())
    for _ in range(3):
        harness.now += STALL_TIMEOUT
        harness.step()
    assert harness.closed == [False]


def test_long_silence_is_not_a_stall() -> None:
    harness = joined(0)
    harness.first.end = 0
    for _ in range(3):
        harness.now += 2 * STALL_TIMEOUT
        harness.poll()
        assert harness.consumer.lag() == 0
    harness.first.end = 10
    assert harness.consumer.lag() == 10
    harness.first.batches = [[RECORD]]
    assert harness.poll() == 1
    assert not harness.first.closed


@pytest.mark.parametrize("limit", [0, 10])
def test_membership_is_kept_while_its_records_are_processed(limit: int) -> None:
    """This also holds for a consumer that is polled for no further records."""
    harness = joined(0)
    harness.first.batches = [[RECORD]]
    harness.poll(limit)
    for _ in range(3):
        harness.now += 2 * STALL_TIMEOUT
        if limit == 0:
            harness.poll(limit)
        assert harness.consumer.lag() == 10
    assert not harness.first.closed


def test_fenced_consumer_rejoins_after_a_delay() -> None:
    harness = Harness()
    harness.poll()
    harness.first.poll_error = Fenced()
    for _ in range(2):
        with pytest.raises(LogUnavailable, match="under the name one"):
            harness.poll()
    assert harness.closed == [True]
    harness.now += FENCED_REJOIN_DELAY
    harness.poll()
    assert harness.closed == [True, False]


def test_buffer_is_bounded_while_commits_are_unknown() -> None:
    harness = joined(0)
    harness.first.commits_unknown = True
    harness.first.batches = [[RECORD] * 1_000] * 12
    for _ in range(11):
        with pytest.raises(LogUnavailable):
            harness.poll()
    assert harness.first.closed


def test_membership_is_replaced_after_an_unreadable_batch() -> None:
    harness = Harness()
    harness.poll()
    harness.first.poll_error = UnreadableBatch("UnsupportedCodecError")
    with pytest.raises(LogUnavailable, match="UnsupportedCodecError"):
        harness.poll()
    assert harness.first.closed
    with suppress(LogUnavailable):
        harness.poll()
    assert len(harness.closed) == 2


def test_idle_member_rejoins_if_some_partition_has_no_reader() -> None:
    harness = joined(idle_check_interval=0.0, has_unassigned=True)
    harness.poll()
    assert harness.closed == [True, False]


def test_idle_member_stays_if_all_partitions_have_readers() -> None:
    harness = joined(idle_check_interval=0.0)
    for _ in range(3):
        harness.poll()
    assert harness.closed == [False]


def test_idle_member_checks_unassigned_partitions_after_a_delay() -> None:
    harness = joined(idle_check_interval=60.0, has_unassigned=True)
    for _ in range(3):
        harness.poll()
    assert harness.closed == [False]
    harness.now += 61
    harness.poll()
    assert harness.closed == [True, False]
