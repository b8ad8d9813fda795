"""When a grown topic's new partitions may be read: decided from commits and ends alone."""

from notifier.adapters.kafka.partition_growth import SETTLE_TIME, PartitionGrowth, has_begun

OLD: dict[int, int | None] = {0: 5, 1: 9}
GROWN: dict[int, int | None] = {**OLD, 2: None, 3: None}
BOUNDS = {0: (0, 8), 1: (0, 9), 2: (0, 4), 3: (0, 0)}


def settled(commits: dict[int, int | None] = GROWN) -> PartitionGrowth:
    """At a moment when it has just taken down what the elders have."""
    growth = PartitionGrowth()
    growth.update(commits, now=0.0)
    assert list(growth.release(commits, BOUNDS, SETTLE_TIME)) == []
    return growth


def test_a_group_has_begun_once_it_has_any_commit() -> None:
    assert not has_begun({0: None, 1: None})
    assert has_begun({0: 0, 1: None})


def test_nothing_is_held_where_every_partition_has_a_commit() -> None:
    growth = PartitionGrowth()
    growth.update(OLD, now=0.0)
    assert not growth.holds


def test_a_new_partition_is_read_once_its_elders_are_read_to_where_they_ended_after_all_knew_of_it() -> None:
    growth = settled()
    later = {**BOUNDS, 0: (0, 100), 1: (0, 100)}
    assert list(growth.release({**GROWN, 0: 7}, later, SETTLE_TIME + 1)) == []
    assert sorted(growth.release({**GROWN, 0: 8}, later, SETTLE_TIME + 1)) == [2, 3]


def test_before_all_know_of_it_nothing_is_released_however_far_the_elders_are_read() -> None:
    growth = PartitionGrowth()
    growth.update(GROWN, now=0.0)
    done = {**GROWN, 0: 8}
    assert [list(growth.release(done, BOUNDS, now)) for now in (0.0, 1.0, SETTLE_TIME - 0.1)] == [[], [], []]
    assert all(hold.ends is None for hold in growth.holds.values())


def test_an_elder_whose_records_expired_unread_holds_nothing_up() -> None:
    assert sorted(settled().release(GROWN, {**BOUNDS, 0: (8, 8)}, SETTLE_TIME + 1)) == [2, 3]


def test_learning_again_forgets_nothing_that_was_seen_before() -> None:
    growth = settled()
    growth.update(GROWN, now=SETTLE_TIME + 1)
    assert sorted(growth.release({**GROWN, 0: 8}, BOUNDS, SETTLE_TIME + 2)) == [2, 3]


def test_what_another_reader_released_is_held_no_more() -> None:
    growth = settled()
    growth.update({**GROWN, 2: 0}, now=SETTLE_TIME + 1)
    assert list(growth.holds) == [3]


def test_a_second_growth_waits_for_the_partitions_of_the_first() -> None:
    growth = settled()
    growth.update({**GROWN, 4: None}, now=SETTLE_TIME + 1)
    bounds = {**BOUNDS, 4: (0, 3)}
    done: dict[int, int | None] = {**GROWN, 0: 8, 4: None}
    assert sorted(growth.release(done, bounds, 2 * SETTLE_TIME + 1)) == [2, 3]
    assert list(growth.older_partitions()) == [0, 1, 2, 3]
    done |= {2: 0, 3: 0}
    growth.update(done, now=2 * SETTLE_TIME + 2)
    assert list(growth.release(done, bounds, 2 * SETTLE_TIME + 3)) == []
    assert list(growth.release({**done, 2: 4}, bounds, 2 * SETTLE_TIME + 4)) == [4]
