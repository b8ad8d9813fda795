"""Kafka producer that appends records and waits for enough replicas."""

from collections.abc import Sequence
from datetime import timedelta
from threading import BoundedSemaphore, Event, Lock
from time import monotonic

from kafka import KafkaProducer

from notifier.adapters.kafka.connection import APPEND_TIMEOUT, METADATA_MAX_AGE, Access, translate, translated
from notifier.adapters.kafka.workarounds import PRODUCER_OPTIONS, create_producer
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log import Record

MAX_IN_FLIGHT = 5_000
"""Limit for unacknowledged records of all threads. The library's own `buffer_memory` limits nothing."""
CHUNK = 1_000
"""Records that share one deadline. Events that name a hundred accounts each become tens of thousands of records."""
BATCH_BYTES = 131_072
"""Batch size in bytes. The default of 16 kB halves the number of records sent per second."""
CLOSE_TIMEOUT = 1.0
"""Timeout of a close in seconds."""

TIMEOUT = APPEND_TIMEOUT.total_seconds()


class LogProducer:
    """Thread-safe producer. Records of one key keep their order, even if a batch is retried."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = Lock()
        self._client: KafkaProducer | None = None
        self._in_flight = BoundedSemaphore(MAX_IN_FLIGHT)

    def append(self, records: Sequence[Record]) -> None:
        """Append the records. Raises LogUnavailable, and Poison for a record that is too large."""
        for start in range(0, len(records), CHUNK):
            self._append(records[start : start + CHUNK])

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close(timeout=CLOSE_TIMEOUT)
                self._client = None

    def _append(self, records: Sequence[Record]) -> None:
        deadline = monotonic() + TIMEOUT
        acknowledgements = _Acknowledgements(len(records))
        for record in records:
            if not self._in_flight.acquire(timeout=max(0.0, deadline - monotonic())):
                raise LogUnavailable(f"{MAX_IN_FLIGHT} records are waiting for acknowledgement.")
            self._send(record, acknowledgements)
        acknowledgements.wait(deadline)

    def _send(self, record: Record, acknowledgements: "_Acknowledgements") -> None:
        def acknowledge(error: BaseException | None) -> None:
            self._in_flight.release()
            acknowledgements.add(error)

        topic = self._access.topic(record.stream)
        try:
            with translated("Sending a record failed"):
                future = self._connected().send(topic, value=record.value, key=record.key.encode())
        except BaseException:
            self._in_flight.release()
            raise
        future.add_callback(lambda _: acknowledge(None))
        future.add_errback(acknowledge)

    def _connected(self) -> KafkaProducer:
        """Return the client. It is created on first use, because its threads would not survive a fork.

        A thread waits at most half of the append timeout for another thread that is creating the client. Raises
        LogUnavailable after that.
        """
        if not self._lock.acquire(timeout=TIMEOUT / 2):
            raise LogUnavailable("Not connected to any broker yet.")
        try:
            if self._client is None:
                self._client = create_producer(
                    **self._access.options(),
                    **PRODUCER_OPTIONS,
                    acks="all",
                    metadata_max_age_ms=METADATA_MAX_AGE // timedelta(milliseconds=1),
                    batch_size=BATCH_BYTES,
                    linger_ms=1,
                    max_block_ms=int(TIMEOUT * 500),
                    delivery_timeout_ms=int(TIMEOUT * 1_000),
                )
            return self._client
        finally:
            self._lock.release()


class _Acknowledgements:
    """Counts the acknowledgements of one append and keeps its first error."""

    def __init__(self, records: int) -> None:
        self._lock = Lock()
        self._missing = records
        self._error: BaseException | None = None
        self._decided = Event()

    def add(self, error: BaseException | None) -> None:
        with self._lock:
            self._missing -= 1
            self._error = self._error or error
            if error is not None or self._missing == 0:
                self._decided.set()

    def wait(self, deadline: float) -> None:
        if self._missing and not self._decided.wait(max(0.001, deadline - monotonic())):
            raise LogUnavailable(f"No acknowledgement within {TIMEOUT:g} s.")
        if self._error is not None:
            raise translate(self._error, "Writing a record failed") from self._error
