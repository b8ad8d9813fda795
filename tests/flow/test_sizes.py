"""What the router remembers of accounts' sizes: not longer than it says, and not more of them."""

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
        self.asked: list[str] = []

    def head(self, subject: Subject) -> SetHead:
        self.asked.append(subject.owner)
        return super().head(subject)


def named(name: str) -> Subject:
    return Subject(Kind.MENTION, UserId(name))


def test_a_size_is_read_once_in_five_minutes() -> None:
    sets, clock = CountedSets(), ManualClock()
    sizes = Sizes(sets=sets, heads=MemoryHeads(), clock=clock, threshold=10)
    for _ in range(3):
        assert sizes(named("nova")) == (0, Lane.STANDARD)
    assert sets.asked == ["nova"]
    clock.advance(SIZES_KEPT_FOR)
    sizes(named("nova"))
    assert sets.asked == ["nova", "nova"]


def test_the_account_that_was_named_longest_ago_is_forgotten_first() -> None:
    sets = CountedSets()
    sizes = Sizes(sets=sets, heads=MemoryHeads(), clock=ManualClock(), threshold=10, kept=2)
    for name in ("a", "b", "a", "c", "a", "b"):
        sizes(named(name))
    assert sets.asked == ["a", "b", "c", "b"]


def test_accounts_that_are_named_once_leave_no_more_than_are_kept() -> None:
    sizes = Sizes(sets=CountedSets(), heads=MemoryHeads(), clock=ManualClock(), threshold=10, kept=100)
    for number in range(10_000):
        sizes(named(f"u{number}"))
    assert len(sizes._known) == 100


def test_a_celebrity_that_is_named_again_in_time_keeps_its_lane_between_the_two_lines() -> None:
    sets, clock = CountedSets(), ManualClock()
    sizes = Sizes(sets=sets, heads=MemoryHeads(), clock=clock, threshold=10)
    sets.put_heads({named("nova"): SetHead(total=10, counts=(10,))})
    assert sizes(named("nova")) == (10, Lane.CELEBRITY)
    sets.put_heads({named("nova"): SetHead(total=9, counts=(9,))})
    clock.advance(SIZES_KEPT_FOR + timedelta(seconds=1))
    assert sizes(named("nova")) == (9, Lane.CELEBRITY)
