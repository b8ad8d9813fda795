"""Event log on Kafka: appends, subscriptions and reads of uncommitted records."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from time import monotonic

from kafka import KafkaConsumer, TopicPartition

from notifier.adapters.kafka.connection_options_and_errors import Access, translated
from notifier.adapters.kafka.consumer import KafkaLogConsumer
from notifier.adapters.kafka.group_membership import KafkaGroupMember
from notifier.adapters.kafka.producer import LogProducer
from notifier.adapters.kafka.topics import incarnation_of, to_logged, with_incarnation
from notifier.adapters.kafka.workarounds import topic_id
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log_and_dead_letters import Consumer, Logged, Record

MAX_POLL_RECORDS = 100
POLL_TIMEOUT_MS = 1_000
COMMIT_QUERY_TIMEOUT_MS = 1_000
MAX_FETCH_BYTES = 262_144
SILENCE_TIMEOUT = 5.0
"""Seconds of empty polls after which a read of existing records fails: the topic may have been recreated."""


class KafkaLog:
    """Event log on Kafka. An append returns when all in-sync replicas have the records."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._producer = LogProducer(access)

    def append(self, records: Sequence[Record]) -> None:
        self._producer.append(records)

    def subscribe(self, stream: str, group: str, owner: str) -> Consumer:
        instance_id = self._access.instance or owner
        return KafkaLogConsumer(
            KafkaGroupMember(access=self._access, stream=stream, group=group, instance_id=instance_id)
        )

    def read_uncommitted(self, stream: str, group: str, limit: int) -> Iterator[Logged]:
        return _UncommittedReader(self._access, stream, group).read(limit)

    def drop_committed(self, before: datetime) -> int:
        """Do nothing: the retention of the topics deletes old records."""
        return 0

    def close(self) -> None:
        self._producer.close()


class _UncommittedReader:
    """Reader of a group's uncommitted records. It doesn't join the group, and keeps few records in memory."""

    def __init__(self, access: Access, stream: str, group: str) -> None:
        self._access, self._stream = access, stream
        self._topic, self._group = access.topic(stream), access.group(stream, group)

    def read(self, limit: int) -> Iterator[Logged]:
        """Yield at most `limit` records. Raises LogUnavailable, also between records."""
        with translated("Reading the uncommitted records failed"):
            client = KafkaConsumer(
                **self._access.options(),
                # The group id serves only to read the group's commits: a consumer that calls `assign` does not join.
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
        end_offsets = self._seek_to_commits(client)
        # The client has just received the topic id in its metadata. An admin client would take 0.5 MB of memory.
        incarnation = incarnation_of(topic_id(client, self._topic))
        silent_seconds = 0.0
        while end_offsets and limit > 0:
            polled_at = monotonic()
            batches = client.poll(timeout_ms=POLL_TIMEOUT_MS, max_records=min(limit, MAX_POLL_RECORDS))
            silent_seconds = 0.0 if batches else silent_seconds + monotonic() - polled_at
            if silent_seconds > SILENCE_TIMEOUT:
                raise LogUnavailable("Reading the uncommitted records failed: no records arrive.")
            for topic_partition, records in batches.items():
                for record in records:
                    if topic_partition in end_offsets and record.offset < end_offsets[topic_partition]:
                        limit -= 1
                        yield with_incarnation(to_logged(self._stream, record), incarnation)
            for topic_partition in [
                topic_partition
                for topic_partition, end_offset in end_offsets.items()
                if client.position(topic_partition) >= end_offset
            ]:
                del end_offsets[topic_partition]

    def _seek_to_commits(self, client: KafkaConsumer) -> dict[TopicPartition, int]:
        """Seek each partition to its commit. Return the end offset of each partition with uncommitted records."""
        topic_partitions = [
            TopicPartition(self._topic, number) for number in sorted(client.partitions_for_topic(self._topic) or ())
        ]
        client.assign(topic_partitions)
        end_offsets, first_offsets = client.end_offsets(topic_partitions), client.beginning_offsets(topic_partitions)
        start_offsets = {
            topic_partition: max(
                client.committed(topic_partition, timeout_ms=COMMIT_QUERY_TIMEOUT_MS) or 0,
                first_offsets[topic_partition],
            )
            for topic_partition in topic_partitions
        }
        for topic_partition, start_offset in start_offsets.items():
            client.seek(topic_partition, start_offset)
        return {
            topic_partition: end_offsets[topic_partition]
            for topic_partition in topic_partitions
            if start_offsets[topic_partition] < end_offsets[topic_partition]
        }
