"""The log by kafka-python: its client in Python, with its traps avoided."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from threading import Lock
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.errors import (
    CommitFailedError,
    CorruptRecordError,
    FencedInstanceIdError,
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnsupportedCodecError,
)

from notifier.adapters.kafka.client import (
    ANSWERS_WITHIN,
    AT_ONCE,
    BATCH,
    BYTES,
    KNOWN_WITHIN,
    MOST_AWAY,
    Answered,
    Changes,
    Fenced,
    TooLate,
    Unreadable,
)
from notifier.adapters.kafka.config import Access, translated
from notifier.adapters.kafka.consumer import logged
from notifier.adapters.kafka.partition_growth import begun
from notifier.adapters.kafka.python_client_patches import leave, made, unread
from notifier.adapters.kafka.topics import shortened
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log import Logged, Record

OWNS_NOTHING = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)
UNREADABLE = (CorruptRecordError, UnsupportedCodecError)
TO_JOIN, TO_READ = timedelta(seconds=1), timedelta(seconds=0.1)
"""The least of a poll: with shorter ones the library never gets through joining a group, the first time or again."""
ASKS_WITHIN = 2_000
"""Milliseconds of a question about offsets."""


def ms(time: timedelta) -> int:
    return time // timedelta(milliseconds=1)


class PythonSender:
    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = Lock()
        self._made: KafkaProducer | None = None

    def send(self, record: Record, answered: Answered) -> None:
        with translated("A record was not sent"):
            topic = self._access.topic(record.stream)
            future = self._producer().send(topic, value=record.value, key=record.key.encode())
        future.add_callback(lambda _: answered(None))
        future.add_errback(lambda error: answered(type(error).__name__))

    def close(self) -> None:
        with self._lock:
            if self._made is not None:
                self._made.close(timeout=1.0)
                self._made = None

    def _producer(self) -> KafkaProducer:
        """Made by the process that sends, at its first record. Who waits for another thread to make it waits no longer
        than for an answer."""
        if not self._lock.acquire(timeout=ANSWERS_WITHIN / 2):
            raise LogUnavailable("No broker was found yet.")
        try:
            if self._made is None:
                self._made = made(
                    KafkaProducer,
                    **self._access.options(),
                    acks="all",
                    # With it the producer hangs for good once a batch was too old when its broker came back. Nothing
                    # is lost without: a record that was written twice is known by its event's id.
                    enable_idempotence=False,
                    # With more than one a batch that is tried again comes behind its successor.
                    max_in_flight_requests_per_connection=1,
                    metadata_max_age_ms=ms(KNOWN_WITHIN),
                    batch_size=BATCH,
                    linger_ms=1,
                    max_block_ms=int(ANSWERS_WITHIN * 500),
                    delivery_timeout_ms=int(ANSWERS_WITHIN * 1_000),
                )
            return self._made
        finally:
            self._lock.release()


class PythonMembership:
    def __init__(self, access: Access, stream: str, group: str, name: str, changes: Changes) -> None:
        self._access, self._stream, self._name = access, stream, name
        self._topic, self._group = access.topic(stream), access.group(stream, group)
        self._listener = _Listener(changes, self._rejoin)
        with translated("The log can't be reached"):
            self._consumer = self._made()
            self._consumer.subscribe([self._topic], listener=self._listener)

    def poll(self, wait: timedelta) -> Sequence[Logged]:
        least = TO_READ if self._listener.joined else TO_JOIN
        self._go_back()  # first: were it to fail behind the read, what was read of other partitions would be lost
        try:
            with translated("The log can't be read"):
                found = self._consumer.poll(timeout_ms=ms(max(least, wait)), max_records=AT_ONCE)
        except LogUnavailable as error:
            _fence(error)
            if isinstance(error.__cause__, UNREADABLE):  # its next poll would never return
                raise Unreadable(type(error.__cause__).__name__) from error
            raise
        kept = self._listener.kept
        return [self._logged(one) for at, records in found.items() if at.partition not in kept for one in records]

    def commit(self, offsets: Mapping[int, int]) -> None:
        places = {place: OffsetAndMetadata(offsets[place.partition], "", -1) for place in self._places(offsets)}
        try:
            with translated("A commit was not taken"):
                self._consumer.commit(places)
        except LogUnavailable as error:
            if isinstance(error.__cause__, OWNS_NOTHING):
                raise TooLate from error
            _fence(error)
            raise

    def commits(self) -> Mapping[int, int | None]:
        with translated("The group's commits aren't known"):
            # Who is assigned a new partition may know of it before the library's list does.
            assigned = {place.partition for place in self._consumer.assignment()}
            numbers = sorted(assigned | set(self._consumer.partitions_for_topic(self._topic)))
            found = self._asked(numbers)
            # One question after the other: who began in between gave a commit to all, those included that had none when
            # they were asked, be it the first time or again.
            while (again := self._asked([number for number, at in found.items() if at is None])) and begun(again):
                found |= again
            return found

    def _asked(self, numbers: Iterable[int]) -> dict[int, int | None]:
        places = self._places(numbers)
        return {place.partition: self._consumer.committed(place, timeout_ms=ASKS_WITHIN) for place in places}

    def bounds(self, numbers: Iterable[int]) -> Mapping[int, tuple[int, int]]:
        places = self._places(numbers)
        with translated("The ends of the partitions aren't known"):
            firsts, ends = self._consumer.beginning_offsets(places), self._consumer.end_offsets(places)
        return {place.partition: (int(firsts[place]), int(ends[place])) for place in places}

    def life(self) -> str:
        # No method tells it; whoever fetches by a topic's id, as the library does, has it here.
        found = self._consumer._cluster.topic_id(self._topic)
        return shortened(found) if found else ""

    def unread(self) -> bool:
        return unread(self._access, self._topic, self._group)

    def seek(self, number: int, offset: int) -> None:
        with translated("A partition can't be read from there"):
            self._consumer.seek(TopicPartition(self._topic, number), offset)

    def close(self) -> None:
        with suppress(KafkaError):
            leave(self._access, self._group, self._consumer.group_metadata().member_id, self._name)
        self._consumer.close(autocommit=False)

    def _rejoin(self) -> None:
        """Who leads a group shares anew where its topic grew, and forgets why as soon as it has a plan. Were a poll to
        end before that is confirmed, no other would go on with it: the member would neither read nor live. No method
        says it."""
        self._consumer._coordinator.request_rejoin()

    def _go_back(self) -> None:
        """With a partition that stays here when its group shares anew, the library goes on behind all that it gave out,
        though what nobody had taken yet was thrown away, as with those that go elsewhere."""
        for place in self._places(self._listener.kept):
            with translated("Where the group stands isn't known"):
                at = self._consumer.committed(place, timeout_ms=ASKS_WITHIN)
                if at is None:
                    self._consumer.seek_to_beginning(place)
                else:
                    self._consumer.seek(place, at)
            self._listener.kept.discard(place.partition)

    def _places(self, numbers: Iterable[int]) -> Collection[TopicPartition]:
        return [TopicPartition(self._topic, number) for number in numbers]

    def _made(self) -> KafkaConsumer:
        return made(
            KafkaConsumer,
            **self._access.options(),
            group_id=self._group,
            # By its name: who is started again within the lease takes its own place at once.
            group_instance_id=self._name,
            session_timeout_ms=ms(self._access.lease),
            heartbeat_interval_ms=ms(self._access.lease / 5),
            max_poll_interval_ms=ms(MOST_AWAY),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=250,
            max_partition_fetch_bytes=BYTES,
            metadata_max_age_ms=ms(KNOWN_WITHIN),
        )

    def _logged(self, one: Any) -> Logged:
        return logged(self._stream, one.partition, one.offset, key=one.key, value=one.value)


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """Asynchronous: one that isn't may not even commit."""

    def __init__(self, changes: Changes, rejoin: Callable[[], None]) -> None:
        self._changes, self._rejoin = changes, rejoin
        self._had: set[int] = set()
        self.joined = False
        self.kept: set[int] = set()
        """Ours before the group shared anew, and again."""

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._had |= {place.partition for place in revoked}
        self.joined = False
        self._rejoin()
        self._changes.lost()

    async def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._had.clear()
        self.joined = False
        self._changes.lost()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.joined = True
        numbers = {place.partition for place in assigned}
        self.kept, self._had = (self.kept | self._had) & numbers, set()
        self._changes.gained(numbers)


def _fence(error: LogUnavailable) -> None:
    if isinstance(error.__cause__, FencedInstanceIdError):
        raise Fenced from error


sender, membership = PythonSender, PythonMembership
