"""The event log: order, groups, and what waits."""

import tracemalloc
from itertools import pairwise

from notifier.ports.event_log import Logged, Record
from notifier.topics import MENTIONS_STANDARD
from tests.contracts.logs import Logs
from tests.contracts.reading import ALL, KEYS, STREAM, append, commit, keys, nothing, partitions, poll

MANY = [Record(stream=STREAM, key="busy", value=bytes(1_000))] * 2_000
"""More than a client reads ahead of one partition."""


def test_records_come_back_as_they_were_appended(logs: Logs) -> None:
    append(logs, "a")
    [found] = poll(logs, logs.subscribe(STREAM, "router", "one"))
    assert found.record == Record(stream=STREAM, key="a", value=b"0 of a")
    name, _, number = found.partition.rpartition("/")
    assert name.partition("@")[0] == STREAM
    assert int(number) in range(ALL)


def test_records_of_a_key_keep_their_order_over_many_appends_and_polls(logs: Logs) -> None:
    for n in range(30):
        logs.log.append([Record(stream=STREAM, key=f"k{k}", value=str(n).encode()) for k in range(5)])
    consumer = logs.subscribe(STREAM, "router", "one")
    found: list[Logged] = []
    while polled := poll(logs, consumer, 7):
        assert len(polled) <= 7
        found += polled
    for k in range(5):
        values = [int(logged.record.value) for logged in found if logged.record.key == f"k{k}"]
        assert values == list(range(30))


def test_offsets_rise_within_a_partition_and_a_key_has_one_partition(logs: Logs) -> None:
    for _ in range(5):
        append(logs, *KEYS)
    found = poll(logs, logs.subscribe(STREAM, "router", "one"), due=5 * len(KEYS))
    for partition in partitions(found):
        offsets = [logged.offset for logged in found if logged.partition == partition]
        assert all(before < after for before, after in pairwise(offsets))
    assert len({(logged.record.key, logged.partition) for logged in found}) == len(KEYS)
    assert len(partitions(found)) == ALL


def test_nothing_is_polled_twice_by_one_consumer(logs: Logs) -> None:
    append(logs, *KEYS)
    consumer = logs.subscribe(STREAM, "router", "one")
    assert keys(poll(logs, consumer, due=len(KEYS))) == sorted(KEYS)
    assert nothing(logs, consumer)
    append(logs, "new")
    assert keys(poll(logs, consumer)) == ["new"]


def test_no_partition_starves_behind_a_busy_one(logs: Logs) -> None:
    logs.log.append(MANY)
    append(logs, *KEYS)
    consumer = logs.subscribe(STREAM, "router", "one")
    found: list[Logged] = []
    while len(found) < len(MANY) + len(KEYS):
        found += poll(logs, consumer, 100)
    half = len(found) // 2
    assert len(partitions(found[:half])) == ALL
    assert len(partitions(found[half:])) == 1


def test_a_restarted_consumer_goes_on_behind_the_commit(logs: Logs) -> None:
    append(logs, *KEYS)
    first = logs.subscribe(STREAM, "router", "one")
    done, left = poll(logs, first, 40), poll(logs, first, due=24)
    commit(first, done)
    first.close()
    assert keys(poll(logs, logs.subscribe(STREAM, "router", "two"), due=24)) == keys(left)


def test_a_commit_never_moves_back(logs: Logs) -> None:
    append(logs, *(["a"] * 10))
    first = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, first, due=10)
    commit(first, polled[:8])
    commit(first, polled[:3])
    first.close()
    assert list(poll(logs, logs.subscribe(STREAM, "router", "two"), due=2)) == list(polled[8:])


def test_groups_and_streams_know_nothing_of_each_other(logs: Logs) -> None:
    append(logs, "a")
    append(logs, "b", stream=MENTIONS_STANDARD)
    router = logs.subscribe(STREAM, "router", "one")
    commit(router, poll(logs, router))
    assert keys(poll(logs, logs.subscribe(STREAM, "auditor", "one"))) == ["a"]
    assert keys(poll(logs, logs.subscribe(MENTIONS_STANDARD, "router", "one"))) == ["b"]
    assert nothing(logs, router)


def test_lag_is_what_the_group_has_not_committed(logs: Logs) -> None:
    consumer = logs.subscribe(STREAM, "router", "one")
    logs.settle([consumer])
    assert consumer.lag() == 0
    append(logs, *(["a"] * 10))
    polled = poll(logs, consumer, due=10)
    assert consumer.lag() == 10
    commit(consumer, polled[:4])
    assert consumer.lag() == 6
    commit(consumer, polled)
    assert consumer.lag() == 0


def test_what_a_group_has_not_committed_is_waiting_for_whoever_asks(logs: Logs) -> None:
    assert list(logs.log.waiting(STREAM, "router", 100)) == []
    append(logs, *(["a"] * 10))
    append(logs, "b", stream=MENTIONS_STANDARD)
    consumer = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, consumer, due=10)
    assert list(logs.log.waiting(STREAM, "router", 100)) == list(polled)
    commit(consumer, polled[:4])
    assert list(logs.log.waiting(STREAM, "router", 100)) == list(polled[4:])
    assert list(logs.log.waiting(STREAM, "another", 100)) == list(polled)
    commit(consumer, polled)
    assert list(logs.log.waiting(STREAM, "router", 100)) == []


def test_of_what_waits_no_more_is_told_than_was_asked_for(logs: Logs) -> None:
    append(logs, *KEYS)
    found = list(logs.log.waiting(STREAM, "router", 10))
    assert len(found) == len({(one.partition, one.offset) for one in found}) == 10
    assert len(list(logs.log.waiting(STREAM, "router", 1_000))) == len(KEYS)


def test_looking_through_what_waits_holds_little_of_it_in_memory(logs: Logs) -> None:
    large = [Record(stream=STREAM, key=f"k{n}", value=bytes(10_000)) for n in range(2_000)]
    for at in range(0, len(large), 100):
        logs.log.append(large[at : at + 100])
    tracemalloc.start()
    try:
        assert sum(1 for _ in logs.log.waiting(STREAM, "router", 5_000)) == len(large)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000


def test_whoever_stops_looking_through_what_waits_holds_nothing_up(logs: Logs) -> None:
    append(logs, *KEYS)
    looking = logs.log.waiting(STREAM, "router", 1_000)
    first = next(looking)
    consumer = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, consumer, due=len(KEYS))
    commit(consumer, polled)
    append(logs, "new")
    assert first in polled
    assert [one.record.key for one in logs.log.waiting(STREAM, "router", 1_000)] == ["new"]


def test_an_append_may_be_of_any_size(logs: Logs) -> None:
    """200 events that name 100 accounts each make so many mentions, in one piece or not at all for who sends them."""
    consumer = logs.subscribe(STREAM, "router", "one")
    logs.settle([consumer])
    logs.log.append([Record(stream=STREAM, key="many", value=b"a mention")] * 40_000)
    assert poll(logs, consumer, 10)
    assert consumer.lag() == 40_000


def test_an_append_of_nothing_is_nothing(logs: Logs) -> None:
    logs.log.append([])
    assert nothing(logs, logs.subscribe(STREAM, "router", "one"))
