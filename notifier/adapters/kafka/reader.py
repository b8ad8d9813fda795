"""A reader of the event log on Kafka: a member of a group, which commits what is done and nothing that it has lost."""

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.admin import MemberToRemove
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

from notifier.adapters.kafka.access import Access, translated
from notifier.domain.errors import LogUnavailable
from notifier.ports.log import Logged, Record

LOGGER = logging.getLogger("notifier.kafka")

LEASE = timedelta(seconds=5)
"""A member that gives no sign of life for so long is replaced."""
OWNS_NOTHING = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)
"""A commit that comes too late. What it was for is read and done again, by us or by somebody else."""

JOINS_AFTER = 15.0
"""Seconds; a client that is no member by then is thrown away, for one that has wedged never will be."""
TO_JOIN, TO_READ = 1_000, 100
"""Milliseconds, the least of a poll: with shorter ones the library never gets through joining a group."""
AT_ONCE = 1_000
"""Records of one read, of all partitions."""
BYTES = 262_144
"""Of one partition that are fetched at once: what is behind it waits, and a read is for all of them."""
MOST_AWAY = timedelta(minutes=1)
"""Between two polls; who takes longer over a batch, or waits for a store, leaves the group to the others."""


class KafkaReader:
    def __init__(self, access: Access, stream: str, group: str, owner: str) -> None:
        self._access = access
        self._stream, self._group, self._owner = stream, group, access.instance or owner
        self._consumer: KafkaConsumer | None = None
        self._made_at = 0.0
        self._joined = False
        self._fenced = False
        self._ahead: dict[int, deque[Logged]] = {}
        """Read and not yet asked for, by partition; the one that comes first next time stands first."""
        self._committed: dict[int, int | None] = {}
        """Of partitions held: the offset that is read next after a restart; None: not asked for yet."""

    def poll(self, limit: int, wait: timedelta) -> Sequence[Logged]:
        # Also who wants nothing reads: never to poll is to leave the group, and a paused partition stalls for good.
        if not self._ahead or limit == 0:
            for logged in self._read(wait):
                self._ahead.setdefault(_number(logged.partition), deque()).append(logged)
        return [self._next() for _ in range(min(limit, sum(map(len, self._ahead.values()))))]

    def commit(self, positions: Mapping[str, int]) -> None:
        offsets = {
            TopicPartition(self._topic, number): OffsetAndMetadata(offset + 1, "", -1)
            for number, offset in ((_number(partition), offset) for partition, offset in positions.items())
            if number in self._committed and offset + 1 > (self._committed[number] or 0)
        }
        if self._consumer is None or not offsets:
            return
        try:
            with translated("A commit was not taken"):
                self._consumer.commit(offsets)
        except LogUnavailable as error:
            if isinstance(error.__cause__, OWNS_NOTHING):
                LOGGER.info("%s of %s came too late with a commit", self._owner, self._group)
                return
            raise
        self._committed |= {place.partition: at.offset for place, at in offsets.items()}

    def lag(self) -> int:
        if self._consumer is None or not self._committed:
            return 0
        places = [TopicPartition(self._topic, number) for number in self._committed]
        with translated("The ends of the partitions aren't known"):
            ends = self._consumer.end_offsets(places)
            for place in places:
                if self._committed[place.partition] is None:
                    self._committed[place.partition] = self._consumer.committed(place) or 0
        return sum(int(end) - (self._committed[place.partition] or 0) for place, end in ends.items())

    def close(self) -> None:
        consumer, self._consumer, self._joined = self._consumer, None, False
        self._forget()
        if consumer is not None:
            with suppress(KafkaError):  # else its lease ends by itself
                self._leave(consumer)
            consumer.close(autocommit=False)

    def _leave(self, consumer: KafkaConsumer) -> None:
        """The library's close keeps a named member's place for the one that comes back. By both names: whoever has
        this one's place by now keeps it."""
        me = consumer.group_metadata().member_id
        if me:
            admin = KafkaAdminClient(**self._access.admin())
            try:
                group = self._access.group(self._stream, self._group)
                admin.remove_group_members(group, [MemberToRemove(member_id=me, group_instance_id=self._owner)])
            finally:
                admin.close()

    @property
    def _topic(self) -> str:
        return self._access.topic(self._stream)

    def _next(self) -> Logged:
        """Of each partition in turn: the library gives all that it has of one before it comes to another."""
        number = next(iter(self._ahead))
        records = self._ahead.pop(number)
        found = records.popleft()
        if records:
            self._ahead[number] = records
        return found

    def _read(self, wait: timedelta) -> list[Logged]:
        consumer = self._member()
        least = TO_READ if self._joined else TO_JOIN
        try:
            with translated("The log can't be read"):
                found = consumer.poll(timeout_ms=max(least, wait // timedelta(milliseconds=1)), max_records=AT_ONCE)
        except LogUnavailable as error:
            if isinstance(error.__cause__, FencedInstanceIdError):
                self._fence()
            raise
        return [self._logged(one) for records in found.values() for one in records]

    def _member(self) -> KafkaConsumer:
        """The client; another one when this one hasn't become a member in time."""
        if self._fenced:
            raise LogUnavailable(f"Another process reads {self._stream} under the name {self._owner}.")
        if self._consumer is not None and not self._joined and monotonic() - self._made_at > JOINS_AFTER:
            LOGGER.warning("%s has not joined %s for %g s: it starts anew", self._owner, self._group, JOINS_AFTER)
            self.close()
        if self._consumer is None:
            self._consumer, self._made_at = self._made(), monotonic()
        return self._consumer

    def _made(self) -> KafkaConsumer:
        with translated("The log can't be reached"):
            consumer = KafkaConsumer(
                **self._access.options(),
                group_id=self._access.group(self._stream, self._group),
                # By its name: who is started again within the lease takes its own place at once.
                group_instance_id=self._owner,
                session_timeout_ms=LEASE // timedelta(milliseconds=1),
                heartbeat_interval_ms=LEASE // timedelta(milliseconds=5),
                max_poll_interval_ms=MOST_AWAY // timedelta(milliseconds=1),
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                fetch_max_wait_ms=100,
                max_partition_fetch_bytes=BYTES,
                # New partitions are read within seconds.
                metadata_max_age_ms=5_000,
            )
            consumer.subscribe([self._topic], listener=_Listener(self))
        return consumer

    def _fence(self) -> None:
        """Not again under this name: that would throw out whoever has it now."""
        self._fenced = True
        self.close()

    def _forget(self) -> None:
        self._ahead.clear()
        self._committed.clear()

    async def gained(self, numbers: Iterable[int]) -> None:
        assert self._consumer is not None
        self._joined = True
        for number in numbers:
            self._committed[number] = None

    async def lost(self) -> None:
        """All of them, at each change of the group: who keeps one reads it again from behind the commit."""
        self._forget()

    def _logged(self, one: Any) -> Logged:
        record = Record(stream=self._stream, key=one.key.decode(), value=one.value)
        return Logged(partition=f"{self._stream}/{one.partition}", offset=one.offset, record=record)


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """Asynchronous: one that isn't may not even commit."""

    def __init__(self, reader: KafkaReader) -> None:
        self._reader = reader

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        await self._reader.lost()

    async def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        await self._reader.lost()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        await self._reader.gained([place.partition for place in assigned])


def _number(partition: str) -> int:
    return int(partition.rpartition("/")[2])
