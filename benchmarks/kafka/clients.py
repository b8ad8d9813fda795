"""Two clients for the same records: the event log port, and a kafka-python loop."""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from notifier.adapters.kafka import Access, KafkaLog
from notifier.ports.event_log_and_dead_letters import Record

RECORDS_PER_APPEND = 1_000
"""Records per append of our client."""
RECORDS_PER_POLL = 500
"""Records per poll."""
BATCH_BYTES = 131_072
POLL_TIMEOUT = timedelta(seconds=1)


class LogClient(Protocol):
    @property
    def name(self) -> str: ...

    def write(self, records: Sequence[Record]) -> None:
        """Write the records. All replicas have acknowledged them when it returns."""
        ...

    def read(self, stream: str, group: str) -> Generator[int, None, None]:
        """Read from the beginning. Yield the number of records of each poll."""
        ...


@dataclass(frozen=True, slots=True)
class PortClient:
    """The event log as router and pump use it: appends wait for acknowledgement, polls are committed."""

    access: Access
    log: KafkaLog
    name: str = "ours"

    def write(self, records: Sequence[Record]) -> None:
        for at in range(0, len(records), RECORDS_PER_APPEND):
            self.log.append(records[at : at + RECORDS_PER_APPEND])

    def read(self, stream: str, group: str) -> Generator[int, None, None]:
        with closing(self.log.subscribe(stream, group, group)) as consumer:
            while True:
                records = consumer.poll(RECORDS_PER_POLL, POLL_TIMEOUT)
                if records:
                    consumer.commit({logged.partition: logged.offset for logged in records})
                yield len(records)


class LeanestClient:
    """A loop with kafka-python, without groups, commits or error handling."""

    name = "lean"

    def __init__(self, access: Access) -> None:
        self._access = access
        self._producer = KafkaProducer(
            bootstrap_servers=access.servers, acks="all", enable_idempotence=False, batch_size=BATCH_BYTES, linger_ms=1
        )

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            self._producer.send(self._access.topic(record.stream), value=record.value, key=record.key.encode())
        self._producer.flush()

    def read(self, stream: str, group: str) -> Generator[int, None, None]:
        topic = self._access.topic(stream)
        consumer = KafkaConsumer(bootstrap_servers=self._access.servers, enable_auto_commit=False)
        with closing(consumer):
            places = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            while True:
                yield sum(map(len, consumer.poll(timeout_ms=1_000, max_records=RECORDS_PER_POLL).values()))

    def close(self) -> None:
        self._producer.close()
