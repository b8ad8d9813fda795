"""The event log: order, groups, leases and take-over; time is the backend's clock, so nobody waits for a lease."""

import tracemalloc
from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import pairwise

from notifier.ports.log import Consumer, Logged, Record
from notifier.topics import MENTIONS, MENTIONS_STANDARD, PARTITIONS
from tests.contracts.backends import Backend

LEASE = timedelta(seconds=5)
AT_ONCE = timedelta(0)
STREAM = MENTIONS
ALL = PARTITIONS[STREAM]


def append(backend: Backend, *keys: str, stream: str = STREAM) -> None:
    backend.log.append([Record(stream=stream, key=key, value=f"{n} of {key}".encode()) for n, key in enumerate(keys)])


def poll(consumer: Consumer, limit: int = 1_000) -> Sequence[Logged]:
    return consumer.poll(limit, AT_ONCE)


def commit(consumer: Consumer, polled: Iterable[Logged]) -> None:
    consumer.commit({logged.partition: logged.offset for logged in polled})


def keys(polled: Iterable[Logged]) -> list[str]:
    return sorted(logged.record.key for logged in polled)


def partitions(polled: Iterable[Logged]) -> set[str]:
    return {logged.partition for logged in polled}


KEYS = [f"k{n}" for n in range(64)]
"""Enough for every partition to have some."""


def settle(backend: Backend, *consumers: Consumer) -> None:
    """Lets the consumers share the partitions out: each polls while two renewals are due."""
    for _ in range(8):
        backend.clock.advance(LEASE / 10)
        for consumer in consumers:
            consumer.poll(0, AT_ONCE)


def test_records_come_back_as_they_were_appended(backend: Backend) -> None:
    append(backend, "a")
    [found] = poll(backend.log.subscribe(STREAM, "router", "one"))
    assert found.record == Record(stream=STREAM, key="a", value=b"0 of a")
    assert found.partition in {f"{STREAM}/{n}" for n in range(ALL)}


def test_records_of_a_key_keep_their_order_over_many_appends_and_polls(backend: Backend) -> None:
    for n in range(30):
        backend.log.append([Record(stream=STREAM, key=f"k{k}", value=str(n).encode()) for k in range(5)])
    consumer = backend.log.subscribe(STREAM, "router", "one")
    found: list[Logged] = []
    while polled := poll(consumer, 7):
        assert len(polled) <= 7
        found += polled
    for k in range(5):
        values = [int(logged.record.value) for logged in found if logged.record.key == f"k{k}"]
        assert values == list(range(30))


def test_offsets_rise_within_a_partition_and_a_key_has_one_partition(backend: Backend) -> None:
    for _ in range(5):
        append(backend, *KEYS)
    found = poll(backend.log.subscribe(STREAM, "router", "one"))
    for partition in partitions(found):
        offsets = [logged.offset for logged in found if logged.partition == partition]
        assert all(before < after for before, after in pairwise(offsets))
    assert len({(logged.record.key, logged.partition) for logged in found}) == len(KEYS)
    assert len(partitions(found)) == ALL


def test_nothing_is_polled_twice_by_one_consumer(backend: Backend) -> None:
    append(backend, *KEYS)
    consumer = backend.log.subscribe(STREAM, "router", "one")
    assert keys(poll(consumer)) == sorted(KEYS)
    assert list(poll(consumer)) == []
    append(backend, "new")
    assert keys(poll(consumer)) == ["new"]


def test_no_partition_starves_behind_a_busy_one(backend: Backend) -> None:
    append(backend, *(["busy"] * 100), *KEYS)
    consumer = backend.log.subscribe(STREAM, "router", "one")
    assert len(partitions([*poll(consumer, 10), *poll(consumer, 10), *poll(consumer, 10), *poll(consumer, 10)])) == ALL


def test_a_restarted_consumer_goes_on_behind_the_commit(backend: Backend) -> None:
    append(backend, *KEYS)
    first = backend.log.subscribe(STREAM, "router", "one")
    done, left = poll(first, 40), poll(first)
    commit(first, done)
    first.close()
    assert keys(poll(backend.log.subscribe(STREAM, "router", "two"))) == keys(left)


