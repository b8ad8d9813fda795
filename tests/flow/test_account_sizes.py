"""Cached account sizes of the router: expiry, eviction and lane."""

from datetime import timedelta

from notifier.domain.delivery.plan import SetHead
from notifier.domain.ids import Kind, Lane, Subject, UserId
from notifier.flow.intake.router import SIZES_KEPT_FOR, Sizes
from tests.support.fakes.audience import MemoryMemberSets
from tests.support.fakes.bursts import MemoryHeads
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import MemoryDirectory


class CountedSets(MemoryMemberSets):
    def __init__(self) -> None:
        super().__init__(MemoryDirectory())
        self.reads: list[str] = []

    def head(self, subject: Subject) -> SetHead:
        self.reads.append(subject.owner)
        return super().head(subject)


def named(name: str) -> Subject:
    return Subject(Kind.MENTION, UserId(name))


def test_size_is_read_once_in_five_minutes() -> None:
    sets, clock = CountedSets(), ManualClock()
    sizes = Sizes(sets=sets, heads=MemoryHeads(), clock=clock, threshold=10)
    for _ in range(3):
        assert sizes(named("nova")) == (0, Lane.STANDARD)
    assert sets.reads == ["nova"]
    clock.advance(SIZES_KEPT_FOR)
    sizes(named("nova"))
    assert sets.reads == ["nova", "nova"]


def test_least_recently_mentioned_account_is_evicted_first() -> None:
    sets = CountedSets()
    sizes = Sizes(sets=sets, heads=MemoryHeads(), clock=ManualClock(), threshold=10, kept=2)
    for name in ("a", "b", "a", "c", "a", "b"):
        sizes(named(name))
    assert sets.reads == ["a", "b", "c", "b"]


def test_number_of_cached_sizes_is_bounded() -> None:
    sizes = Sizes(sets=CountedSets(), heads=MemoryHeads(), clock=ManualClock(), threshold=10, kept=100)
    for number in range(10_000):
        sizes(named(f"u{number}"))
    assert len(sizes._known) == 100


def test_celebrity_between_the_thresholds_keeps_its_lane() -> None:
    sets, clock = CountedSets(), ManualClock()
    sizes = Sizes(sets=sets, heads=MemoryHeads(), clock=clock, threshold=10)
    sets.put_heads({named("nova"): SetHead(total=10, counts=(10,))})
    assert sizes(named("nova")) == (10, Lane.CELEBRITY)
    sets.put_heads({named("nova"): SetHead(total=9, counts=(9,))})
    clock.advance(SIZES_KEPT_FOR + timedelta(seconds=1))
    assert sizes(named("nova")) == (9, Lane.CELEBRITY)
