"""Event log backends: two with a manual clock, and Kafka with consumer processes."""

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
from notifier.adapters.kafka.connection_options_and_errors import LEASE
from notifier.ports.event_log_and_dead_letters import Consumer, EventLog
from notifier.topics import PARTITION_COUNTS
from tests.contracts.consumer_forks import start_consumer
from tests.contracts.consumer_process import ConsumerProcess
from tests.support.fakes.clock_and_nonces import ManualClock

AGREE_WITHIN = 30.0
"""Seconds, on a busy machine."""


class Logs(Protocol):
    """A log, and control over time and consumers for its tests."""

    @property
    def log(self) -> EventLog: ...

    @property
    def patience(self) -> timedelta:
        """Longest time in which a poll returns records that are already there."""
        ...

    @property
    def slack(self) -> timedelta:
        """Interval before the end of a lease in which its state is not checked."""
        ...

    @property
    def early_by(self) -> timedelta:
        """A lease may end this much earlier than expected.

        The lease starts at the last heartbeat that the suspended consumer sent.
        """
        ...

    def now(self) -> timedelta: ...

    def subscribe(self, stream: str, group: str, owner: str) -> Consumer: ...

    def advance(self, time: timedelta) -> None: ...

    @property
    def empty_polls(self) -> int:
        """Number of empty polls after all due records that proves that no more will come."""
        ...

    def wait_until_assigned(self, consumers: Sequence[Consumer]) -> None:
        """Poll the consumers until all agree on the assignment of partitions."""
        ...

    def suspend(self, consumer: Consumer) -> None:
        """Suspend the consumer: it neither polls nor sends heartbeats."""
        ...

    def resume(self, consumer: Consumer) -> None: ...


@dataclass(slots=True)
class ManualLogs:
    log: EventLog
    clock: ManualClock
    patience: timedelta = timedelta(0)
    slack: timedelta = timedelta(milliseconds=1)
    early_by: timedelta = timedelta(0)
    empty_polls: int = 1

    def subscribe(self, stream: str, group: str, owner: str) -> Consumer:
        return self.log.subscribe(stream, group, owner)

    def now(self) -> timedelta:
        return self.clock.now() - datetime.min.replace(tzinfo=UTC)

    def advance(self, time: timedelta) -> None:
        self.clock.advance(time)

    def wait_until_assigned(self, consumers: Sequence[Consumer]) -> None:
        """Let each consumer poll while two renewals are due."""
        for _ in range(8):
            self.advance(LEASE / 10)
            for consumer in consumers:
                consumer.poll(0, timedelta(0))

    def suspend(self, consumer: Consumer) -> None:
        """Nothing to do: a consumer that isn't polled does nothing."""

    def resume(self, consumer: Consumer) -> None:
        """Nothing to do."""


@dataclass(slots=True)
class KafkaLogs:
    log: KafkaLog
    access: Access
    patience: timedelta = timedelta(seconds=15)
    slack: timedelta = timedelta(seconds=4.5)
    early_by: timedelta = LEASE / 5
    empty_polls: int = 4
    """Records of one partition may arrive a moment after those of the others."""
    consumers: list[ConsumerProcess] = field(default_factory=list)

    def subscribe(self, stream: str, group: str, owner: str) -> Consumer:
        self.consumers.append(start_consumer(self.access, stream, group, owner))
        return self.consumers[-1]

    def now(self) -> timedelta:
        return timedelta(seconds=time.monotonic())

    def advance(self, duration: timedelta) -> None:
        time.sleep(duration.total_seconds())

    def wait_until_assigned(self, consumers: Sequence[Consumer]) -> None:
        deadline = time.monotonic() + AGREE_WITHIN
        agreed = 0
        # Require agreement twice. A consumer that only now learns of the topic starts a rebalance, and waits alone in
        # it while no other consumer is polled.
        while agreed < 2:
            assert time.monotonic() < deadline, "the consumers did not agree on an assignment"
            poll_concurrently(consumers)
            agreed = agreed + 1 if self._agreed(len(consumers)) else 0
        poll_concurrently(consumers)

    def _agreed(self, consumer_count: int) -> bool:
        """Return whether every partition is assigned, with this many members in the only group."""
        [group] = {consumer.group for consumer in self.consumers}
        with closing(KafkaAdminClient(**self.access.admin_options())) as admin:
            description = admin.describe_groups([group])[group]
        return description["group_state"] == "Stable" and len(description["members"]) == consumer_count

    def suspend(self, consumer: Consumer) -> None:
        assert isinstance(consumer, ConsumerProcess)
        consumer.suspend()

    def resume(self, consumer: Consumer) -> None:
        assert isinstance(consumer, ConsumerProcess)
        consumer.resume()


def poll_concurrently(consumers: Sequence[Consumer]) -> None:
    """Poll all consumers at the same time: until a group has agreed, each of its members must be present."""
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda consumer: consumer.poll(0, timedelta(0)), consumers))


@contextmanager
def in_kafka(servers: str) -> Iterator[KafkaLogs]:
    """Yield logs with topics of their own."""
    access = Access(servers=servers, prefix=f"t{uuid4().hex[:8]}.")
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic(access.topic(stream), number, 1) for stream, number in PARTITION_COUNTS.items()])
    admin.close()
    with closing(KafkaConsumer(bootstrap_servers=servers)) as consumer:  # retries until each partition has its leader
        partitions = ((stream, n) for stream, number in PARTITION_COUNTS.items() for n in range(number))
        consumer.end_offsets([TopicPartition(access.topic(stream), n) for stream, n in partitions])
    logs = KafkaLogs(KafkaLog(access), access)
    try:
        yield logs
    finally:
        for process in logs.consumers:
            process.end()
        logs.log.close()
