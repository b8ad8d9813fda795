"""The event log: order, groups, leases and take-over; where time is set by hand, nobody waits for a lease."""

import tracemalloc
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from time import monotonic

from notifier.domain.errors import Unavailable
from notifier.ports.log import Consumer, Logged, Record
from notifier.topics import MENTIONS, MENTIONS_STANDARD, PARTITIONS
from tests.contracts.logs import Logs

LEASE = timedelta(seconds=5)
AT_ONCE = timedelta(0)
STREAM = MENTIONS
ALL = PARTITIONS[STREAM]


def append(logs: Logs, *keys: str, stream: str = STREAM) -> None:
    logs.log.append([Record(stream=stream, key=key, value=f"{n} of {key}".encode()) for n, key in enumerate(keys)])


def poll(logs: Logs, consumer: Consumer, limit: int = 1_000) -> Sequence[Logged]:
    """At most so many, of what comes while the backend's patience lasts."""
    found = list(consumer.poll(limit, AT_ONCE))
    deadline = monotonic() + logs.patience.total_seconds()
    while len(found) < limit and monotonic() < deadline:
        more = consumer.poll(limit - len(found), AT_ONCE)
        if found and not more:
            break
        found += more
    return found


def commit(consumer: Consumer, polled: Iterable[Logged]) -> None:
    consumer.commit({logged.partition: logged.offset for logged in polled})


def keys(polled: Iterable[Logged]) -> list[str]:
    return sorted(logged.record.key for logged in polled)


def partitions(polled: Iterable[Logged]) -> set[str]:
    return {logged.partition for logged in polled}


KEYS = [f"k{n}" for n in range(64)]
"""Enough for every partition to have some."""


def settle(logs: Logs, *consumers: Consumer) -> None:
    """Lets the consumers share the partitions out: each polls while two renewals are due."""
    for _ in range(8):
        logs.passes(LEASE / 10)
        logs.live(consumers)


def test_records_come_back_as_they_were_appended(logs: Logs) -> None:
    append(logs, "a")
    [found] = poll(logs, logs.subscribe(STREAM, "router", "one"))
    assert found.record == Record(stream=STREAM, key="a", value=b"0 of a")
    assert found.partition in {f"{STREAM}/{n}" for n in range(ALL)}


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
    found = poll(logs, logs.subscribe(STREAM, "router", "one"))
    for partition in partitions(found):
        offsets = [logged.offset for logged in found if logged.partition == partition]
        assert all(before < after for before, after in pairwise(offsets))
    assert len({(logged.record.key, logged.partition) for logged in found}) == len(KEYS)
    assert len(partitions(found)) == ALL


def test_nothing_is_polled_twice_by_one_consumer(logs: Logs) -> None:
    append(logs, *KEYS)
    consumer = logs.subscribe(STREAM, "router", "one")
    assert keys(poll(logs, consumer)) == sorted(KEYS)
    assert list(poll(logs, consumer)) == []
    append(logs, "new")
    assert keys(poll(logs, consumer)) == ["new"]


def test_no_partition_starves_behind_a_busy_one(logs: Logs) -> None:
    append(logs, *(["busy"] * 100), *KEYS)
    consumer = logs.subscribe(STREAM, "router", "one")
    found = [logged for _ in range(4) for logged in poll(logs, consumer, 10)]
    assert len(partitions(found)) == ALL


def test_a_restarted_consumer_goes_on_behind_the_commit(logs: Logs) -> None:
    append(logs, *KEYS)
    first = logs.subscribe(STREAM, "router", "one")
    done, left = poll(logs, first, 40), poll(logs, first)
    commit(first, done)
    first.close()
    assert keys(poll(logs, logs.subscribe(STREAM, "router", "two"))) == keys(left)


def test_a_commit_never_moves_back(logs: Logs) -> None:
    append(logs, *(["a"] * 10))
    first = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, first)
    commit(first, polled[:8])
    commit(first, polled[:3])
    first.close()
    assert list(poll(logs, logs.subscribe(STREAM, "router", "two"))) == list(polled[8:])


def test_groups_and_streams_know_nothing_of_each_other(logs: Logs) -> None:
    append(logs, "a")
    append(logs, "b", stream=MENTIONS_STANDARD)
    router = logs.subscribe(STREAM, "router", "one")
    commit(router, poll(logs, router))
    assert keys(poll(logs, logs.subscribe(STREAM, "auditor", "one"))) == ["a"]
    assert keys(poll(logs, logs.subscribe(MENTIONS_STANDARD, "router", "one"))) == ["b"]
    assert list(poll(logs, router)) == []


def test_lag_is_what_the_group_has_not_committed(logs: Logs) -> None:
    consumer = logs.subscribe(STREAM, "router", "one")
    settle(logs, consumer)
    assert consumer.lag() == 0
    append(logs, *(["a"] * 10))
    polled = poll(logs, consumer)
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
    polled = poll(logs, consumer)
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
    logs.log.append(large)
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
    polled = poll(logs, consumer)
    commit(consumer, polled)
    append(logs, "new")
    assert first in polled
    assert [one.record.key for one in logs.log.waiting(STREAM, "router", 1_000)] == ["new"]


