"""Kafka consumers: restarts, foreign or unreadable records, compression and recreated topics."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow
import pytest
from kafka import KafkaProducer
from kafka.errors import NotLeaderForPartitionError
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from notifier.adapters.kafka import Access, KafkaLog, admin_client, load_topics, migrate
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log_and_dead_letters import Consumer, Logged
from tests.contracts.consumer_forks import start_consumer
from tests.contracts.event_log_backends import KafkaLogs, in_kafka
from tests.contracts.event_log_steps import (
    KEYS,
    PARTITION_COUNT,
    STREAM,
    append,
    commit,
    commit_all,
    is_empty,
    keys,
    poll,
)
from tests.services.wait_for_engine_change import wait_until

[TOPIC] = [topic for topic in load_topics() if topic.stream == STREAM]
NEW_WITHIN = 30.0
"""Seconds from a topic's growth until its new partitions are read; 12 on an otherwise idle machine."""
FOREIGN_RECORDS = [(None, b"v"), (b"\xff\xfe", b"v"), (b"k", None)]
"""Keys and values that are missing or not text."""
REPLACED_WITHIN = 10.0
"""Seconds; the documented limit for a router or coordinator."""
LONG_LEASE = timedelta(seconds=60)
"""Far longer than a busy machine needs to hand over partitions, so that a wait for its end would be noticed."""
PACKED = b"x" * 1_000


@pytest.fixture
def logs(kafka: str) -> Iterator[KafkaLogs]:
    with in_kafka(kafka) as logs:
        yield logs


def test_restarted_instance_gets_its_partitions_before_lease_ends(
    logs: KafkaLogs,
) -> None:
    access = replace(logs.access, instance="host-1", lease=LONG_LEASE)
    append(logs, *KEYS)
    before, after = (start_consumer(access, STREAM, "router", owner) for owner in ("owner 1", "owner 2"))
    logs.consumers += [before, after]
    assert keys(poll(logs, before, due=len(KEYS))) == sorted(KEYS)
    assert after.lag() == 0  # it runs, and has not joined yet
    before.end()
    killed_at = time.monotonic()
    assert keys(poll(logs, after, due=len(KEYS))) == sorted(KEYS)
    assert time.monotonic() - killed_at < LONG_LEASE.total_seconds() / 2


def test_foreign_records_do_not_affect_records_of_same_batch(logs: KafkaLogs) -> None:
    append(logs, *KEYS)
    with closing(KafkaProducer(bootstrap_servers=logs.access.servers)) as producer:
        for partition in range(PARTITION_COUNT):
            for key, value in FOREIGN_RECORDS:
                producer.send(logs.access.topic(STREAM), key=key, value=value, partition=partition).get(timeout=10)
    append(logs, *KEYS)
    expected = Counter(KEYS * 2) + Counter({"": PARTITION_COUNT, "\ufffd\ufffd": PARTITION_COUNT, "k": PARTITION_COUNT})
    assert Counter(logged.record.key for logged in logs.log.read_uncommitted(STREAM, "router", 1_000)) == expected
    consumer = logs.subscribe(STREAM, "router", "one")
    records = poll(logs, consumer, due=expected.total())
    commit(consumer, records)
    assert Counter(logged.record.key for logged in records) == expected
    assert sum(logged.record.value == b"" for logged in records) == PARTITION_COUNT
    assert consumer.lag() == 0


def test_record_compressed_with_zstd_is_read(logs: KafkaLogs) -> None:
    # A topic that is created with its settings: on an existing topic they take effect a moment later.
    access = replace(logs.access, prefix=f"{logs.access.prefix}made.")
    migrate(access, [TOPIC])
    produce_with_zstd(access)
    with closing(KafkaLog(access).subscribe(STREAM, "router", "one")) as reader:
        assert [logged.record.value for logged in poll(logs, reader)] == [PACKED]


def test_unreadable_batch_is_an_outage_at_every_poll(kafka: str) -> None:
    with in_kafka(kafka) as logs:
        produce_with_zstd(logs.access)
        reader = KafkaLog(logs.access).subscribe(STREAM, "router", "one")
        with closing(reader):
            for _ in range(3):
                wait_until(partial(is_refused, reader))


