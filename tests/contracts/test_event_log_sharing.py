"""How consumers share the log: partition assignment, leases and takeover."""

from contextlib import suppress
from datetime import timedelta

import pytest

from notifier.domain.errors import Unavailable
from tests.contracts.event_log_backends import Logs
from tests.contracts.event_log_steps import (
    ALL,
    KEYS,
    LEASE,
    STREAM,
    append,
    commit,
    finish,
    is_empty,
    keys,
    partitions,
    poll,
    poll_all,
    poll_each,
)

pytestmark = pytest.mark.timeout(180)  # Kafka consumers are processes whose leases end in real time


def test_partitions_are_shared_evenly_without_overlap(logs: Logs) -> None:
    consumers = [logs.subscribe(STREAM, "router", owner) for owner in ("one", "two", "three")]
    logs.settle(consumers)
    append(logs, *KEYS)
    shares = [partitions(share) for share in poll_each(logs, consumers, due=len(KEYS))]
    assert sorted(len(share) for share in shares) == [1, 1, 2]
    assert len(set.union(*shares)) == ALL


def test_surplus_consumers_idle_and_all_records_are_read(logs: Logs) -> None:
    consumers = [logs.subscribe(STREAM, "router", f"owner {n}") for n in range(ALL + 2)]
    logs.settle(consumers)
    append(logs, *KEYS)
    assert keys(poll_all(logs, consumers, due=len(KEYS))) == sorted(KEYS)


def test_new_consumer_gets_share_of_partitions(logs: Logs) -> None:
    first = logs.subscribe(STREAM, "router", "one")
    append(logs, *KEYS)
    commit(first, poll(logs, first, due=len(KEYS)))
    finish(logs, first)
    second = logs.subscribe(STREAM, "router", "two")
    logs.settle([first, second])
    append(logs, *KEYS)
    shares = poll_each(logs, [first, second], due=len(KEYS))
    assert [len(partitions(share)) for share in shares] == [ALL / 2, ALL / 2]
    assert sorted(keys([*shares[0], *shares[1]])) == sorted(KEYS)


def test_prefetched_records_of_moved_partitions_are_read_by_new_owner(logs: Logs) -> None:
    append(logs, *KEYS, *KEYS, *KEYS)
    first = logs.subscribe(STREAM, "router", "one")
    records = list(poll(logs, first, 10))
    second = logs.subscribe(STREAM, "router", "two")
    logs.settle([first, second])
    records += [*poll(logs, first), *poll(logs, second)]
    assert len({(logged.partition, logged.offset) for logged in records}) == 3 * len(KEYS)


def test_dead_consumer_is_replaced_and_its_uncommitted_records_repeat(logs: Logs) -> None:
    append(logs, *KEYS)
    dead = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, dead, due=len(KEYS))
    commit(dead, polled[:1])
    suspended_at = logs.now()
    logs.suspend(dead)
    successor = logs.subscribe(STREAM, "router", "two")
    logs.advance(LEASE - logs.slack)
    early = list(poll(logs, successor, within=logs.patience / 15))
    # On a busy machine the successor may take so long to start that the lease has ended.
    assert not early or logs.now() - suspended_at >= LEASE - logs.early_by
    logs.advance(max(logs.slack, timedelta(seconds=1)))
    assert keys([*early, *poll(logs, successor, due=len(KEYS) - 1 - len(early))]) == keys(polled[1:])


def test_consumer_suspended_past_its_lease_cannot_poll_or_commit(logs: Logs) -> None:
    append(logs, *KEYS)
    suspended = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, suspended, due=len(KEYS))
    logs.suspend(suspended)
    logs.advance(2 * LEASE)
    successor = logs.subscribe(STREAM, "router", "two")
    taken_over = poll(logs, successor, due=len(KEYS))
    assert keys(taken_over) == sorted(KEYS)
    logs.resume(suspended)
    commit(suspended, polled)
    append(logs, *KEYS)
    assert is_empty(logs, suspended)
    commit(suspended, polled)
    successor.close()
    suspended.close()
    third = logs.subscribe(STREAM, "router", "three")
    assert keys(poll(logs, third, due=2 * len(KEYS))) == sorted(KEYS + KEYS)


def test_expired_lease_without_takeover_loses_nothing(logs: Logs) -> None:
    append(logs, *KEYS)
    consumer = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, consumer, due=len(KEYS))
    logs.advance(2 * LEASE)
    commit(consumer, polled)
    append(logs, "new")
    assert keys(poll(logs, consumer)) == ["new"]


def test_lost_partitions_are_reported_until_they_are_free_again(logs: Logs) -> None:
    append(logs, *KEYS)
    suspended = logs.subscribe(STREAM, "router", "one")
    poll(logs, suspended, due=len(KEYS))
    assert suspended.still_owns_polled_records()
    logs.suspend(suspended)
    logs.advance(2 * LEASE)
    successor = logs.subscribe(STREAM, "router", "two")
    poll(logs, successor, due=len(KEYS))
    assert successor.still_owns_polled_records()
    logs.resume(suspended)
    assert not suspended.still_owns_polled_records()
    successor.close()
    logs.settle([suspended])
    assert keys(poll(logs, suspended, due=len(KEYS))) == sorted(KEYS)


def test_ownership_check_does_not_change_the_position(logs: Logs) -> None:
    append(logs, *KEYS)
    consumer = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, consumer, due=len(KEYS))
    commit(consumer, polled[:1])
    assert consumer.still_owns_polled_records()
    append(logs, "new")
    assert keys(poll(logs, consumer)) == ["new"]


def test_returned_partition_starts_after_last_commit(logs: Logs) -> None:
    append(logs, *KEYS)
    first = logs.subscribe(STREAM, "router", "one")
    poll(logs, first, due=len(KEYS))
    logs.suspend(first)
    logs.advance(2 * LEASE)
    second = logs.subscribe(STREAM, "router", "two")
    commit(second, poll(logs, second, 30))
    logs.resume(first)
    assert is_empty(logs, first)
    second.close()
    logs.settle([first])
    assert len(poll(logs, first, due=len(KEYS) - 30)) == len(KEYS) - 30


def test_close_releases_partitions_at_once(logs: Logs) -> None:
    append(logs, *KEYS)
    first = logs.subscribe(STREAM, "router", "one")
    poll(logs, first, due=len(KEYS))
    first.close()
    assert keys(poll(logs, logs.subscribe(STREAM, "router", "two"), due=len(KEYS))) == sorted(KEYS)


def test_consumer_restarted_under_same_name_takes_over_at_lease_end(logs: Logs) -> None:
    append(logs, *KEYS)
    old_consumer = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, old_consumer, due=len(KEYS))
    new_consumer = logs.subscribe(STREAM, "router", "one")
    early = poll(logs, new_consumer)  # at once, where consumers are identified by name
    logs.advance(LEASE)
    assert keys([*early, *poll(logs, new_consumer, due=len(KEYS) - len(early))]) == sorted(KEYS)
    with suppress(Unavailable):  # it learns that another consumer has taken its name
        commit(old_consumer, polled)
    with suppress(Unavailable):
        assert is_empty(logs, old_consumer)
    assert new_consumer.lag() == len(KEYS)
