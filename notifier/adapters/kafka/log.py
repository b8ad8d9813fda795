"""Event log on Kafka: appends, subscriptions and reads of uncommitted records."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from time import monotonic

from kafka import KafkaConsumer, TopicPartition

from notifier.adapters.kafka.connection import Access, translated
from notifier.adapters.kafka.consumer import KafkaLogConsumer
from notifier.adapters.kafka.membership import ConsumerGroup
from notifier.adapters.kafka.producer import LogProducer
from notifier.adapters.kafka.topics import short_id, to_logged, with_incarnation
from notifier.adapters.kafka.workarounds import topic_id
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log import Consumer, Logged, Record

MAX_POLL_RECORDS = 100
POLL_TIMEOUT_MS = 1_000
MAX_FETCH_BYTES = 262_144
SILENCE_TIMEOUT = 5.0
"""Seconds of empty polls although records exist: the broker is unavailable, or the topic was recreated."""


class KafkaLog:
    """Event log on Kafka. An append returns when enough replicas have the records."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._producer = LogProducer(access)

    def append(self, records: Sequence[Record]) -> None:
        self._producer.append(records)

    def subscribe(self, stream: str, group: str, owner: str) -> Consumer:
        instance_id = self._access.instance or owner
        return KafkaLogConsumer(ConsumerGroup(access=self._access, stream=stream, name=group, instance_id=instance_id))

    def read_uncommitted(self, stream: str, group: str, limit: int) -> Iterator[Logged]:
        return _UncommittedRecords(self._access, stream, group).read(limit)

    def drop_committed(self, before: datetime) -> int:
        """Do nothing: the retention of the topics deletes old records."""
        return 0

    def close(self) -> None:
        self._producer.close()


class _UncommittedRecords:
    """Reads a group's uncommitted records without joining the group, with few records in memory."""

    def __init__(self, access: Access, stream: str, group: str) -> None:
        self._access, self._stream = access, stream
        self._topic, self._group = access.topic(stream), access.group(stream, group)

    def read(self, limit: int) -> Iterator[Logged]:
        """Yield at most `limit` records. Raises LogUnavailable, also between records."""
        with translated("Reading the waiting records failed"):
            client = KafkaConsumer(
                **self._access.options(),
                # Only to read the group's commits: a consumer with assigned partitions does not join.
                group_id=self._group,
                enable_auto_commit=False,
                max_partition_fetch_bytes=MAX_FETCH_BYTES,
                fetch_max_bytes=MAX_FETCH_BYTES,
            )
            try:
                yield from self._read(client, limit)
            finally:
                client.close(autocommit=False)

    def _read(self, client: KafkaConsumer, limit: int) -> Iterator[Logged]:
        ends = self._seek_to_commits(client)
        # Use the metadata just received: an admin client for this request would cost half a megabyte.
        incarnation = short_id(topic_id(client, self._topic))
        silent = 0.0
        while ends and limit > 0:
            began = monotonic()
            batches = client.poll(timeout_ms=POLL_TIMEOUT_MS, max_records=min(limit, MAX_POLL_RECORDS))
            silent = 0.0 if batches else silent + monotonic() - began
            if silent > SILENCE_TIMEOUT:
                raise LogUnavailable("Reading the waiting records failed: no records arrive.")
            for tp, records in batches.items():
                for record in records:
                    if tp in ends and record.offset < ends[tp]:
                        limit -= 1
                        yield with_incarnation(to_logged(self._stream, record), incarnation)
            for tp in [tp for tp, end in ends.items() if client.position(tp) >= end]:
                del ends[tp]

    def _seek_to_commits(self, client: KafkaConsumer) -> dict[TopicPartition, int]:
        """Seek each partition to its commit. Return the end offsets of partitions with uncommitted records."""
        tps = [TopicPartition(self._topic, number) for number in sorted(client.partitions_for_topic(self._topic) or ())]
        client.assign(tps)
        ends, first = client.end_offsets(tps), client.beginning_offsets(tps)
        starts = {tp: max(client.committed(tp, timeout_ms=POLL_TIMEOUT_MS) or 0, first[tp]) for tp in tps}
        for tp, start in starts.items():
            client.seek(tp, start)
        return {tp: ends[tp] for tp in tps if starts[tp] < ends[tp]}