def test_a_commit_never_moves_back(backend: Backend) -> None:
    append(backend, *(["a"] * 10))
    first = backend.log.subscribe(STREAM, "router", "one")
    polled = poll(first)
    commit(first, polled[:8])
    commit(first, polled[:3])
    first.close()
    assert list(poll(backend.log.subscribe(STREAM, "router", "two"))) == list(polled[8:])


def test_groups_and_streams_know_nothing_of_each_other(backend: Backend) -> None:
    append(backend, "a")
    append(backend, "b", stream=MENTIONS_STANDARD)
    router = backend.log.subscribe(STREAM, "router", "one")
    commit(router, poll(router))
    assert keys(poll(backend.log.subscribe(STREAM, "auditor", "one"))) == ["a"]
    assert keys(poll(backend.log.subscribe(MENTIONS_STANDARD, "router", "one"))) == ["b"]
    assert list(poll(router)) == []


def test_lag_is_what_the_group_has_not_committed(backend: Backend) -> None:
    consumer = backend.log.subscribe(STREAM, "router", "one")
    settle(backend, consumer)
    assert consumer.lag() == 0
    append(backend, *(["a"] * 10))
    polled = poll(consumer)
    assert consumer.lag() == 10
    commit(consumer, polled[:4])
    assert consumer.lag() == 6
    commit(consumer, polled)
    assert consumer.lag() == 0


def test_what_a_group_has_not_committed_is_waiting_for_whoever_asks(backend: Backend) -> None:
    assert list(backend.log.waiting(STREAM, "router", 100)) == []
    append(backend, *(["a"] * 10))
    append(backend, "b", stream=MENTIONS_STANDARD)
    consumer = backend.log.subscribe(STREAM, "router", "one")
    polled = poll(consumer)
    assert list(backend.log.waiting(STREAM, "router", 100)) == list(polled)
    commit(consumer, polled[:4])
    assert list(backend.log.waiting(STREAM, "router", 100)) == list(polled[4:])
    assert list(backend.log.waiting(STREAM, "another", 100)) == list(polled)
    commit(consumer, polled)
    assert list(backend.log.waiting(STREAM, "router", 100)) == []


def test_of_what_waits_no_more_is_told_than_was_asked_for(backend: Backend) -> None:
    append(backend, *KEYS)
    found = list(backend.log.waiting(STREAM, "router", 10))
    assert len(found) == len({(one.partition, one.offset) for one in found}) == 10
    assert len(list(backend.log.waiting(STREAM, "router", 1_000))) == len(KEYS)


def test_looking_through_what_waits_holds_little_of_it_in_memory(backend: Backend) -> None:
    large = [Record(stream=STREAM, key=f"k{n}", value=bytes(10_000)) for n in range(2_000)]
    backend.log.append(large)
    tracemalloc.start()
    try:
        assert sum(1 for _ in backend.log.waiting(STREAM, "router", 5_000)) == len(large)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000


def test_whoever_stops_looking_through_what_waits_holds_nothing_up(backend: Backend) -> None:
    append(backend, *KEYS)
    looking = backend.log.waiting(STREAM, "router", 1_000)
    first = next(looking)
    consumer = backend.log.subscribe(STREAM, "router", "one")
    polled = poll(consumer)
    commit(consumer, polled)
    append(backend, "new")
    assert first in polled
    assert [one.record.key for one in backend.log.waiting(STREAM, "router", 1_000)] == ["new"]


def test_the_living_share_the_partitions_evenly_and_without_overlap(backend: Backend) -> None:
    consumers = [backend.log.subscribe(STREAM, "router", owner) for owner in ("one", "two", "three")]
    settle(backend, *consumers)
    append(backend, *KEYS)
    shares = [partitions(poll(consumer)) for consumer in consumers]
    assert sorted(len(share) for share in shares) == [1, 1, 2]
    assert len(set.union(*shares)) == ALL


