"""Oracle: expected result of a storm, by the world's formulas, accepted events and stored bursts.

It shares no rule with the pipeline. Audiences are evaluated member by member, and inboxes event by event.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from notifier.devkit.check.mention_storm import Tweet
from notifier.devkit.fixture.sample_users_and_devices import FixtureUser
from notifier.devkit.fixture.world import ACTIVE_7D, ACTIVE_24H, ACTIVE_30D, Flags, Members, World
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Kind, Lane, Subject, UserId

MAX_CACHED_AUDIENCES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedMention:
    """One mention with its bursts according to the store."""

    tweet: Tweet
    account: UserId
    bursts: Collection[BurstKey]


@dataclass(slots=True, kw_only=True)
class ExpectedResult:
    """Expected rows, inboxes and counts of a storm."""

    world: World
    mentions: Sequence[ExpectedMention]
    bursts: Mapping[BurstKey, Burst]
    _audiences: dict[tuple[int, int], tuple[Flags, Flags]] = field(default_factory=dict)
    """Followers and muting users, by celebrity and shard."""

    def mention_counts(self) -> Mapping[BurstKey, int]:
        """Return the number of accepted mentions in each burst."""
        return Counter(key for mention in self.mentions for key in mention.bursts)

    def inbox(self, fixture_user: FixtureUser) -> list[BurstKey]:
        """Return the bursts that the user must see, newest first."""
        visible = {
            key for mention in self.mentions for key in mention.bursts if self._sees(fixture_user, key.subject, mention)
        }
        return sorted(visible, key=lambda key: (self.bursts[key].opened_at, key), reverse=True)

    def tiers(self, burst: Burst, shard: int) -> Mapping[Tier, Flags]:
        """Return the members of the shard who must get a row, by tier. A pull-only burst has no rows."""
        if burst.pull_only:
            return {tier: np.zeros(SHARD_MEMBERS, dtype=np.bool_) for tier in (Tier.P0, Tier.P1, Tier.P2)}
        m = np.arange(shard * SHARD_MEMBERS, (shard + 1) * SHARD_MEMBERS, dtype=np.int64)
        if burst.key.subject.kind is Kind.SELF:
            empty = np.zeros(SHARD_MEMBERS, dtype=np.bool_)
            # Only followers of a protected author see its burst. The owner is a celebrity, and follows no account.
            is_owner = empty if burst.restricted_to else m == self._owner_member(burst.key.subject)
            return {Tier.P0: is_owner, Tier.P1: empty, Tier.P2: empty}
        idle, audience = self.world.idleness(m), self.audience(burst, shard, m)
        p0 = audience & self.world.vip(m) & (idle < ACTIVE_7D)
        p1 = audience & (idle < ACTIVE_24H) & ~p0
        p2 = audience & ~p0 & ~p1
        return {Tier.P0: p0, Tier.P1: p1, Tier.P2: p2 if burst.lane is Lane.STANDARD else p2 & (idle < ACTIVE_30D)}

    def with_device(self, shard: int) -> Flags:
        """Return the members of the shard who have a device. Celebrities have none."""
        m = _members(shard)
        return self.world.has_device(m) & (m < self.world.universe)

    def audience(self, burst: Burst, shard: int, m: Members) -> Flags:
        """Return the followers of a celebrity who may see its burst and have not muted the celebrity."""
        followers, muting = self._followers_and_muting(self.world.celebrity_numbers[burst.key.subject.owner], shard, m)
        if burst.restricted_to is None:
            return followers & ~muting
        author = self.world.celebrity_numbers.get(burst.restricted_to)
        if author is None:
            return np.zeros(len(m), dtype=np.bool_)
        return followers & ~muting & self._followers_and_muting(author, shard, m)[0]

    def suppressed_count(self, burst: Burst, shard: int) -> int:
        """Return the number of followers in the shard who get no row because they muted the burst's subject."""
        if burst.key.subject.kind is Kind.SELF or burst.pull_only:
            return 0
        m = np.arange(shard * SHARD_MEMBERS, (shard + 1) * SHARD_MEMBERS, dtype=np.int64)
        followers, muting = self._followers_and_muting(self.world.celebrity_numbers[burst.key.subject.owner], shard, m)
        suppressed = followers & muting
        if burst.restricted_to is not None:
            author = self.world.celebrity_numbers.get(burst.restricted_to)
            suppressed = (
                suppressed & self._followers_and_muting(author, shard, m)[0]
                if author is not None
                else suppressed & False
            )
        return int(suppressed.sum())

    def expected_count(self, burst: Burst, shard: int) -> int:
        """Return the number of members of the shard who must get a row or are suppressed."""
        reached_count = sum(int(flags.sum()) for flags in self.tiers(burst, shard).values())
        return self.suppressed_count(burst, shard) + reached_count

    def shards(self, subject: Subject) -> list[int]:
        """Return the shards with a follower of the subject's account. For a SELF subject, return its owner's shard."""
        if subject.kind is Kind.SELF:
            return [self._owner_member(subject) // SHARD_MEMBERS]
        celebrity_number = self.world.celebrity_numbers[subject.owner]
        everywhere = range(self.world.shards)
        return [
            shard
            for shard in everywhere
            if self._followers_and_muting(celebrity_number, shard, _members(shard))[0].any()
        ]

    def _followers_and_muting(self, celebrity_number: int, shard: int, m: Members) -> tuple[Flags, Flags]:
        if (celebrity_number, shard) not in self._audiences:
            is_user = m < self.world.universe
            self._audiences[celebrity_number, shard] = (
                self.world.follows(celebrity_number, m) & is_user,
                self.world.mutes(celebrity_number, m),
            )
            if len(self._audiences) > MAX_CACHED_AUDIENCES:
                del self._audiences[next(iter(self._audiences))]
        return self._audiences[celebrity_number, shard]

    def _owner_member(self, subject: Subject) -> int:
        return self.world.celebrity_member(self.world.celebrity_numbers[subject.owner])

    def _sees(self, fixture_user: FixtureUser, subject: Subject, mention: ExpectedMention) -> bool:
        """Return whether the user sees the mention under this subject.

        Users see mentions of themselves and of accounts that they follow and have not muted. Only the author and its
        followers see a protected author's tweet. Muting the author does not hide the tweet.
        """
        author = mention.tweet.author
        if mention.tweet.protected and author != fixture_user.user and not self._follows(fixture_user, author):
            return False
        if subject.kind is Kind.SELF:
            return subject.owner == fixture_user.user
        celebrity_number = self.world.celebrity_numbers.get(subject.owner)
        muted = celebrity_number is not None and bool(self.world.mutes(celebrity_number, fixture_user.member_array)[0])
        return self._follows(fixture_user, subject.owner) and not muted

    def _follows(self, fixture_user: FixtureUser, owner: UserId) -> bool:
        celebrity_number = self.world.celebrity_numbers.get(owner)
        if celebrity_number is None or fixture_user.member >= self.world.universe:
            return False
        return bool(self.world.follows(celebrity_number, fixture_user.member_array)[0])


def _members(shard: int) -> Members:
    return np.arange(shard * SHARD_MEMBERS, (shard + 1) * SHARD_MEMBERS, dtype=np.int64)


def max_fanouts_per_minute(bursts: Collection[Burst]) -> int:
    """Return the highest number of public MENTION bursts of one subject that opened within 60 seconds."""
    times: dict[Subject, list[datetime]] = defaultdict(list)
    for burst in bursts:
        if burst.key.subject.kind is Kind.MENTION and burst.restricted_to is None:
            times[burst.key.subject].append(burst.opened_at)
    return max((_max_within_a_minute(sorted(opened_times)) for opened_times in times.values()), default=0)


def _max_within_a_minute(times: Sequence[datetime]) -> int:
    return max(sum(0 <= (later - first).total_seconds() < 60 for later in times) for first in times)
