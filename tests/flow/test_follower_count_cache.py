"""The router's cache of follower counts: expiry, eviction, and the lane of an account."""

from datetime import timedelta

from notifier.domain.delivery.plan import FollowerCounts
from notifier.domain.ids import Kind, Lane, Subject, UserId
from notifier.flow.intake.mention_router import COUNTS_TTL, FollowerCountCache
from tests.support.fakes.activity_member_sets_and_follows import MemoryMemberSets
from tests.support.fakes.bursts_and_sequence_heads import MemoryHeads
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.user_directory_and_account_flags import MemoryDirectory


class CountedSets(MemoryMemberSets):
    def __init__(self) -> None:
        super().__init__(MemoryDirectory())
        self.reads: list[str] = []

    def follower_counts(self, subject: Subject) -> FollowerCounts:
        self.reads.append(subject.owner)
        return super().follower_counts(subject)


def mentions_of(name: str) -> Subject:
    return Subject(Kind.MENTION, UserId(name))


def test_size_is_read_once_in_five_minutes() -> None:
    sets, clock = CountedSets(), ManualClock()
    sizes = FollowerCountCache(sets=sets, heads=MemoryHeads(), clock=clock, threshold=10)
    for _ in range(3):
        assert sizes(mentions_of("nova")) == (0, Lane.STANDARD)
    clock.advance(COUNTS_TTL - timedelta(seconds=1))
    sizes(mentions_of("nova"))
    assert sets.reads == ["nova"]
    clock.advance(timedelta(seconds=1))
    sizes(mentions_of("nova"))
    assert sets.reads == ["nova", "nova"]


def test_least_recently_mentioned_account_is_evicted_first() -> None:
    sets = CountedSets()
    sizes = FollowerCountCache(sets=sets, heads=MemoryHeads(), clock=ManualClock(), threshold=10, max_entries=2)
    for name in ("a", "b", "a", "c", "a", "b"):
        sizes(mentions_of(name))
    assert sets.reads == ["a", "b", "c", "b"]


def test_number_of_cached_sizes_is_bounded() -> None:
    sizes = FollowerCountCache(
        sets=CountedSets(), heads=MemoryHeads(), clock=ManualClock(), threshold=10, max_entries=100
    )
    for number in range(10_000):
        sizes(mentions_of(f"u{number}"))
    assert len(sizes._entries) == 100


def test_celebrity_between_the_thresholds_keeps_its_lane() -> None:
    sets, clock = CountedSets(), ManualClock()
    sizes = FollowerCountCache(sets=sets, heads=MemoryHeads(), clock=clock, threshold=10)
    sets.put_follower_counts({mentions_of("nova"): FollowerCounts(total=10, by_shard=(10,))})
    assert sizes(mentions_of("nova")) == (10, Lane.CELEBRITY)
    sets.put_follower_counts({mentions_of("nova"): FollowerCounts(total=9, by_shard=(9,))})
    clock.advance(COUNTS_TTL + timedelta(seconds=1))
    assert sizes(mentions_of("nova")) == (9, Lane.CELEBRITY)
