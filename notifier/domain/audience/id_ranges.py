"""Outside ids and inside numbers: ids that end in a number of their own, and ranges of them that one entry maps."""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from zlib import crc32

from notifier.domain.audience.bitmap import shard_of
from notifier.domain.errors import NumberTaken
from notifier.domain.ids import Member, UserId

HIGHEST = 2**63 - 1
"""Of an outside id's number, as stores count."""
_DIGITS, _LONGEST = "0123456789", len(str(HIGHEST))

K = TypeVar("K")
V = TypeVar("V")

RANGES_REMEMBERED = 64
"""Each is an import, and most imports bring everybody that there is."""

BUCKETS = 4_096
"""That outside ids are spread over, for ever: of a billion a quarter of a million are in each, some 15 MB, and a batch
of a million has 244 for each, which are looked up or written together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRange:
    """Sequential numeric outside ids that map to members by one entry: `u0` .. `u199999999`."""

    prefix: str
    first: int
    count: int
    member: Member
    """Of the first."""

    def __post_init__(self) -> None:
        """Raises ValueError for ids that would never be found in it."""
        for number in (self.first, self.last):
            if self.count < 1 or numbered(UserId(f"{self.prefix}{number}")) != (self.prefix, number):
                raise ValueError(f"{self.prefix}{self.first} and {self.count - 1} more are no range of ids.")

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    @property
    def end(self) -> Member:
        """The first number after the range's."""
        return Member(self.member + self.count)

    def require_apart(self, other: "IdRange") -> None:
        """Raises NumberTaken where some of its ids or numbers are the other's, unless they are the same range."""
        ids = self.prefix == other.prefix and self.first <= other.last and other.first <= self.last
        members = self.member < other.end and other.member < self.end
        if self != other and (ids or members):
            raise NumberTaken(f"{self} overlaps with {other}.")

    def __str__(self) -> str:
        return f"{self.prefix}{self.first}..{self.prefix}{self.last} at {self.member}"

    def member_of(self, number: int) -> Member | None:
        place = number - self.first
        return Member(self.member + place) if 0 <= place < self.count else None

    def user_of(self, member: Member) -> UserId | None:
        place = member - self.member
        return UserId(f"{self.prefix}{self.first + place}") if 0 <= place < self.count else None


Below = Callable[[Sequence[tuple[str, int]]], Sequence[IdRange | None]]
"""Of each prefix and number, the last range of the prefix that begins there or before."""


def numbered(user: UserId) -> tuple[str, int] | None:
    """Its prefix and its number as `str` writes it, with which it may be in a range: of `u07` these are `u0` and 7."""
    tail = user[len(user.rstrip(_DIGITS)) :]
    if not tail:
        return None
    number = int(tail[-_LONGEST:])
    return (user.removesuffix(str(number)), number) if number <= HIGHEST else None


class RememberedRanges:
    """Ranges that a process has read. A range stays what it is for ever, so that none is out of date."""

    def __init__(self) -> None:
        self._ranges: deque[IdRange] = deque(maxlen=RANGES_REMEMBERED)

    def member_of(self, user: UserId) -> Member | None:
        """Return the number that a known range gives; the account may be deleted, or have a number of its own."""
        if (parts := numbered(user)) is None:
            return None
        prefix, number = parts
        found = (known.member_of(number) for known in tuple(self._ranges) if known.prefix == prefix)
        return next((member for member in found if member is not None), None)

    def remember(self, found: IdRange) -> None:
        # Many read the same range at once, before the first of them remembers it.
        if found not in tuple(self._ranges):
            self._ranges.append(found)


def in_ranges(users: Iterable[UserId], below: Below) -> dict[UserId, Member]:
    """Those who are in any, with as many questions as there are ranges that they are in, however many they are."""
    rest = _by_prefix(users)
    found: dict[UserId, Member] = {}
    while rest:
        ranges = below([(prefix, ids[-1][0]) for prefix, ids in rest.items()])
        for (prefix, ids), at in zip(list(rest.items()), ranges, strict=True):
            behind = bisect_left(ids, (at.first, UserId(""))) if at else 0
            if at:
                found |= {user: m for number, user in ids[behind:] if (m := at.member_of(number)) is not None}
            _go_on_with(rest, prefix, ids[:behind])
    return found


NamedBelow = Callable[[Sequence[Member]], Sequence[IdRange | None]]
"""Of each member, the last range that begins there or before."""


def named_in_ranges(members: Iterable[Member], below: NamedBelow) -> dict[Member, UserId]:
    """The way back, with a question for each shard that they are in, and one more for each range that begins in it."""
    rest = _by_shard(members)
    found: dict[Member, UserId] = {}
    while rest:
        ranges = below([some[-1] for some in rest.values()])
        for (shard, some), at in zip(list(rest.items()), ranges, strict=True):
            behind = bisect_left(some, at.member) if at else 0
            if at:
                found |= {member: user for member in some[behind:] if (user := at.user_of(member)) is not None}
            _go_on_with(rest, shard, some[:behind])
    return found


def _go_on_with(rest: dict[K, list[V]], key: K, some: list[V]) -> None:
    if some:
        rest[key] = some
    else:
        del rest[key]


def _by_shard(members: Iterable[Member]) -> dict[int, list[Member]]:
    """Rising."""
    found = defaultdict[int, list[Member]](list)
    for member in sorted(members):
        found[shard_of(member)].append(member)
    return found


def _by_prefix(users: Iterable[UserId]) -> dict[str, list[tuple[int, UserId]]]:
    """Rising."""
    found = defaultdict[str, list[tuple[int, UserId]]](list)
    for user in users:
        if parts := numbered(user):
            found[parts[0]].append((parts[1], user))
    return {prefix: sorted(ids) for prefix, ids in found.items()}


def successive(users: Iterable[UserId], least: int) -> Iterable[tuple[str, int, int]]:
    """Prefix, first number and count of each run of ids that follow one another, where it is at least so long."""
    for prefix, ids in _by_prefix(users).items():
        first = 0
        for n, (number, _) in enumerate(ids, 1):
            if n < len(ids) and ids[n][0] <= number + 1:
                continue
            if (count := number - ids[first][0] + 1) >= least:
                yield prefix, ids[first][0], count
            first = n


def require_own(
    wanted: Mapping[UserId, Member], known: Mapping[UserId, Member], named: Mapping[Member, UserId]
) -> None:
    """Raises NumberTaken where somebody would have a second number, or two the same, by what stands."""
    for user, member in wanted.items():
        if known.get(user, member) != member:
            raise NumberTaken(f"{user} is {known[user]}, not {member}.")
        if named.get(member, user) != user:
            raise NumberTaken(f"{member} is {named[member]}, not {user}.")
    if len(set(wanted.values())) < len(wanted):
        raise NumberTaken("Two are given the same.")


def bucket_of(user: UserId) -> int:
    return crc32(user.encode()) % BUCKETS
