"""Lookup of a subject's other bursts that alert: order, range, cost and eviction."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import BurstKey
from notifier.flow.push.late_alert_catch_up import FIRST_READ_SIZE, SameSubjectBursts
from tests.support.domain_examples import BOB, HOUR, MINUTE, NOON, burst
from tests.support.fakes.bursts_and_sequence_heads import MemoryBursts

DAY = timedelta(hours=24)


class Counted(MemoryBursts):
    def __init__(self, *bursts: Burst) -> None:
        super().__init__()
        self.write(bursts, [])
        self.read_seqs: list[int] = []

    def read(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        self.read_seqs += [key.seq for key in keys]
        return super().read(keys)


def bursts_by_minute(seqs: range) -> list[Burst]:
    """Return bursts that opened a minute apart, the hundredth at noon."""
    return [burst(seq=seq, opened_at=NOON + (seq - 100) * MINUTE) for seq in seqs]


def restricted_and_pull_only(burst_: Burst) -> Burst:
    return replace(burst_, pull_only=True, restricted_to=BOB)


def seqs(bursts: Collection[Burst]) -> list[int]:
    return [burst_.key.seq for burst_ in bursts]


def test_newer_siblings_are_returned_newest_first() -> None:
    first, *later = bursts_by_minute(range(100, 200))
    siblings = SameSubjectBursts(bursts=Counted(first, *later, burst(seq=500)))
    assert seqs(siblings.newer(first)) == [*range(199, 100, -1)]
    assert seqs(siblings.newer(later[-1])) == []


def test_older_siblings_are_returned_since_a_given_time() -> None:
    *earlier, last = bursts_by_minute(range(1, 101))
    siblings = SameSubjectBursts(bursts=Counted(*earlier, last))
    assert seqs(siblings.older(last, NOON - HOUR)) == [*range(99, 39, -1)]
    assert seqs(siblings.older(last, NOON - DAY)) == [*range(99, 0, -1)]
    assert seqs(siblings.older(earlier[0], NOON - DAY)) == []


def test_siblings_of_a_short_period_cost_one_small_read() -> None:
    *earlier, last = bursts_by_minute(range(1, 10_001))
    bursts = Counted(*earlier, last)
    SameSubjectBursts(bursts=bursts).older(last, last.opened_at - 3 * MINUTE)
    assert bursts.read_seqs == [*range(9_999, 9_999 - FIRST_READ_SIZE, -1)]


def test_siblings_without_alerts_are_skipped_and_read_once() -> None:
    first, *between, last = bursts_by_minute(range(1, 101))
    row_only = replace(between[7], verdict=Verdict.ROW)
    bursts = Counted(
        first, last, row_only, *(restricted_and_pull_only(burst_) for burst_ in between if burst_.key != row_only.key)
    )
    siblings = SameSubjectBursts(bursts=bursts)
    for _ in range(2):
        bursts.read_seqs.clear()
        assert seqs(siblings.older(last, NOON - DAY)) == [1]
        assert seqs(siblings.newer(first)) == [100]
    assert len([seq for seq in bursts.read_seqs if seq <= 100]) == 2


def test_retracted_sibling_is_returned_in_its_current_state() -> None:
    first, second = bursts_by_minute(range(1, 3))
    bursts = Counted(first, second)
    siblings = SameSubjectBursts(bursts=bursts)
    assert [sibling.silent for sibling in siblings.newer(first)] == [False]
    bursts.write([replace(second, silent=True, version=second.version + 1)], [])
    assert [sibling.silent for sibling in siblings.newer(first)] == [True]


def test_memory_of_skipped_siblings_is_bounded() -> None:
    first, *between, last = bursts_by_minute(range(1, 201))
    siblings = SameSubjectBursts(
        bursts=Counted(first, last, *map(restricted_and_pull_only, between)), max_bursts_without_alerts=40
    )
    for _ in range(3):
        assert seqs(siblings.newer(first)) == [200]
        assert seqs(siblings.older(last, NOON - DAY)) == [1]
        assert len(siblings.bursts_without_alerts) <= 40 + 16 * FIRST_READ_SIZE