def test_the_living_share_the_partitions_evenly_and_without_overlap(logs: Logs) -> None:
    consumers = [logs.subscribe(STREAM, "router", owner) for owner in ("one", "two", "three")]
    settle(logs, *consumers)
    append(logs, *KEYS)
    shares = [partitions(poll(logs, consumer)) for consumer in consumers]
    assert sorted(len(share) for share in shares) == [1, 1, 2]
    assert len(set.union(*shares)) == ALL


def test_more_consumers_than_partitions_leave_some_idle_and_nothing_unread(logs: Logs) -> None:
    consumers = [logs.subscribe(STREAM, "router", f"owner {n}") for n in range(ALL + 2)]
    settle(logs, *consumers)
    append(logs, *KEYS)
    assert sorted(key for consumer in consumers for key in keys(poll(logs, consumer))) == sorted(KEYS)


def test_a_newcomer_gets_its_share_from_those_who_had_all(logs: Logs) -> None:
    first = logs.subscribe(STREAM, "router", "one")
    append(logs, *KEYS)
    commit(first, poll(logs, first))
    second = logs.subscribe(STREAM, "router", "two")
    settle(logs, first, second)
    append(logs, *KEYS)
    shares = [poll(logs, first), poll(logs, second)]
    assert [len(partitions(share)) for share in shares] == [ALL / 2, ALL / 2]
    assert sorted(keys(shares[0]) + keys(shares[1])) == sorted(KEYS)


def test_a_dead_owner_is_replaced_when_its_lease_ends_and_its_open_work_is_done_again(logs: Logs) -> None:
    append(logs, *KEYS)
    dead = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, dead)
    commit(dead, polled[:1])
    logs.sleeps(dead)
    heir = logs.subscribe(STREAM, "router", "two")
    logs.passes(LEASE - logs.slack)
    assert list(poll(logs, heir)) == []
    logs.passes(max(logs.slack, timedelta(seconds=1)))
    assert keys(poll(logs, heir)) == keys(polled[1:])


def test_who_slept_past_the_lease_polls_and_commits_nothing_of_what_was_lost(logs: Logs) -> None:
    append(logs, *KEYS)
    sleeper = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, sleeper)
    logs.sleeps(sleeper)
    logs.passes(2 * LEASE)
    heir = logs.subscribe(STREAM, "router", "two")
    taken = poll(logs, heir)
    assert keys(taken) == sorted(KEYS)
    logs.wakes(sleeper)
    commit(sleeper, polled)
    append(logs, *KEYS)
    assert list(poll(logs, sleeper)) == []
    commit(sleeper, polled)
    heir.close()
    sleeper.close()
    again = logs.subscribe(STREAM, "router", "three")
    assert keys(poll(logs, again)) == sorted(KEYS + KEYS)


def test_who_slept_past_the_lease_and_lost_nothing_goes_on(logs: Logs) -> None:
    append(logs, *KEYS)
    sleeper = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, sleeper)
    logs.passes(2 * LEASE)
    commit(sleeper, polled)
    append(logs, "new")
    assert keys(poll(logs, sleeper)) == ["new"]


def test_a_partition_that_comes_back_starts_behind_the_commit(logs: Logs) -> None:
    append(logs, *KEYS)
    first = logs.subscribe(STREAM, "router", "one")
    poll(logs, first)
    logs.sleeps(first)
    logs.passes(2 * LEASE)
    second = logs.subscribe(STREAM, "router", "two")
    commit(second, poll(logs, second, 30))
    logs.wakes(first)
    assert list(poll(logs, first)) == []
    second.close()
    settle(logs)
    assert len(poll(logs, first)) == len(KEYS) - 30


def test_closing_gives_the_partitions_back_at_once(logs: Logs) -> None:
    append(logs, *KEYS)
    first = logs.subscribe(STREAM, "router", "one")
    poll(logs, first)
    first.close()
    assert keys(poll(logs, logs.subscribe(STREAM, "router", "two"))) == sorted(KEYS)


def test_who_restarts_under_the_same_name_has_everything_when_the_lease_ends_and_its_former_life_nothing(
    logs: Logs,
) -> None:
    append(logs, *KEYS)
    before = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, before)
    after = logs.subscribe(STREAM, "router", "one")
    early = poll(logs, after)  # at once, where the name is what counts
    logs.passes(LEASE)
    assert keys([*early, *poll(logs, after)]) == sorted(KEYS)
    with suppress(Unavailable):  # who is told that another has its name by now
        commit(before, polled)
    with suppress(Unavailable):
        assert list(poll(logs, before)) == []
    assert after.lag() == len(KEYS)


def test_an_append_of_nothing_is_nothing(logs: Logs) -> None:
    logs.log.append([])
    assert list(poll(logs, logs.subscribe(STREAM, "router", "one"))) == []
