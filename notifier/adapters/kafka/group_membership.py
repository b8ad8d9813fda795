"""Kafka consumer group membership, and a watchdog that detects broken memberships."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from math import inf

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from notifier.adapters.kafka.connection_options_and_errors import METADATA_MAX_AGE, Access, admin_client, translated
from notifier.adapters.kafka.partition_growth import Commits, OffsetBounds, any_committed
from notifier.adapters.kafka.topics import incarnation_of, to_logged, topic_incarnation
from notifier.adapters.kafka.workarounds import (
    MIN_POLL_TO_JOIN,
    MIN_POLL_TO_READ,
    AssignmentListener,
    RebalanceListener,
    create_client,
    ensure_metadata_refresh,
    has_unassigned_partitions,
    leave_group,
    topic_id,
)
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log_and_dead_letters import Logged

MAX_POLL_RECORDS = 1_000
"""Maximum number of records of one poll, over all partitions."""
MAX_PARTITION_BYTES = 262_144
"""Maximum bytes of a fetch from one partition. Larger fetches would delay the records of other partitions."""
MAX_POLL_INTERVAL = timedelta(minutes=1)
"""A member that does not poll for this long loses its partitions."""
FETCH_WAIT_MS = 250
QUERY_TIMEOUT_MS = 2_000
"""Timeout of one query for offsets."""

JOIN_TIMEOUT = 15.0
"""Seconds after which a client that has not joined is stuck. The constants below are in seconds, too."""
REJOIN_TIMEOUT = MAX_POLL_INTERVAL.total_seconds() + JOIN_TIMEOUT
"""Join timeout during a rebalance, which waits for members that are processing a batch."""
FENCED_REJOIN_DELAY = 60.0
"""Pause before a member rejoins after another process has taken its instance id."""
STALL_TIMEOUT = 30.0
"""Longest time for which a member may return no records despite a lag, or have no commits yet."""
IDLE_CHECK_INTERVAL = 5.0
"""Seconds after which a member without partitions asks the brokers again whether some partition has no reader."""


def milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaGroupMember:
    """Identity of one member of a group that reads one stream."""

    access: Access
    stream: str
    group: str
    """Name of the group, without prefix and stream."""
    instance_id: str

    @property
    def topic(self) -> str:
        return self.access.topic(self.stream)

    @property
    def group_id(self) -> str:
        return self.access.group(self.stream, self.group)

    def join(self, listener: AssignmentListener) -> "GroupMembership":
        """Start to join. Later polls assign the partitions. Raises LogUnavailable."""
        return GroupMembership(self, listener)

    def topic_incarnation(self) -> str:
        """Ask the brokers for the topic's incarnation. Raises LogUnavailable."""
        return topic_incarnation(self.access, self.stream)


