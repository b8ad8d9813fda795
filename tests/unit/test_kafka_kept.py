"""What stays with a reader of Kafka while its group shares anew: read again from the commit, and nothing is lost."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from notifier.adapters.kafka.python_client import PythonMembership, _Listener
from notifier.domain.errors import LogUnavailable

KEPT, OTHER = TopicPartition("mentions", 0), TopicPartition("mentions", 1)
RECORDS = {one: [SimpleNamespace(partition=one.partition, offset=9, key=b"k", value=b"v")] for one in (KEPT, OTHER)}


class Nobody:
    def gained(self, numbers: Iterable[int]) -> None:
        """Isn't asked here."""

    def lost(self) -> None:
        """Isn't asked here."""


@dataclass(slots=True)
class Library:
    """The consumer of the library, whose group shares anew in the first poll."""

    listener: _Listener
    silent: bool = False
    polled: int = 0
    sought: list[tuple[TopicPartition, int]] = field(default_factory=list)

    def poll(self, **_: int) -> Mapping[TopicPartition, Sequence[object]]:
        self.polled += 1
        if self.polled == 1:
            asyncio.run(self.listener.on_partitions_revoked([KEPT]))
            asyncio.run(self.listener.on_partitions_assigned([KEPT, OTHER]))
        return RECORDS

    def committed(self, place: TopicPartition, timeout_ms: int) -> int:
        if self.silent:
            raise KafkaTimeoutError("nobody answers")
        return 3

    def seek(self, place: TopicPartition, offset: int) -> None:
        self.sought.append((place, offset))


def made() -> tuple[PythonMembership, Library]:
    membership = PythonMembership.__new__(PythonMembership)  # without a broker
    membership._listener = _Listener(Nobody(), lambda: None)
    membership._topic = membership._stream = "mentions"
    membership._consumer = library = Library(membership._listener)
    return membership, library


def polled(membership: PythonMembership) -> list[str]:
    return [one.partition for one in membership.poll(timedelta(0))]


def test_what_was_kept_is_read_again_from_the_commit_and_what_is_new_at_once() -> None:
    membership, library = made()
    assert polled(membership) == ["mentions/1"]
    assert polled(membership) == ["mentions/0", "mentions/1"]
    assert library.sought == [(KEPT, 3)]
    polled(membership)
    assert library.sought == [(KEPT, 3)]


def test_while_the_commit_isnt_known_nothing_is_read_that_would_be_lost() -> None:
    membership, library = made()
    polled(membership)
    library.silent = True
    for _ in range(2):
        with pytest.raises(LogUnavailable):
            polled(membership)
    assert library.polled == 1
    library.silent = False
    assert polled(membership) == ["mentions/0", "mentions/1"]
    assert library.sought == [(KEPT, 3)]
