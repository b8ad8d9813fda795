"""Audience verification: compares follower counts and bitmaps with the stored rows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from notifier.domain.audience.bitmap import SHARD_MEMBERS, count, no_members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.delivery.plan import FollowerCounts
from notifier.domain.ids import Kind, Subject, UserId
from notifier.flow.indexing.bitmap_updates_and_repair import count_unreadable, read_bitmap, repair_records
from notifier.ports.audience import Follows, MemberSets
from notifier.ports.event_log_and_dead_letters import EventLog
from notifier.ports.user_directory_and_account_flags import Directory
from notifier.ports.viewers_preferences_user_blocks import AccountPreferencesStore, SubjectPreferences


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardComparison:
    shard: int
    followers: int
    """Number of followers according to the rows. `check_counts` uses the bitmap or, if it is unreadable, the counts."""
    missing: int
    """Number of members of the rows that are missing in a bitmap, added up over all bitmaps of the shard."""
    extra: int
    """Number of members of a bitmap that are in no row, added up over all bitmaps of the shard."""
    unreadable: int
    """Number of unreadable bitmaps of the shard."""
    counted_followers: int
    """Number of followers according to the follower counts."""

    @property
    def has_differences(self) -> bool:
        return bool(self.missing or self.extra or self.unreadable or self.counted_followers != self.followers)


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceVerification:
    directory: Directory
    follows: Follows
    subject_preferences: SubjectPreferences
    account_preferences: AccountPreferencesStore
    sets: MemberSets
    log: EventLog

    def verify(
        self,
        user: UserId,
        shards: Iterable[int],
        min_followers: float = inf,
        advance: Callable[[int], object] = lambda _: None,
    ) -> Sequence[ShardComparison]:
        """Compare shards, in the given order, until they have at least `min_followers` followers in total."""
        subject, results, compared_followers = Subject(Kind.MENTION, user), list[ShardComparison](), 0
        counts = self.sets.follower_counts(subject)
        for shard in shards:
            results.append(self._compare(subject, shard, counts))
            compared_followers += results[-1].followers
            advance(1)
            if compared_followers >= min_followers:
                break
        return results

    def check_counts(
        self, user: UserId, shards: Iterable[int], advance: Callable[[int], object] = lambda _: None
    ) -> Sequence[ShardComparison]:
        """Check that bitmaps are readable, and that follower bitmaps match the follower counts. Rows are not read."""
        subject, results = Subject(Kind.MENTION, user), list[ShardComparison]()
        counts = self.sets.follower_counts(subject)
        for shard in shards:
            results.append(self._check_counts(subject, shard, counts))
            advance(1)
        return results

    def repair(self, user: UserId, comparisons: Sequence[ShardComparison]) -> int:
        """Ask the graph indexer to rebuild all shards with differences; return their number."""
        wrong_shards = [result.shard for result in comparisons if result.has_differences]
        self.log.append(list(repair_records(user, wrong_shards)))
        return len(wrong_shards)

    def shards(self, user: UserId) -> Sequence[int]:
        """Return all shards that may contain followers."""
        counts = self.sets.follower_counts(Subject(Kind.MENTION, user))
        return range(max(len(counts.by_shard), -(-self.directory.next_number() // SHARD_MEMBERS)))

    def _compare(self, subject: Subject, shard: int, counts: FollowerCounts) -> ShardComparison:
        subject_sets = {
            SetKind.FOLLOWERS: self.follows.followers(subject, shard),
            **self.subject_preferences.member_sets(subject, shard),
        }
        account_wide_sets = self.account_preferences.member_sets(shard)
        sets_from_rows = {**subject_sets, **account_wide_sets}
        bitmaps = {
            kind: read_bitmap(self.sets, kind, subject if kind in subject_sets else None, shard)
            for kind in sets_from_rows
        }
        pairs = [
            (row_bits, no_members() if bits is None else bits)
            for row_bits, bits in zip(sets_from_rows.values(), bitmaps.values(), strict=True)
        ]
        return ShardComparison(
            shard=shard,
            followers=count(sets_from_rows[SetKind.FOLLOWERS]),
            missing=sum(count(row_bits & ~bits) for row_bits, bits in pairs),
            extra=sum(count(bits & ~row_bits) for row_bits, bits in pairs),
            unreadable=sum(bits is None for bits in bitmaps.values()),
            counted_followers=_counted_followers(counts, shard),
        )

    def _check_counts(self, subject: Subject, shard: int, counts: FollowerCounts) -> ShardComparison:
        counted_followers = _counted_followers(counts, shard)
        followers = read_bitmap(self.sets, SetKind.FOLLOWERS, subject, shard)
        return ShardComparison(
            shard=shard,
            followers=counted_followers if followers is None else count(followers),
            missing=0,
            extra=0,
            unreadable=count_unreadable(self.sets, subject, shard),
            counted_followers=counted_followers,
        )


def _counted_followers(counts: FollowerCounts, shard: int) -> int:
    return counts.by_shard[shard] if shard < len(counts.by_shard) else 0
