"""The backends of the event log: two whose time is set by hand, and Kafka, whose readers are processes in real time."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import uuid4

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewTopic

from notifier.adapters.kafka import Access, KafkaLog
from notifier.adapters.kafka.connection import LEASE
from notifier.ports.event_log import Consumer, EventLog
from notifier.topics import PARTITIONS
from tests.contracts.member import Member
from tests.contracts.members import member
from tests.support.fakes.clock import ManualClock

AGREE_WITHIN = 30.0
"""Seconds, on a busy machine."""


class Logs(Protocol):
    """A log, and what its tests can do to time and to readers."""

    @property
    def log(self) -> EventLog: ...

    @property
    def patience(self) -> timedelta:
        """How long a poll may take to find what is there."""
        ...

    @property
    def slack(self) -> timedelta:
        """So long before a lease ends it is looked whether it has."""
        ...

    @property
    def doubt(self) -> timedelta:
        """A lease may have ended so long before it seems to: it counts from the last that was heard of who sleeps."""
        ...

    def now(self) -> timedelta: ...

    def subscribe(self, stream: str, group: str, owner: str) -> Consumer: ...

    def passes(self, time: timedelta) -> None: ...

    @property
    def quiet(self) -> int:
        """So many polls without a record, behind all that was due, and there is nothing more."""
        ...

    def settle(self, readers: Sequence[Consumer]) -> None:
        """They share the partitions out until all agree who reads what."""
        ...

    def sleeps(self, reader: Consumer) -> None:
        """Neither polls nor tells that it lives."""
        ...

    def wakes(self, reader: Consumer) -> None: ...


@dataclass(slots=True)
class ByHand:
    log: EventLog
    clock: ManualClock
    patience: timedelta = timedelta(0)
    slack: timedelta = timedelta(milliseconds=1)
    doubt: timedelta = timedelta(0)
    quiet: int = 1

    def subscribe(self, stream: str, group: str, owner: str) -> Consumer:
        return self.log.subscribe(stream, group, owner)

    def now(self) -> timedelta:
        return self.clock.now() - datetime.min.replace(tzinfo=UTC)

    def passes(self, time: timedelta) -> None:
        self.clock.advance(time)

    def settle(self, readers: Sequence[Consumer]) -> None:
        """Each polls while two renewals are due."""
        for _ in range(8):
            self.passes(LEASE / 10)
            for reader in readers:
                reader.poll(0, timedelta(0))

    def sleeps(self, reader: Consumer) -> None:
        """Who isn't asked does nothing."""

    def wakes(self, reader: Consumer) -> None:
        """As before."""


@dataclass(slots=True)
class InKafka:
    log: KafkaLog
    access: Access
    patience: timedelta = timedelta(seconds=15)
    slack: timedelta = timedelta(seconds=4.5)
    doubt: timedelta = LEASE / 5
    quiet: int = 4
    """What a reader has of one partition may come a moment after what it has of the others."""
    members: list[Member] = field(default_factory=list)

    def subscribe(self, stream: str, group: str, owner: str) -> Consumer:
        self.members.append(member(self.access, stream, group, owner))
        return self.members[-1]

    def now(self) -> timedelta:
        return timedelta(seconds=time.monotonic())

    def passes(self, lasting: timedelta) -> None:
        time.sleep(lasting.total_seconds())

    def settle(self, readers: Sequence[Consumer]) -> None:
        deadline = time.monotonic() + AGREE_WITHIN
        agreed = 0
        # Twice: who learns of the topic only now has them share anew, and is alone with that where it alone is polled.
        while agreed < 2:
            assert time.monotonic() < deadline, "The readers can't agree who reads what."
            live(readers)
            agreed = agreed + 1 if self._agreed(len(readers)) else 0
        live(readers)

    def _agreed(self, readers: int) -> bool:
        """Whether every partition has its reader, with so many in the only group."""
        [group] = {member.group for member in self.members}
        with closing(KafkaAdminClient(**self.access.admin_options())) as admin:
            told = admin.describe_groups([group])[group]
        return told["group_state"] == "Stable" and len(told["members"]) == readers

    def sleeps(self, reader: Consumer) -> None:
        assert isinstance(reader, Member)
        reader.stop()

    def wakes(self, reader: Consumer) -> None:
        assert isinstance(reader, Member)
        reader.wake()


def live(readers: Sequence[Consumer]) -> None:
    """All of them at the same time: until a group has agreed, each of them must be there."""
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda reader: reader.poll(0, timedelta(0)), readers))


@contextmanager
def in_kafka(servers: str) -> Iterator[InKafka]:
    """With topics of its own."""
    access = Access(servers=servers, prefix=f"t{uuid4().hex[:8]}.")
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic(access.topic(stream), number, 1) for stream, number in PARTITIONS.items()])
    admin.close()
    with closing(KafkaConsumer(bootstrap_servers=servers)) as consumer:  # asks again until each has its leader
        consumer.end_offsets(
            [TopicPartition(access.topic(stream), n) for stream, number in PARTITIONS.items() for n in range(number)]
        )
    logs = InKafka(KafkaLog(access), access)
    try:
        yield logs
    finally:
        for one in logs.members:
            one.end()
        logs.log.close()
