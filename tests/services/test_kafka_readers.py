"""Readers of Kafka that come back, and partitions that come new: what other backends of the log don't know."""

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

from notifier.adapters.kafka import Access, KafkaLog, admin_client, migrate, plan
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log import Consumer, Logged
from tests.contracts.consumer_processes import start_consumer
from tests.contracts.logs import InKafka, in_kafka
from tests.contracts.reading import ALL, KEYS, STREAM, append, commit, finish, is_empty, keys, poll
from tests.services.waiting import until

[TOPIC] = [topic for topic in plan() if topic.stream == STREAM]
NEW_WITHIN = 30.0
"""Seconds from a topic's growth until its new partitions are read; 12 where nothing else keeps the machine."""
STRANGE = [(None, b"v"), (b"\xff\xfe", b"v"), (b"k", None)]
"""Keys and values: none, no text, none."""
REPLACED_WITHIN = 10.0
"""Seconds, as promised for a router or coordinator."""
LONG_LEASE = timedelta(seconds=60)
"""Far longer than a busy machine needs to hand over partitions: who waited for its end is told from who didn't."""
PACKED = b"x" * 1_000


@pytest.fixture
def logs(kafka: str) -> Iterator[InKafka]:
    with in_kafka(kafka) as found:
        yield found


def test_who_was_killed_and_comes_back_as_the_same_instance_has_its_partitions_well_before_the_lease_ends(
    logs: InKafka,
) -> None:
    named = replace(logs.access, instance="host-1", lease=LONG_LEASE)
    append(logs, *KEYS)
    before, after = (start_consumer(named, STREAM, "router", owner) for owner in ("owner 1", "owner 2"))
    logs.consumers += [before, after]
    assert keys(poll(logs, before, due=len(KEYS))) == sorted(KEYS)
    assert after.lag() == 0  # it runs, and has not joined
    before.end()
    killed = time.monotonic()
    assert keys(poll(logs, after, due=len(KEYS))) == sorted(KEYS)
    assert time.monotonic() - killed < LONG_LEASE.total_seconds() / 2


def test_records_that_no_writer_of_ours_wrote_cost_none_of_those_that_are_read_with_them(logs: InKafka) -> None:
    append(logs, *KEYS)
    with closing(KafkaProducer(bootstrap_servers=logs.access.servers)) as stranger:
        for partition in range(ALL):
            for key, value in STRANGE:
                stranger.send(logs.access.topic(STREAM), key=key, value=value, partition=partition).get(timeout=10)
    append(logs, *KEYS)
    everything = Counter(KEYS * 2) + Counter({"": ALL, "\ufffd\ufffd": ALL, "k": ALL})
    assert Counter(one.record.key for one in logs.log.waiting(STREAM, "router", 1_000)) == everything
    consumer = logs.subscribe(STREAM, "router", "one")
    found = poll(logs, consumer, due=everything.total())
    commit(consumer, found)
    assert Counter(one.record.key for one in found) == everything
    assert sum(one.record.value == b"" for one in found) == ALL
    assert consumer.lag() == 0


def test_record_compressed_with_zstd_is_read(logs: InKafka) -> None:
    # A topic that is made with its settings: to one that is there they come a moment later.
    access = replace(logs.access, prefix=f"{logs.access.prefix}made.")
    migrate(access, [TOPIC])
    produce_with_zstd(access)
    with closing(KafkaLog(access).subscribe(STREAM, "router", "one")) as reader:
        assert [one.record.value for one in poll(logs, reader)] == [PACKED]


def test_unreadable_batch_is_an_outage_at_every_poll(kafka: str) -> None:
    with in_kafka(kafka) as logs:
        produce_with_zstd(logs.access)
        reader = KafkaLog(logs.access).subscribe(STREAM, "router", "one")
        with closing(reader):
            for _ in range(3):
                until(partial(refused, reader))


def refused(reader: Consumer) -> bool:
    """Until it is a member nothing comes."""
    try:
        assert reader.poll(10, timedelta(seconds=0.1)) == []
    except LogUnavailable as told:
        return "UnsupportedCodecError" in str(told)
    return False


class ZstdBatch(DefaultRecordBatchBuilder):  # type: ignore[misc]  # the library has no types
    """A record batch compressed with zstd, which kafka-python only does with a package that is not installed."""

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
    """Write one record as another company's producer would, by the wire protocol. There is one broker: it leads."""
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
            [answer] = admin._manager.run(send).responses[0].partition_responses
            assert answer.error_code in (0, NotLeaderForPartitionError.errno), answer
            return bool(answer.error_code == 0)

        until(is_acknowledged)  # a broker does not lead a partition at once that it has just created


def test_a_reader_that_was_killed_is_replaced_by_another_when_the_lease_ends(logs: InKafka) -> None:
    append(logs, *KEYS)
    before, after = (start_consumer(logs.access, STREAM, "router", owner) for owner in ("owner 1", "owner 2"))
    logs.consumers += [before, after]
    assert keys(poll(logs, before, due=len(KEYS))) == sorted(KEYS)
    before.end()
    killed, found = time.monotonic(), list[Logged]()
    while not found:
        found += poll(logs, after)
        assert time.monotonic() - killed < REPLACED_WITHIN
    assert keys(found) == sorted(KEYS)


def test_a_topic_that_was_deleted_and_made_again_is_read_from_its_beginning_by_those_who_read_it_before(
    logs: InKafka,
) -> None:
    """Its offsets begin anew: neither where it was read nor what was applied of it says anything of the new one."""
    append(logs, *KEYS)
    reader = logs.subscribe(STREAM, "router", "one")
    before = poll(logs, reader, due=len(KEYS))
    commit(reader, before)
    name = logs.access.topic(STREAM)
    with admin_client(logs.access) as admin:
        admin.delete_topics([name])
    migrate(logs.access, [TOPIC])
    append(logs, *KEYS, *KEYS, *KEYS)  # more than before: who went on where it was would find something
    began, old = time.monotonic(), {life(one) for one in before}
    after: dict[tuple[str, int], Logged] = {}
    while len(after) < 3 * len(KEYS) and time.monotonic() - began < NEW_WITHIN:
        with suppress(LogUnavailable):
            found = reader.poll(200, timedelta(seconds=0.1))
            after |= {(one.partition, one.offset): one for one in found if life(one) not in old}
            reader.lag()
    assert keys([*after.values()]) == sorted(3 * [*KEYS])
    commit(reader, [*after.values()])
    finish(logs, reader)
    reader.close()
    assert is_empty(logs, logs.subscribe(STREAM, "router", "two"))


def life(one: Logged) -> str:
    return one.partition.partition("@")[2].partition("/")[0]
