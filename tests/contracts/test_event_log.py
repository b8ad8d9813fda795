"""The event log: order, consumer groups, and records that are not yet committed."""

import tracemalloc
from itertools import pairwise

from notifier.ports.event_log_and_dead_letters import Logged, Record
from notifier.topics import MENTIONS_STANDARD
from tests.contracts.event_log_backends import Logs
from tests.contracts.event_log_steps import (
    KEYS,
    PARTITION_COUNT,
    STREAM,
    append,
    commit,
    is_empty,
    keys,
    partitions,
    poll,
)

MANY = [Record(stream=STREAM, key="busy", value=bytes(1_000))] * 2_000
"""More records than a client prefetches from one partition."""


def test_record_is_returned_as_appended(logs: Logs) -> None:
    append(logs, "a")
    [logged] = poll(logs, logs.subscribe(STREAM, "router", "one"))
    assert logged.record == Record(stream=STREAM, key="a", value=b"0 of a")
    log_name, _, number = logged.partition.rpartition("/")
    assert log_name.partition("@")[0] == STREAM
    assert int(number) in range(PARTITION_COUNT)


def test_records_of_key_keep_order_across_appends_and_polls(logs: Logs) -> None:
    for n in range(30):
        logs.log.append([Record(stream=STREAM, key=f"k{k}", value=str(n).encode()) for k in range(5)])
    consumer = logs.subscribe(STREAM, "router", "one")
    records: list[Logged] = []
    while polled := poll(logs, consumer, 7):
        assert len(polled) <= 7
        records += polled
    for k in range(5):
        values = [int(logged.record.value) for logged in records if logged.record.key == f"k{k}"]
        assert values == list(range(30))


def test_key_has_one_partition_with_rising_offsets(logs: Logs) -> None:
    for _ in range(5):
        append(logs, *KEYS)
    records = poll(logs, logs.subscribe(STREAM, "router", "one"), due=5 * len(KEYS))
    for partition in partitions(records):
        offsets = [logged.offset for logged in records if logged.partition == partition]
        assert all(offset < next_offset for offset, next_offset in pairwise(offsets))
    assert len({(logged.record.key, logged.partition) for logged in records}) == len(KEYS)
    assert len(partitions(records)) == PARTITION_COUNT


def test_consumer_polls_each_record_once(logs: Logs) -> None:
    append(logs, *KEYS)
    consumer = logs.subscribe(STREAM, "router", "one")
    assert keys(poll(logs, consumer, due=len(KEYS))) == sorted(KEYS)
    assert is_empty(logs, consumer)
    append(logs, "new")
    assert keys(poll(logs, consumer)) == ["new"]


def test_busy_partition_does_not_starve_others(logs: Logs) -> None:
    logs.log.append(MANY)
    append(logs, *KEYS)
    consumer = logs.subscribe(STREAM, "router", "one")
    records: list[Logged] = []
    while len(records) < len(MANY) + len(KEYS):
        records += poll(logs, consumer, 100)
    half = len(records) // 2
    assert len(partitions(records[:half])) == PARTITION_COUNT
    assert len(partitions(records[half:])) == 1


def test_restarted_consumer_resumes_after_commit(logs: Logs) -> None:
    append(logs, *KEYS)
    first = logs.subscribe(STREAM, "router", "one")
    finished, open_records = poll(logs, first, 40), poll(logs, first, due=24)
    commit(first, finished)
    first.close()
    assert keys(poll(logs, logs.subscribe(STREAM, "router", "two"), due=24)) == keys(open_records)


def test_commit_never_moves_back(logs: Logs) -> None:
    append(logs, *(["a"] * 10))
    first = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, first, due=10)
    commit(first, polled[:8])
    commit(first, polled[:3])
    first.close()
    assert list(poll(logs, logs.subscribe(STREAM, "router", "two"), due=2)) == list(polled[8:])


def test_groups_and_streams_are_independent(logs: Logs) -> None:
    append(logs, "a")
    append(logs, "b", stream=MENTIONS_STANDARD)
    router = logs.subscribe(STREAM, "router", "one")
    commit(router, poll(logs, router))
    assert keys(poll(logs, logs.subscribe(STREAM, "auditor", "one"))) == ["a"]
    assert keys(poll(logs, logs.subscribe(MENTIONS_STANDARD, "router", "one"))) == ["b"]
    assert is_empty(logs, router)


def test_lag_counts_uncommitted_records_of_group(logs: Logs) -> None:
    consumer = logs.subscribe(STREAM, "router", "one")
    logs.wait_until_assigned([consumer])
    assert consumer.lag() == 0
    append(logs, *(["a"] * 10))
    polled = poll(logs, consumer, due=10)
    assert consumer.lag() == 10
    commit(consumer, polled[:4])
    assert consumer.lag() == 6
    commit(consumer, polled)
    assert consumer.lag() == 0


def test_uncommitted_records_can_be_read_without_joining_group(logs: Logs) -> None:
    assert list(logs.log.read_uncommitted(STREAM, "router", 100)) == []
    append(logs, *(["a"] * 10))
    append(logs, "b", stream=MENTIONS_STANDARD)
    consumer = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, consumer, due=10)
    assert list(logs.log.read_uncommitted(STREAM, "router", 100)) == list(polled)
    commit(consumer, polled[:4])
    assert list(logs.log.read_uncommitted(STREAM, "router", 100)) == list(polled[4:])
    assert list(logs.log.read_uncommitted(STREAM, "another", 100)) == list(polled)
    commit(consumer, polled)
    assert list(logs.log.read_uncommitted(STREAM, "router", 100)) == []


def test_read_uncommitted_returns_at_most_the_limit(logs: Logs) -> None:
    append(logs, *KEYS)
    uncommitted = list(logs.log.read_uncommitted(STREAM, "router", 10))
    assert len(uncommitted) == len({(logged.partition, logged.offset) for logged in uncommitted}) == 10
    assert len(list(logs.log.read_uncommitted(STREAM, "router", 1_000))) == len(KEYS)


def test_reading_uncommitted_records_needs_little_memory(logs: Logs) -> None:
    large = [Record(stream=STREAM, key=f"k{n}", value=bytes(10_000)) for n in range(2_000)]
    for at in range(0, len(large), 100):
        logs.log.append(large[at : at + 100])
    tracemalloc.start()
    try:
        assert sum(1 for _ in logs.log.read_uncommitted(STREAM, "router", 5_000)) == len(large)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000


def test_abandoned_read_of_uncommitted_records_blocks_no_consumer(logs: Logs) -> None:
    append(logs, *KEYS)
    uncommitted = logs.log.read_uncommitted(STREAM, "router", 1_000)
    first = next(uncommitted)
    consumer = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, consumer, due=len(KEYS))
    commit(consumer, polled)
    append(logs, "new")
    assert first in polled
    assert [logged.record.key for logged in logs.log.read_uncommitted(STREAM, "router", 1_000)] == ["new"]


def test_append_can_have_any_size(logs: Logs) -> None:
    """200 events that name 100 accounts each make this many mentions, in one all-or-nothing append."""
    consumer = logs.subscribe(STREAM, "router", "one")
    logs.wait_until_assigned([consumer])
    logs.log.append([Record(stream=STREAM, key="many", value=b"a mention")] * 40_000)
    assert poll(logs, consumer, 10)
    assert consumer.lag() == 40_000


def test_empty_append_changes_nothing(logs: Logs) -> None:
    logs.log.append([])
    assert is_empty(logs, logs.subscribe(STREAM, "router", "one"))
