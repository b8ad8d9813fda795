"""New partitions of a grown topic are withheld until the older partitions are read."""

from notifier.adapters.kafka.partition_growth import PRODUCER_SWITCH_SECONDS, PartitionGrowth, any_committed

INITIAL: dict[int, int | None] = {0: 5, 1: 9}
GROWN: dict[int, int | None] = {**INITIAL, 2: None, 3: None}
BOUNDS = {0: (0, 8), 1: (0, 9), 2: (0, 4), 3: (0, 0)}


def with_recorded_ends(commits: dict[int, int | None] = GROWN) -> PartitionGrowth:
    """Return a partition growth that has just recorded the end offsets of the older partitions."""
    growth = PartitionGrowth()
    growth.withhold_new(commits, now=0.0)
    assert list(growth.newly_readable(commits, BOUNDS, PRODUCER_SWITCH_SECONDS)) == []
    return growth


def test_group_without_any_commit_is_recognized() -> None:
    assert not any_committed({0: None, 1: None})
    assert any_committed({0: 0, 1: None})


def test_no_partition_is_withheld_if_all_have_commits() -> None:
    growth = PartitionGrowth()
    growth.withhold_new(INITIAL, now=0.0)
    assert not growth.withheld


def test_new_partition_is_released_after_older_ones_are_read() -> None:
    growth = with_recorded_ends()
    later_bounds = {**BOUNDS, 0: (0, 100), 1: (0, 100)}
    assert list(growth.newly_readable({**GROWN, 0: 7}, later_bounds, PRODUCER_SWITCH_SECONDS + 1)) == []
    assert sorted(growth.newly_readable({**GROWN, 0: 8}, later_bounds, PRODUCER_SWITCH_SECONDS + 1)) == [2, 3]


def test_no_partition_is_released_before_all_producers_switch() -> None:
    growth = PartitionGrowth()
    growth.withhold_new(GROWN, now=0.0)
    commits = {**GROWN, 0: 8}
    assert [list(growth.newly_readable(commits, BOUNDS, now)) for now in (0.0, 1.0, PRODUCER_SWITCH_SECONDS - 0.1)] == [
        [],
        [],
        [],
    ]
    assert all(partition.older_ends is None for partition in growth.withheld.values())


def test_expired_unread_records_do_not_delay_release() -> None:
    growth = with_recorded_ends()
    assert sorted(growth.newly_readable(GROWN, {**BOUNDS, 0: (8, 8)}, PRODUCER_SWITCH_SECONDS + 1)) == [2, 3]


def test_repeated_update_keeps_recorded_end_offsets() -> None:
    growth = with_recorded_ends()
    growth.withhold_new(GROWN, now=PRODUCER_SWITCH_SECONDS + 1)
    assert sorted(growth.newly_readable({**GROWN, 0: 8}, BOUNDS, PRODUCER_SWITCH_SECONDS + 2)) == [2, 3]


def test_partition_released_by_another_consumer_is_not_withheld() -> None:
    growth = with_recorded_ends()
    growth.withhold_new({**GROWN, 2: 0}, now=PRODUCER_SWITCH_SECONDS + 1)
    assert list(growth.withheld) == [3]


def test_second_growth_waits_for_partitions_of_the_first() -> None:
    growth = with_recorded_ends()
    growth.withhold_new({**GROWN, 4: None}, now=PRODUCER_SWITCH_SECONDS + 1)
    bounds = {**BOUNDS, 4: (0, 3)}
    commits: dict[int, int | None] = {**GROWN, 0: 8, 4: None}
    assert sorted(growth.newly_readable(commits, bounds, 2 * PRODUCER_SWITCH_SECONDS + 1)) == [2, 3]
    assert list(growth.older_partitions()) == [0, 1, 2, 3]
    commits |= {2: 0, 3: 0}
    growth.withhold_new(commits, now=2 * PRODUCER_SWITCH_SECONDS + 2)
    assert list(growth.newly_readable(commits, bounds, 2 * PRODUCER_SWITCH_SECONDS + 3)) == []
    assert list(growth.newly_readable({**commits, 2: 4}, bounds, 2 * PRODUCER_SWITCH_SECONDS + 4)) == [4]
