"""The event log on Kafka: appends that are on most replicas before they return."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import Any

from kafka import KafkaProducer

from notifier.adapters.kafka.access import Access, translated
from notifier.adapters.kafka.reader import KafkaReader
from notifier.adapters.kafka.waiting import Waiting
from notifier.domain.errors import LogUnavailable
from notifier.ports.log import Consumer, Logged, Record

ANSWERS_WITHIN = 3.0
"""Seconds of one append: the tweet service tries again, and nobody is held up for longer."""
MOST_IN_FLIGHT = 5_000
"""Records that are sent and not answered, of all threads: the library's own bound on memory doesn't hold without
idempotence."""
BATCH = 131_072
"""Bytes: with the library's 16 kB half as many records a second."""


class KafkaLog:
    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = Lock()
        self._made: KafkaProducer | None = None
        self._room = BoundedSemaphore(MOST_IN_FLIGHT)

    def append(self, records: Sequence[Record]) -> None:
        deadline = monotonic() + ANSWERS_WITHIN
        sent = []
        try:
            for record in records:
                self._take_room(deadline)
                sent.append(self._send(record))
            for one in sent:
                with translated("A record was not written"):
                    one.get(timeout=max(0.001, deadline - monotonic()))
        except TimeoutError as error:
            raise LogUnavailable(f"No answer within {ANSWERS_WITHIN:g} s.") from error

    def subscribe(self, stream: str, group: str, owner: str) -> Consumer:
        return KafkaReader(self._access, stream, group, owner)

    def waiting(self, stream: str, group: str, limit: int) -> Iterator[Logged]:
        return Waiting(self._access, stream, group).records(limit)

    def forget(self, before: datetime) -> int:
        """The topics' retention does it."""
        return 0

    def close(self) -> None:
        with self._lock:
            if self._made is not None:
                self._made.close(timeout=1.0)
                self._made = None

    def _take_room(self, deadline: float) -> None:
        if not self._room.acquire(timeout=max(0.0, deadline - monotonic())):
            raise TimeoutError

    def _send(self, record: Record) -> Any:
        try:
            with translated("A record was not sent"):
                topic = self._access.topic(record.stream)
                future = self._producer().send(topic, value=record.value, key=record.key.encode())
        except BaseException:
            self._room.release()
            raise
        future.add_both(self._release)
        return future

    @property
    def _release(self) -> Callable[[object], None]:
        return lambda _: self._room.release()

    def _producer(self) -> KafkaProducer:
        """Made by the process that sends, at its first record."""
        with self._lock:
            if self._made is None:
                self._made = KafkaProducer(
                    **self._access.options(),
                    acks="all",
                    # With it the producer hangs for good once a batch was too old when its broker came back. Nothing
                    # is lost without: a record that was written twice is known by its event's id.
                    enable_idempotence=False,
                    # With more than one a batch that is tried again comes behind its successor.
                    max_in_flight_requests_per_connection=1,
                    batch_size=BATCH,
                    linger_ms=1,
                    max_block_ms=int(ANSWERS_WITHIN * 500),
                    delivery_timeout_ms=int(ANSWERS_WITHIN * 1_000),
                )
            return self._made
