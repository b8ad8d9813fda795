"""Who reads what of the event log: shares, leases, take-over; nobody waits where time is set by hand."""

from contextlib import suppress
from datetime import timedelta

import pytest

from notifier.domain.errors import Unavailable
from tests.contracts.logs import Logs
from tests.contracts.reading import (
    ALL,
    KEYS,
    LEASE,
    STREAM,
    append,
    commit,
    finish,
    keys,
    nothing,
    partitions,
    poll,
    poll_all,
    poll_each,
)

pytestmark = pytest.mark.timeout(180)  # readers are processes of their own, whose leases end by the real clock


def test_the_living_share_the_partitions_evenly_and_without_overlap(logs: Logs) -> None:
    consumers = [logs.subscribe(STREAM, "router", owner) for owner in ("one", "two", "three")]
    logs.settle(consumers)
    append(logs, *KEYS)
    shares = [partitions(share) for share in poll_each(logs, consumers, due=len(KEYS))]
    assert sorted(len(share) for share in shares) == [1, 1, 2]
    assert len(set.union(*shares)) == ALL


def test_more_consumers_than_partitions_leave_some_idle_and_nothing_unread(logs: Logs) -> None:
    consumers = [logs.subscribe(STREAM, "router", f"owner {n}") for n in range(ALL + 2)]
    logs.settle(consumers)
    append(logs, *KEYS)
    assert keys(poll_all(logs, consumers, due=len(KEYS))) == sorted(KEYS)


def test_a_newcomer_gets_its_share_from_those_who_had_all(logs: Logs) -> None:
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


def test_what_a_reader_had_ahead_when_another_came_is_read_by_whoever_has_it_now(logs: Logs) -> None:
    append(logs, *KEYS, *KEYS, *KEYS)
    first = logs.subscribe(STREAM, "router", "one")
    found = list(poll(logs, first, 10))
    second = logs.subscribe(STREAM, "router", "two")
    logs.settle([first, second])
    found += [*poll(logs, first), *poll(logs, second)]
    assert len({(one.partition, one.offset) for one in found}) == 3 * len(KEYS)


def test_a_dead_owner_is_replaced_when_its_lease_ends_and_its_open_work_is_done_again(logs: Logs) -> None:
    append(logs, *KEYS)
    dead = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, dead, due=len(KEYS))
    commit(dead, polled[:1])
    asleep_since = logs.now()
    logs.sleeps(dead)
    heir = logs.subscribe(STREAM, "router", "two")
    logs.passes(LEASE - logs.slack)
    early = list(poll(logs, heir, within=logs.patience / 15))
    # On a busy machine the heir may take so long to start that the lease has ended.
    assert not early or logs.now() - asleep_since >= LEASE - logs.doubt
    logs.passes(max(logs.slack, timedelta(seconds=1)))
    assert keys([*early, *poll(logs, heir, due=len(KEYS) - 1 - len(early))]) == keys(polled[1:])


def test_who_slept_past_the_lease_polls_and_commits_nothing_of_what_was_lost(logs: Logs) -> None:
    append(logs, *KEYS)
    sleeper = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, sleeper, due=len(KEYS))
    logs.sleeps(sleeper)
    logs.passes(2 * LEASE)
    heir = logs.subscribe(STREAM, "router", "two")
    taken = poll(logs, heir, due=len(KEYS))
    assert keys(taken) == sorted(KEYS)
    logs.wakes(sleeper)
    commit(sleeper, polled)
    append(logs, *KEYS)
    assert nothing(logs, sleeper)
    commit(sleeper, polled)
    heir.close()
    sleeper.close()
    again = logs.subscribe(STREAM, "router", "three")
    assert keys(poll(logs, again, due=2 * len(KEYS))) == sorted(KEYS + KEYS)


def test_who_slept_past_the_lease_and_lost_nothing_goes_on(logs: Logs) -> None:
    append(logs, *KEYS)
    sleeper = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, sleeper, due=len(KEYS))
    logs.passes(2 * LEASE)
    commit(sleeper, polled)
    append(logs, "new")
    assert keys(poll(logs, sleeper)) == ["new"]


def test_who_lost_what_it_polled_is_told_when_it_asks_and_gets_it_again_when_it_is_free(logs: Logs) -> None:
    append(logs, *KEYS)
    sleeper = logs.subscribe(STREAM, "router", "one")
    poll(logs, sleeper, due=len(KEYS))
    assert sleeper.holds()
    logs.sleeps(sleeper)
    logs.passes(2 * LEASE)
    heir = logs.subscribe(STREAM, "router", "two")
    poll(logs, heir, due=len(KEYS))
    assert heir.holds()
    logs.wakes(sleeper)
    assert not sleeper.holds()
    heir.close()
    logs.settle([sleeper])
    assert keys(poll(logs, sleeper, due=len(KEYS))) == sorted(KEYS)


def test_who_asks_whether_it_holds_what_it_polled_goes_on_where_it_was(logs: Logs) -> None:
    append(logs, *KEYS)
    reader = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, reader, due=len(KEYS))
    commit(reader, polled[:1])
    assert reader.holds()
    append(logs, "new")
    assert keys(poll(logs, reader)) == ["new"]


def test_a_partition_that_comes_back_starts_behind_the_commit(logs: Logs) -> None:
    append(logs, *KEYS)
    first = logs.subscribe(STREAM, "router", "one")
    poll(logs, first, due=len(KEYS))
    logs.sleeps(first)
    logs.passes(2 * LEASE)
    second = logs.subscribe(STREAM, "router", "two")
    commit(second, poll(logs, second, 30))
    logs.wakes(first)
    assert nothing(logs, first)
    second.close()
    logs.settle([first])
    assert len(poll(logs, first, due=len(KEYS) - 30)) == len(KEYS) - 30


def test_closing_gives_the_partitions_back_at_once(logs: Logs) -> None:
    append(logs, *KEYS)
    first = logs.subscribe(STREAM, "router", "one")
    poll(logs, first, due=len(KEYS))
    first.close()
    assert keys(poll(logs, logs.subscribe(STREAM, "router", "two"), due=len(KEYS))) == sorted(KEYS)


def test_who_restarts_under_the_same_name_has_everything_when_the_lease_ends_and_its_former_life_nothing(
    logs: Logs,
) -> None:
    append(logs, *KEYS)
    before = logs.subscribe(STREAM, "router", "one")
    polled = poll(logs, before, due=len(KEYS))
    after = logs.subscribe(STREAM, "router", "one")
    early = poll(logs, after)  # at once, where the name is what counts
    logs.passes(LEASE)
    assert keys([*early, *poll(logs, after, due=len(KEYS) - len(early))]) == sorted(KEYS)
    with suppress(Unavailable):  # who is told that another has its name by now
        commit(before, polled)
    with suppress(Unavailable):
        assert nothing(logs, before)
    assert after.lag() == len(KEYS)
