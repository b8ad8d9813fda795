"""The event log on Kafka: appends that are on most replicas before they return."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from threading import BoundedSemaphore, Lock
from threading import Event as Signal
from time import monotonic
from typing import cast

from notifier.adapters.kafka import python_client
from notifier.adapters.kafka.client import ANSWERS_WITHIN, TOO_LARGE, Client, Sender
from notifier.adapters.kafka.config import Access
from notifier.adapters.kafka.consumer import KafkaReader
from notifier.adapters.kafka.uncommitted import Waiting
from notifier.domain.errors import LogUnavailable, Poison
from notifier.ports.event_log import Consumer, Logged, Record

MOST_IN_FLIGHT = 5_000
"""Records that are sent and not answered, of all threads: the libraries' own bounds on memory are none."""
AT_ONCE = 1_000
"""Records that share a deadline: events that name a hundred accounts each become tens of thousands."""


class KafkaLog:
    def __init__(self, access: Access) -> None:
        self._access = access
        self._client = cast(Client, python_client)
        self._lock = Lock()
        self._made: Sender | None = None
        self._room = BoundedSemaphore(MOST_IN_FLIGHT)

    def append(self, records: Sequence[Record]) -> None:
        for start in range(0, len(records), AT_ONCE):
            self._append(records[start : start + AT_ONCE])

    def _append(self, records: Sequence[Record]) -> None:
        deadline = monotonic() + ANSWERS_WITHIN
        answers = _Answers(len(records))
        for record in records:
            if not self._room.acquire(timeout=max(0.0, deadline - monotonic())):
                raise LogUnavailable(f"{MOST_IN_FLIGHT} records wait for their answers.")
            self._send(record, answers)
        answers.wait(deadline)

    def subscribe(self, stream: str, group: str, owner: str) -> Consumer:
        return KafkaReader(self._client, self._access, stream, group, owner)

    def waiting(self, stream: str, group: str, limit: int) -> Iterator[Logged]:
        return Waiting(self._access, stream, group).records(limit)

    def forget(self, before: datetime) -> int:
        """The topics' retention does it."""
        return 0

    def close(self) -> None:
        with self._lock:
            if self._made is not None:
                self._made.close()
                self._made = None

    def _send(self, record: Record, answers: "_Answers") -> None:
        def answered(error: str | None) -> None:
            self._room.release()
            answers.come(error)

        try:
            self._sender().send(record, answered)
        except BaseException:
            self._room.release()
            raise

    def _sender(self) -> Sender:
        with self._lock:
            if self._made is None:
                self._made = self._client.sender(self._access)
            return self._made


class _Answers:
    """To the records of one append."""

    def __init__(self, records: int) -> None:
        self._lock = Lock()
        self._left = records
        self._error: str | None = None
        self._all = Signal()

    def come(self, error: str | None) -> None:
        with self._lock:
            self._left -= 1
            self._error = self._error or error
            if error is not None or self._left == 0:
                self._all.set()

    def wait(self, deadline: float) -> None:
        if self._left and not self._all.wait(max(0.001, deadline - monotonic())):
            raise LogUnavailable(f"No answer within {ANSWERS_WITHIN:g} s.")
        if self._error in TOO_LARGE:
            raise Poison(f"A record is larger than the log takes: {self._error}.")
        if self._error is not None:
            raise LogUnavailable(f"A record was not written: {self._error}.")
