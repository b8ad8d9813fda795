"""Event log consumer: buffers records, commits offsets, withholds new partitions."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta

from notifier.adapters.kafka.connection_options_and_errors import Fenced, PartitionsLost, UnreadableBatch
from notifier.adapters.kafka.group_membership import (
    IDLE_CHECK_INTERVAL,
    STALL_TIMEOUT,
    GroupMembership,
    KafkaGroupMember,
    MembershipWatchdog,
)
from notifier.adapters.kafka.partition_growth import PartitionGrowth, any_committed
from notifier.adapters.kafka.topics import with_incarnation
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log_and_dead_letters import Logged

LOGGER = logging.getLogger("notifier.kafka")

MAX_BUFFERED_RECORDS = 10_000
"""Maximum number of records buffered while the group's commits are unknown.

With more, the consumer leaves the group, joins again and reads the records again.
"""
RELEASE_CHECK_INTERVAL = 0.5
"""Seconds between two checks whether a new partition may be read."""


class KafkaLogConsumer:
    """Consumer of one stream. It replaces a group membership that makes no progress (`MembershipWatchdog`)."""

    def __init__(
        self,
        member: KafkaGroupMember,
        *,
        idle_check_interval: float = IDLE_CHECK_INTERVAL,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._identity, self._monotonic = member, monotonic
        self._watchdog = MembershipWatchdog(idle_check_interval=idle_check_interval)
        self._membership: GroupMembership | None = None
        self._buffer: dict[int, deque[Logged]] = {}
        """Records by partition. The first partition is served next."""
        self._committed: dict[int, int] = {}
        """Committed offset by assigned partition: the offset that is read next after a restart."""
        self._unloaded_partitions: set[int] = set()
        """Assigned partitions whose committed offset is not loaded yet."""
        self._growth = PartitionGrowth()
        self._incarnation = ""
        """Incarnation of the topic, part of its partition names."""
        self._release_checked_at = 0.0
        self._last_read_was_empty = False

    # Methods of the port.

    def poll(self, limit: int, wait: timedelta) -> Sequence[Logged]:
        # Poll even at limit 0: a member that stops polling is removed from the group. Pausing its partitions is no
        # alternative, because the library never resumes them (workarounds.py).
        if not self._buffer or self._unloaded_partitions or limit == 0:
            self._fill_buffer(wait)
        if self._topic_was_recreated():
            self._leave_to_rejoin("the topic was deleted and recreated")
            return []
        try:
            self._update_withheld_partitions()
        finally:
            if self._unloaded_partitions and self._buffered_count() > MAX_BUFFERED_RECORDS:
                self.close()
        if self._unloaded_partitions:
            return []
        return [
            with_incarnation(self._pop_next_record(), self._incarnation)
            for _ in range(min(limit, self._buffered_count()))
        ]

    def commit(self, positions: Mapping[str, int]) -> None:
        if self._topic_was_recreated():
            self._leave_to_rejoin("the topic was deleted and recreated")
        # Ignore positions of a former incarnation of the topic.
        prefix = f"{self._identity.stream}@{self._incarnation}/"
        offsets = {_partition_number(name): offset + 1 for name, offset in positions.items() if name.startswith(prefix)}
        self._commit(
            {number: offset for number, offset in offsets.items() if offset > self._committed.get(number, offset)}
        )

    def still_owns_polled_records(self) -> bool:
        if self._topic_was_recreated():
            self._leave_to_rejoin("the topic was deleted and recreated")
        # Repeat the current commits, which brokers reject if this member has missed a rebalance. Withheld partitions
        # have no commit yet.
        return self._commit(
            {number: offset for number, offset in self._committed.items() if number not in self._growth.withheld}
        )

    def lag(self) -> int:
        if self._membership is None or not (self._committed or self._unloaded_partitions):
            return 0
        self._load_commits()
        bounds = self._membership.bounds(self._committed)
        if any(bounds[number][1] < offset for number, offset in self._committed.items()):
            self.close()  # the topic was recreated, and the library has not detected it yet
            return 0
        lag = sum(bounds[number][1] - max(bounds[number][0], offset) for number, offset in self._committed.items())
        # Unread records of a withheld partition add to the lag, but are no stall. A member whose commits are not loaded
        # is stalled, too: it returns no records, for example because the brokers refuse its first commits. An error in
        # the calls above counts as no stall: another member would get it, too.
        withheld = self._growth.withheld.keys() & self._committed.keys()
        reads_nothing = lag > 0 and self._last_read_was_empty and not self._buffer and not withheld
        self._note_progress(is_stalled=reads_nothing or bool(self._unloaded_partitions))
        return lag

    def close(self) -> None:
        membership, self._membership = self._membership, None
        self._watchdog.on_revoked(self._monotonic())
        self._forget_partitions()
        if membership is not None:
            membership.close()

    # Methods of AssignmentListener, called by the membership during a poll.

    def on_assigned(self, partitions: Iterable[int]) -> None:
        self._watchdog.on_assigned(self._monotonic())
        self._unloaded_partitions.update(partitions)

    def on_revoked(self) -> None:
        self._watchdog.on_revoked(self._monotonic())
        self._forget_partitions()

    # Group membership.

    def _current_membership(self) -> GroupMembership:
        """Return the membership. Replace one that joins too late, or that is left without partitions."""
        now = self._monotonic()
        if self._watchdog.is_fenced(now):
            raise self._fenced_error()
        if self._membership is not None and self._watchdog.join_is_overdue(now):
            self._leave_to_rejoin("it did not join in time")
        if self._membership is not None and self._is_left_out(self._membership, now):
            self._leave_to_rejoin("it has no partitions, although some are unassigned")
        if self._membership is None:
            self._watchdog.on_joining(self._monotonic())
            self._membership = self._identity.join(self)
        return self._membership

    def _leave_to_rejoin(self, reason: str) -> None:
        member = self._identity
        LOGGER.warning("consumer %s of %s rejoins the group: %s", member.instance_id, member.group_id, reason)
        self.close()

    def _is_left_out(self, membership: GroupMembership, now: float) -> bool:
        """Return whether this member has no partitions although some partitions have no reader."""
        has_partitions = bool(self._committed or self._unloaded_partitions)
        if has_partitions or not self._watchdog.has_joined() or not self._watchdog.idle_check_is_due(now):
            return False
        self._watchdog.on_idle_check(now)
        is_left_out = membership.has_unassigned_partitions()
        self._note_progress(is_stalled=False)
        return is_left_out

    def _note_progress(self, *, is_stalled: bool) -> None:
        """Replace the membership if it has been stalled for too long."""
        now = self._monotonic()
        self._watchdog.on_progress_checked(now, is_stalled=is_stalled)
        if self._membership is not None and self._watchdog.stall_is_over_limit(now):
            self._leave_to_rejoin(f"it has read nothing for {STALL_TIMEOUT:g} s")

    def _topic_was_recreated(self) -> bool:
        """Return whether the topic was deleted and recreated.

        The client would continue at its old offset and skip unread records of the new topic.
        """
        current = self._membership.topic_incarnation() if self._membership is not None else ""
        return bool(self._committed) and bool(current) and current != self._incarnation

    def _on_fenced(self) -> LogUnavailable:
        self._watchdog.on_fenced(self._monotonic())
        self.close()
        return self._fenced_error()

    def _fenced_error(self) -> LogUnavailable:
        member = self._identity
        return LogUnavailable(f"Another process reads {member.stream} under the name {member.instance_id}.")

    def _forget_partitions(self) -> None:
        self._buffer.clear()
        self._committed.clear()
        self._unloaded_partitions.clear()

    # Reading and committing.

    def _fill_buffer(self, wait: timedelta) -> None:
        records = self._poll_membership(wait)
        self._last_read_was_empty = not records
        for record in records:
            self._buffer.setdefault(_partition_number(record.partition), deque()).append(record)

    def _poll_membership(self, wait: timedelta) -> Sequence[Logged]:
        try:
            return self._current_membership().poll(wait)
        except Fenced as error:
            raise self._on_fenced() from error
        except UnreadableBatch:
            self.close()
            raise
        except LogUnavailable:
            raise
        except Exception:
            # The client may have advanced past records that it did not return. A new membership reads from the commit.
            self.close()
            raise

    def _buffered_count(self) -> int:
        return sum(map(len, self._buffer.values()))

    def _pop_next_record(self) -> Logged:
        """Return the next record, round-robin over partitions: the library drains one partition before the next."""
        number = next(iter(self._buffer))
        records = self._buffer.pop(number)
        record = records.popleft()
        if records:
            self._buffer[number] = records
        return record

    def _commit(self, offsets: Mapping[int, int]) -> bool:
        """Commit the offsets, and return whether the brokers accepted them. Without offsets the result is False."""
        if self._membership is None or not offsets:
            return False
        try:
            self._membership.commit(offsets)
        except PartitionsLost:
            LOGGER.info(
                "late commit of consumer %s of %s was rejected", self._identity.instance_id, self._identity.group_id
            )
            return False
        except Fenced as error:
            raise self._on_fenced() from error
        self._committed |= {number: offset for number, offset in offsets.items() if number in self._committed}
        return True

    def _load_commits(self) -> None:
        """Load the commits of newly assigned partitions, and detect new partitions."""
        if self._membership is None or not self._unloaded_partitions:
            return
        commits = self._membership.commits()
        if not any_committed(commits):
            # Commit 0 for all partitions, so that a later partition without a commit is recognized as new.
            # This may overwrite the first commits of another member, whose records are then read again.
            if not self._commit(dict.fromkeys(commits, 0)):
                return
            commits = dict.fromkeys(commits, 0)
        self._incarnation = self._identity.topic_incarnation()
        bounds = self._membership.bounds(self._unloaded_partitions)
        self._growth.withhold_new(commits, self._monotonic())
        # A commit from a former incarnation of the topic may be beyond the end of the current one.
        self._committed |= {
            number: offset if (offset := commits[number] or 0) <= bounds[number][1] else bounds[number][0]
            for number in self._unloaded_partitions
        }
        self._unloaded_partitions.clear()

    # New partitions of a grown topic: withheld until the older records of their keys are processed.

    def _update_withheld_partitions(self) -> None:
        """Release the withheld partitions that may be read now.

        Discard the buffered records of all withheld partitions: these records are read again after the release.
        """
        self._load_commits()
        withheld = self._growth.withheld.keys() & self._committed.keys()
        if withheld and self._monotonic() >= self._release_checked_at + RELEASE_CHECK_INTERVAL:
            self._release_checked_at = self._monotonic()
            self._release_readable(withheld)
        for number in self._growth.withheld.keys() & self._buffer.keys():
            del self._buffer[number]

    def _release_readable(self, withheld: Iterable[int]) -> None:
        assert self._membership is not None
        bounds = self._membership.bounds({*withheld, *self._growth.older_partitions()})
        readable = self._growth.newly_readable(self._membership.commits(), bounds, self._monotonic())
        for number in set(readable) & set(withheld):
            first = bounds[number][0]
            # Commit first: no later owner withholds a partition that has a commit.
            if not self._commit({number: first}):
                return
            self._membership.seek(number, first)
            del self._growth.withheld[number]
            self._buffer.pop(number, None)
            LOGGER.info(
                "consumer %s reads new partition %s/%d", self._identity.instance_id, self._identity.stream, number
            )


def _partition_number(partition: str) -> int:
    return int(partition.rpartition("/")[2])