class GroupMembership:
    """Membership of one consumer in a group. Not thread-safe.

    Calls are bounded in time, and raise LogUnavailable or a subclass. A commit is the offset to read next.
    """

    def __init__(self, member: KafkaGroupMember, listener: AssignmentListener) -> None:
        self._member, self._topic = member, member.topic
        self._listener = RebalanceListener(listener)
        with translated("Can't connect to the log"):
            self._consumer = self._connect()
            self._listener.consumer = self._consumer
            self._consumer.subscribe([self._topic], listener=self._listener)

    def poll(self, wait: timedelta) -> Sequence[Logged]:
        """Return the next records, and stay a member of the group."""
        min_wait = MIN_POLL_TO_READ if self._listener.joined else MIN_POLL_TO_JOIN
        ensure_metadata_refresh(self._consumer)
        with translated("Reading the log failed"):
            # Rewind before reading. After reading, a failed rewind would lose the records just read.
            self._listener.rewind_partitions(self._topic, QUERY_TIMEOUT_MS)
            batches = self._consumer.poll(timeout_ms=milliseconds(max(min_wait, wait)), max_records=MAX_POLL_RECORDS)
        return [
            to_logged(self._member.stream, record)
            for tp, records in batches.items()
            if tp.partition not in self._listener.partitions_to_rewind  # rebalanced during this poll: read again later
            for record in records
        ]

    def commit(self, offsets: Mapping[int, int]) -> None:
        ensure_metadata_refresh(self._consumer)
        commits = {tp: OffsetAndMetadata(offsets[tp.partition], "", -1) for tp in self._topic_partitions(offsets)}
        with translated("A commit failed"):
            self._consumer.commit(commits)

    def commits(self) -> Commits:
        """Return the group's committed offset of each partition of the topic, None for one without a commit."""
        with translated("Reading the group's commits failed"):
            # A new partition may be assigned before the client's metadata contains it.
            assigned = {tp.partition for tp in self._consumer.assignment()}
            partitions = sorted(assigned | set(self._consumer.partitions_for_topic(self._topic)))
            commits = self._committed(partitions)
            # Partitions are queried one by one. In between, another member may commit every partition of a new group.
            # Query the partitions without a commit again, so that none of them is mistaken for a new partition.
            while (
                new_commits := self._committed([partition for partition, offset in commits.items() if offset is None])
            ) and any_committed(new_commits):
                commits |= new_commits
            return commits

    def bounds(self, partitions: Iterable[int]) -> OffsetBounds:
        """Return the first offset and the end offset (last + 1) of each partition."""
        topic_partitions = self._topic_partitions(partitions)
        with translated("Reading the partitions' offsets failed"):
            first_offsets, end_offsets = (
                self._consumer.beginning_offsets(topic_partitions),
                self._consumer.end_offsets(topic_partitions),
            )
        if unknown := [tp for tp in topic_partitions if tp not in first_offsets or tp not in end_offsets]:
            raise LogUnavailable(f"Reading the offsets of {unknown[0].topic} failed: a partition has no leader.")
        return {tp.partition: (int(first_offsets[tp]), int(end_offsets[tp])) for tp in topic_partitions}

    def topic_incarnation(self) -> str:
        """Return the incarnation from the client's metadata without a request, or an empty string if it is unknown."""
        topic_id_ = topic_id(self._consumer, self._topic)
        return incarnation_of(topic_id_) if topic_id_ else ""

    def has_unassigned_partitions(self) -> bool:
        """Return whether some partition has no reader although the group is stable."""
        with translated("Reading the state of the group failed"), admin_client(self._member.access) as admin:
            return has_unassigned_partitions(admin, self._topic, self._member.group_id)

    def seek(self, partition: int, offset: int) -> None:
        with translated("Moving to an offset failed"):
            self._consumer.seek(TopicPartition(self._topic, partition), offset)

    def close(self) -> None:
        """Leave the group immediately if the brokers are reachable; otherwise the membership ends with its lease."""
        self._listener.close()
        with suppress(KafkaError):
            if member_id := self._consumer.group_metadata().member_id:
                with admin_client(self._member.access) as admin:
                    leave_group(admin, self._member.group_id, member_id, self._member.instance_id)
        self._consumer.close(autocommit=False)

    def _committed(self, partitions: Iterable[int]) -> dict[int, int | None]:
        topic_partitions = self._topic_partitions(partitions)
        return {tp.partition: self._consumer.committed(tp, timeout_ms=QUERY_TIMEOUT_MS) for tp in topic_partitions}

    def _topic_partitions(self, partitions: Iterable[int]) -> Sequence[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in partitions]

    def _connect(self) -> KafkaConsumer:
        lease = self._member.access.lease
        return create_client(
            KafkaConsumer,
            **self._member.access.options(),
            group_id=self._member.group_id,
            group_instance_id=self._member.instance_id,
            session_timeout_ms=milliseconds(lease),
            heartbeat_interval_ms=milliseconds(lease / 5),
            max_poll_interval_ms=milliseconds(MAX_POLL_INTERVAL),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=FETCH_WAIT_MS,
            max_partition_fetch_bytes=MAX_PARTITION_BYTES,
            metadata_max_age_ms=milliseconds(METADATA_MAX_AGE),
        )


@dataclass(slots=True, kw_only=True)
class MembershipWatchdog:
    """Decides when a consumer replaces its membership. All times are seconds of a monotonic clock."""

    idle_check_interval: float = IDLE_CHECK_INTERVAL
    join_deadline: float = inf
    """Infinite while no join is in progress."""
    fenced_until: float = 0.0
    idle_checked_at: float = 0.0
    stalled_since: float = inf

    def on_joining(self, now: float) -> None:
        self.join_deadline, self.stalled_since = now + JOIN_TIMEOUT, inf

    def on_assigned(self, now: float) -> None:
        self.join_deadline, self.idle_checked_at = inf, now

    def on_revoked(self, now: float) -> None:
        # The library also reports a revocation before the first join, whose deadline must stay.
        if self.join_deadline == inf:
            self.join_deadline = now + REJOIN_TIMEOUT

    def on_fenced(self, now: float) -> None:
        """Delay the next join: an immediate one would fence the process that now uses the instance id.

        Rejoin later nevertheless: otherwise the partitions would have no reader once that process is gone.
        """
        self.fenced_until = now + FENCED_REJOIN_DELAY

    def is_fenced(self, now: float) -> bool:
        return now < self.fenced_until

    def has_joined(self) -> bool:
        return self.join_deadline == inf

    def join_is_overdue(self, now: float) -> bool:
        return now > self.join_deadline

    def idle_check_is_due(self, now: float) -> bool:
        return now >= self.idle_checked_at + self.idle_check_interval

    def on_idle_check(self, now: float) -> None:
        self.idle_checked_at = now

    def on_progress_checked(self, now: float, *, is_stalled: bool) -> None:
        self.stalled_since = min(self.stalled_since, now) if is_stalled else inf

    def stall_is_over_limit(self, now: float) -> bool:
        return now > self.stalled_since + STALL_TIMEOUT
