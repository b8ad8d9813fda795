"""The bursts beside one: those that were to ring, as far back as they are asked for, and what they cost."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import BurstKey
from notifier.flow.push.catch_up import FIRST_READ, SiblingBursts
from tests.support.examples import BOB, HOUR, MINUTE, NOON, burst
from tests.support.fakes.bursts import MemoryBursts

DAY = timedelta(hours=24)


class Counted(MemoryBursts):
    def __init__(self, *bursts: Burst) -> None:
        super().__init__()
        self.write(bursts, [])
        self.asked: list[int] = []

    def read(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        self.asked += [key.seq for key in keys]
        return super().read(keys)


def row(seqs: range) -> list[Burst]:
    """A minute apart, the hundredth at noon."""
    return [burst(seq=seq, opened_at=NOON + (seq - 100) * MINUTE) for seq in seqs]


def silent(one: Burst) -> Burst:
    return replace(one, pull_only=True, restricted_to=BOB)


def seqs(bursts: Collection[Burst]) -> list[int]:
    return [one.key.seq for one in bursts]


def test_all_that_came_later_are_found_the_newest_first() -> None:
    one, *others = row(range(100, 200))
    near = SiblingBursts(bursts=Counted(one, *others, burst(seq=500)))
    assert seqs(near.newer(one)) == [*range(199, 100, -1)]
    assert seqs(near.newer(others[-1])) == []


def test_those_before_it_are_found_as_far_back_as_they_are_asked_for() -> None:
    *others, one = row(range(1, 101))
    near = SiblingBursts(bursts=Counted(*others, one))
    assert seqs(near.older(one, NOON - HOUR)) == [*range(99, 39, -1)]
    assert seqs(near.older(one, NOON - DAY)) == [*range(99, 0, -1)]
    assert seqs(near.older(others[0], NOON - DAY)) == []


def test_what_opened_too_long_ago_is_hardly_looked_at() -> None:
    *others, one = row(range(1, 10_001))
    bursts = Counted(*others, one)
    SiblingBursts(bursts=bursts).older(one, one.opened_at - 3 * MINUTE)
    assert bursts.asked == [*range(9_999, 9_999 - FIRST_READ, -1)]


def test_those_that_never_ring_are_passed_over_and_asked_for_once() -> None:
    first, *between, last = row(range(1, 101))
    held = replace(between[7], verdict=Verdict.ROW)
    bursts = Counted(first, last, held, *(silent(one) for one in between if one.key != held.key))
    near = SiblingBursts(bursts=bursts)
    for _ in range(2):
        bursts.asked.clear()
        assert seqs(near.older(last, NOON - DAY)) == [1]
        assert seqs(near.newer(first)) == [100]
    assert len([seq for seq in bursts.asked if seq <= 100]) == 2


def test_one_that_was_taken_back_since_is_told_as_it_stands() -> None:
    one, other = row(range(1, 3))
    bursts = Counted(one, other)
    near = SiblingBursts(bursts=bursts)
    assert [found.silent for found in near.newer(one)] == [False]
    bursts.write([replace(other, silent=True, version=other.version + 1)], [])
    assert [found.silent for found in near.newer(one)] == [True]


def test_so_many_are_remembered_and_no_more_and_all_are_found_all_the_same() -> None:
    first, *between, last = row(range(1, 201))
    near = SiblingBursts(bursts=Counted(first, last, *map(silent, between)), most=40)
    for _ in range(3):
        assert seqs(near.newer(first)) == [200]
        assert seqs(near.older(last, NOON - DAY)) == [1]
        assert len(near.without_alerts) <= 40 + 16 * FIRST_READ