def is_refused(reader: Consumer) -> bool:
    """Return whether the poll is refused; before the reader has joined, a poll returns nothing."""
    try:
        assert reader.poll(10, timedelta(seconds=0.1)) == []
    except LogUnavailable as error:
        return "UnsupportedCodecError" in str(error)
    return False


class ZstdBatch(DefaultRecordBatchBuilder):  # type: ignore[misc]  # the library has no types
    """A record batch compressed with zstd. kafka-python compresses so only with a package that is not installed."""

    def __init__(self) -> None:
        super().__init__(
            magic=2,
            compression_type=self.CODEC_ZSTD,
            is_transactional=False,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=1 << 16,
        )

    def _maybe_compress(self) -> bool:
        header = self.HEADER_STRUCT.size
        self._buffer[header:] = pyarrow.compress(bytes(self._buffer[header:]), codec="zstd", asbytes=True)
        return True


def produce_with_zstd(access: Access) -> None:
    """Write one record over the wire protocol, as a foreign producer would. The only broker leads every partition."""
    batch = ZstdBatch()
    batch.append(0, int(time.time() * 1_000), b"k", PACKED, [])
    topic_data = ProduceRequest.TopicProduceData
    partition = topic_data.PartitionProduceData(index=0, records=bytes(batch.build()))
    topic = topic_data(name=access.topic(STREAM), partition_data=[partition])
    request = ProduceRequest(
        transactional_id=None, acks=-1, timeout_ms=5_000, topic_data=[topic], min_version=7, max_version=9
    )

    with admin_client(access) as admin:

        async def send() -> Any:
            return await admin._manager.send(request)

        def is_acknowledged() -> bool:
            [response] = admin._manager.run(send).responses[0].partition_responses
            assert response.error_code in (0, NotLeaderForPartitionError.errno), response
            return bool(response.error_code == 0)

        wait_until(is_acknowledged)  # a broker does not lead a new partition at once


def test_killed_reader_is_replaced_when_lease_ends(logs: KafkaLogs) -> None:
    append(logs, *KEYS)
    before, after = (start_consumer(logs.access, STREAM, "router", owner) for owner in ("owner 1", "owner 2"))
    logs.consumers += [before, after]
    assert keys(poll(logs, before, due=len(KEYS))) == sorted(KEYS)
    before.end()
    killed_at, records = time.monotonic(), list[Logged]()
    while not records:
        records += poll(logs, after)
        assert time.monotonic() - killed_at < REPLACED_WITHIN
    assert keys(records) == sorted(KEYS)


def test_recreated_topic_is_read_from_its_beginning(
    logs: KafkaLogs,
) -> None:
    """Offsets restart at zero: committed offsets and applied positions of the old topic are meaningless."""
    append(logs, *KEYS)
    reader = logs.subscribe(STREAM, "router", "one")
    before = poll(logs, reader, due=len(KEYS))
    commit(reader, before)
    name = logs.access.topic(STREAM)
    with admin_client(logs.access) as admin:
        admin.delete_topics([name])
    migrate(logs.access, [TOPIC])
    append(
        logs, *KEYS, *KEYS, *KEYS
    )  # more records than before, so that a reader that continued at its old offset would find some
    started_at, old_lives = time.monotonic(), {topic_life(logged) for logged in before}
    after: dict[tuple[str, int], Logged] = {}
    while len(after) < 3 * len(KEYS) and time.monotonic() - started_at < NEW_WITHIN:
        with suppress(LogUnavailable):
            records = reader.poll(200, timedelta(seconds=0.1))
            after |= {
                (logged.partition, logged.offset): logged for logged in records if topic_life(logged) not in old_lives
            }
            reader.lag()
    assert keys([*after.values()]) == sorted(3 * [*KEYS])
    commit(reader, [*after.values()])
    commit_all(logs, reader)
    reader.close()
    assert is_empty(logs, logs.subscribe(STREAM, "router", "two"))


def topic_life(logged: Logged) -> str:
    return logged.partition.partition("@")[2].partition("/")[0]
