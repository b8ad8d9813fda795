"""Append records to Kafka, and wait until all in-sync replicas have them."""

from collections.abc import Sequence
from datetime import timedelta
from threading import BoundedSemaphore, Event, Lock
from time import monotonic

from kafka import KafkaProducer

from notifier.adapters.kafka.connection_options_and_errors import (
    APPEND_TIMEOUT,
    METADATA_MAX_AGE,
    Access,
    translate,
    translated,
)
from notifier.adapters.kafka.workarounds import PRODUCER_OPTIONS, create_producer, ensure_metadata_refresh
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log_and_dead_letters import Record

MAX_IN_FLIGHT = 5_000
"""Limit for unacknowledged records of all threads. The library has no limit of its own."""
RECORDS_PER_DEADLINE = 1_000
"""Maximum number of records that share one deadline; a larger append is split.

A batch of events can become tens of thousands of records.
"""
BATCH_BYTES = 131_072
"""Batch size. With the default of 16 kB half as many records are sent per second."""
CLOSE_TIMEOUT = 1.0
"""Timeout of a close in seconds."""

APPEND_SECONDS = APPEND_TIMEOUT.total_seconds()


class LogProducer:
    """Thread-safe producer. Records of one key keep their order, even if a batch is retried."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = Lock()
        self._client: KafkaProducer | None = None
        self._in_flight = BoundedSemaphore(MAX_IN_FLIGHT)

    def append(self, records: Sequence[Record]) -> None:
        """Append the records. Raises LogUnavailable, and Poison for a record that is too large."""
        for start in range(0, len(records), RECORDS_PER_DEADLINE):
            self._append(records[start : start + RECORDS_PER_DEADLINE])

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close(timeout=CLOSE_TIMEOUT)
                self._client = None

    def _append(self, records: Sequence[Record]) -> None:
        deadline = monotonic() + APPEND_SECONDS
        acknowledgements = _Acknowledgements(len(records))
        with translated("Sending a record failed"):
            client = self._get_client()
        for record in records:
            if not self._in_flight.acquire(timeout=max(0.0, deadline - monotonic())):
                raise LogUnavailable(f"{MAX_IN_FLIGHT} records are waiting for acknowledgement.")
            self._send(client, record, acknowledgements)
        acknowledgements.wait(deadline)

    def _send(self, client: KafkaProducer, record: Record, acknowledgements: "_Acknowledgements") -> None:
        def acknowledge(error: BaseException | None) -> None:
            self._in_flight.release()
            acknowledgements.add(error)

        topic = self._access.topic(record.stream)
        try:
            with translated("Sending a record failed"):
                future = client.send(topic, value=record.value, key=record.key.encode())
        except BaseException:
            self._in_flight.release()
            raise
        future.add_callback(lambda _: acknowledge(None))
        future.add_errback(acknowledge)

    def _get_client(self) -> KafkaProducer:
        """Return the client. It is created on first use, because its threads would not survive a fork.

        Raises the library's KafkaError, and LogUnavailable if another thread takes too long to create the client.
        """
        if not self._lock.acquire(timeout=APPEND_SECONDS / 2):
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
                    max_block_ms=int(APPEND_SECONDS * 500),  # half of the time limit
                    delivery_timeout_ms=int(APPEND_SECONDS * 1_000),
                )
            ensure_metadata_refresh(self._client)
            return self._client
        finally:
            self._lock.release()


class _Acknowledgements:
    """Counter of the acknowledgements of one append. It keeps the first error."""

    def __init__(self, count: int) -> None:
        self._lock = Lock()
        self._outstanding_count = count
        self._error: BaseException | None = None
        self._is_decided = Event()

    def add(self, error: BaseException | None) -> None:
        with self._lock:
            self._outstanding_count -= 1
            self._error = self._error or error
            if error is not None or self._outstanding_count == 0:
                self._is_decided.set()

    def wait(self, deadline: float) -> None:
        if self._outstanding_count and not self._is_decided.wait(max(0.001, deadline - monotonic())):
            raise LogUnavailable(f"No acknowledgement within {APPEND_SECONDS:g} s.")
        if self._error is not None:
            raise translate(self._error, "Writing a record failed") from self._error
