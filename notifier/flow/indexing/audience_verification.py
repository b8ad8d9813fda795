"""Audience verification: compares follower counts and bitmaps with the stored rows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from notifier.domain.audience.bitmap import SHARD_MEMBERS, count, nobody
from notifier.domain.audience.tiers import SetKind
from notifier.domain.delivery.plan import SetHead
from notifier.domain.ids import Kind, Subject, UserId
from notifier.flow.indexing.bitmaps import repairs, stored, unreadable
from notifier.ports.audience import Follows, MemberSets
from notifier.ports.directory import Directory
from notifier.ports.event_log import EventLog
from notifier.ports.users import Overalls, Wants


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Result of the verification of one shard."""

    shard: int
    followers: int
    """Followers according to the rows, or to the bitmap if the rows were not read."""
    missing: int
    """Members in a row but not in its bitmap."""
    strangers: int
    """Members in a bitmap but in no row."""
    unreadable: int
    """Number of unreadable bitmaps."""
    head: int
    """Followers according to the follower counts."""

    @property
    def wrong(self) -> bool:
        return bool(self.missing or self.strangers or self.unreadable or self.head != self.followers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    directory: Directory
    follows: Follows
    wants: Wants
    overalls: Overalls
    sets: MemberSets
    log: EventLog

    def verify(
        self,
        user: UserId,
        shards: Iterable[int],
        sample: float = inf,
        advance: Callable[[int], object] = lambda _: None,
    ) -> Sequence[Compared]:
        """Verify one shard after another, until `sample` followers have been compared."""
        subject, results, compared = Subject(Kind.MENTION, user), list[Compared](), 0
        head = self.sets.head(subject)
        for shard in shards:
            results.append(self._compare(subject, shard, head))
            compared += results[-1].followers
            advance(1)
            if compared >= sample:
                break
        return results

    def look(
        self, user: UserId, shards: Iterable[int], advance: Callable[[int], object] = lambda _: None
    ) -> Sequence[Compared]:
        """Check without reading the rows, which is slow, that bitmaps are readable and match the follower counts."""
        subject, results = Subject(Kind.MENTION, user), list[Compared]()
        head = self.sets.head(subject)
        for shard in shards:
            results.append(self._look(subject, shard, head))
            advance(1)
        return results

    def repair(self, user: UserId, found: Sequence[Compared]) -> int:
        """Ask the indexer, the only writer of the bitmaps, to rebuild wrong shards; return how many there are."""
        wrong = [result.shard for result in found if result.wrong]
        self.log.append(list(repairs(user, wrong)))
        return len(wrong)

    def shards(self, user: UserId) -> Sequence[int]:
        """Return all shards that may contain followers."""
        head = self.sets.head(Subject(Kind.MENTION, user))
        return range(max(len(head.counts), -(-self.directory.end() // SHARD_MEMBERS)))

    def _compare(self, subject: Subject, shard: int, head: SetHead) -> Compared:
        own = {SetKind.FOLLOWERS: self.follows.followers(subject, shard), **self.wants.sets(subject, shard)}
        overall = self.overalls.sets(shard)
        rows = {**own, **overall}
        bitmaps = {kind: stored(self.sets, kind, subject if kind in own else None, shard) for kind in rows}
        pairs = [
            (row_bits, nobody() if bits is None else bits)
            for row_bits, bits in zip(rows.values(), bitmaps.values(), strict=True)
        ]
        return Compared(
            shard=shard,
            followers=count(rows[SetKind.FOLLOWERS]),
            missing=sum(count(row_bits & ~bits) for row_bits, bits in pairs),
            strangers=sum(count(bits & ~row_bits) for row_bits, bits in pairs),
            unreadable=sum(bits is None for bits in bitmaps.values()),
            head=_counted(head, shard),
        )

    def _look(self, subject: Subject, shard: int, head: SetHead) -> Compared:
        counted = _counted(head, shard)
        followers = stored(self.sets, SetKind.FOLLOWERS, subject, shard)
        return Compared(
            shard=shard,
            followers=counted if followers is None else count(followers),
            missing=0,
            strangers=0,
            unreadable=unreadable(self.sets, subject, shard),
            head=counted,
        )


def _counted(head: SetHead, shard: int) -> int:
    return head.counts[shard] if shard < len(head.counts) else 0