def test_more_consumers_than_partitions_leave_some_idle_and_nothing_unread(backend: Backend) -> None:
    consumers = [backend.log.subscribe(STREAM, "router", f"owner {n}") for n in range(ALL + 2)]
    settle(backend, *consumers)
    append(backend, *KEYS)
    assert sorted(key for consumer in consumers for key in keys(poll(consumer))) == sorted(KEYS)


def test_a_newcomer_gets_its_share_from_those_who_had_all(backend: Backend) -> None:
    first = backend.log.subscribe(STREAM, "router", "one")
    append(backend, *KEYS)
    commit(first, poll(first))
    second = backend.log.subscribe(STREAM, "router", "two")
    settle(backend, first, second)
    append(backend, *KEYS)
    shares = [poll(first), poll(second)]
    assert [len(partitions(share)) for share in shares] == [ALL / 2, ALL / 2]
    assert sorted(keys(shares[0]) + keys(shares[1])) == sorted(KEYS)


def test_a_dead_owner_is_replaced_when_its_lease_ends_and_its_open_work_is_done_again(backend: Backend) -> None:
    append(backend, *KEYS)
    dead = backend.log.subscribe(STREAM, "router", "one")
    polled = poll(dead)
    commit(dead, polled[:1])
    heir = backend.log.subscribe(STREAM, "router", "two")
    backend.clock.advance(LEASE - timedelta(milliseconds=1))
    assert list(poll(heir)) == []
    backend.clock.advance(timedelta(seconds=1))
    assert keys(poll(heir)) == keys(polled[1:])


def test_who_slept_past_the_lease_polls_and_commits_nothing_of_what_was_lost(backend: Backend) -> None:
    append(backend, *KEYS)
    sleeper = backend.log.subscribe(STREAM, "router", "one")
    polled = poll(sleeper)
    backend.clock.advance(2 * LEASE)
    heir = backend.log.subscribe(STREAM, "router", "two")
    taken = poll(heir)
    assert keys(taken) == sorted(KEYS)
    commit(sleeper, polled)
    append(backend, *KEYS)
    assert list(poll(sleeper)) == []
    commit(sleeper, polled)
    heir.close()
    sleeper.close()
    again = backend.log.subscribe(STREAM, "router", "three")
    assert keys(poll(again)) == sorted(KEYS + KEYS)


def test_who_slept_past_the_lease_and_lost_nothing_goes_on(backend: Backend) -> None:
    append(backend, *KEYS)
    sleeper = backend.log.subscribe(STREAM, "router", "one")
    polled = poll(sleeper)
    backend.clock.advance(2 * LEASE)
    commit(sleeper, polled)
    append(backend, "new")
    assert keys(poll(sleeper)) == ["new"]


def test_a_partition_that_comes_back_starts_behind_the_commit(backend: Backend) -> None:
    append(backend, *KEYS)
    first = backend.log.subscribe(STREAM, "router", "one")
    poll(first)
    backend.clock.advance(2 * LEASE)
    second = backend.log.subscribe(STREAM, "router", "two")
    commit(second, poll(second, 30))
    assert list(poll(first)) == []
    second.close()
    settle(backend)
    assert len(poll(first)) == len(KEYS) - 30


def test_closing_gives_the_partitions_back_at_once(backend: Backend) -> None:
    append(backend, *KEYS)
    first = backend.log.subscribe(STREAM, "router", "one")
    poll(first)
    first.close()
    assert keys(poll(backend.log.subscribe(STREAM, "router", "two"))) == sorted(KEYS)


def test_a_restart_under_the_same_name_is_another_owner(backend: Backend) -> None:
    append(backend, *KEYS)
    before = backend.log.subscribe(STREAM, "router", "one")
    polled = poll(before)
    after = backend.log.subscribe(STREAM, "router", "one")
    assert list(poll(after)) == []
    backend.clock.advance(LEASE)
    assert keys(poll(after)) == sorted(KEYS)
    commit(before, polled)
    assert list(poll(before)) == []
    assert after.lag() == len(KEYS)


def test_an_append_of_nothing_is_nothing(backend: Backend) -> None:
    backend.log.append([])
    assert list(poll(backend.log.subscribe(STREAM, "router", "one"))) == []
