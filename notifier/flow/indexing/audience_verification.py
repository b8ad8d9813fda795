"""Verification of an audience: whether its head, its bitmaps and everybody's say what people's rows say."""

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
    """One shard."""

    shard: int
    followers: int
    """By the rows; by the bitmap where those weren't asked."""
    missing: int
    """Whom a row has and the bitmap for it hasn't."""
    strangers: int
    """Whom a bitmap has and no row."""
    unreadable: int
    """Bitmaps."""
    head: int

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
        """One shard after the other, until so many followers were compared."""
        subject, found, compared = Subject(Kind.MENTION, user), list[Compared](), 0
        head = self.sets.head(subject)
        for shard in shards:
            found.append(self._compare(subject, shard, head))
            compared += found[-1].followers
            advance(1)
            if compared >= sample:
                break
        return found

    def look(
        self, user: UserId, shards: Iterable[int], advance: Callable[[int], object] = lambda _: None
    ) -> Sequence[Compared]:
        """Without the rows, which are what takes long: whether bitmaps can be read, and the head counts them right."""
        subject, found = Subject(Kind.MENTION, user), list[Compared]()
        head = self.sets.head(subject)
        for shard in shards:
            found.append(self._look(subject, shard, head))
            advance(1)
        return found

    def repair(self, user: UserId, found: Sequence[Compared]) -> int:
        """Asks the indexer, the only one who writes them, for the shards that are wrong; says how many they are."""
        wrong = [one.shard for one in found if one.wrong]
        self.log.append(list(repairs(user, wrong)))
        return len(wrong)

    def shards(self, user: UserId) -> Sequence[int]:
        """In which anybody may follow."""
        head = self.sets.head(Subject(Kind.MENTION, user))
        return range(max(len(head.counts), -(-self.directory.end() // SHARD_MEMBERS)))

    def _compare(self, subject: Subject, shard: int, head: SetHead) -> Compared:
        own = {SetKind.FOLLOWERS: self.follows.followers(subject, shard), **self.wants.sets(subject, shard)}
        overall = self.overalls.sets(shard)
        rows = {**own, **overall}
        found = {kind: stored(self.sets, kind, subject if kind in own else None, shard) for kind in rows}
        pairs = [
            (of_rows, nobody() if bits is None else bits)
            for of_rows, bits in zip(rows.values(), found.values(), strict=True)
        ]
        return Compared(
            shard=shard,
            followers=count(rows[SetKind.FOLLOWERS]),
            missing=sum(count(of_rows & ~bits) for of_rows, bits in pairs),
            strangers=sum(count(bits & ~of_rows) for of_rows, bits in pairs),
            unreadable=sum(bits is None for bits in found.values()),
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
