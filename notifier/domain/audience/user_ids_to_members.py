"""Maps external user ids to member numbers, including ranges of sequential numeric ids."""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from zlib import crc32

from notifier.domain.audience.bitmap import shard_of
from notifier.domain.errors import NumberTaken
from notifier.domain.ids import Member, UserId

HIGHEST_ID_NUMBER = 2**63 - 1
"""Highest number that an external id of a range may end in: every store can keep it."""
_DIGITS, _MAX_DIGITS = "0123456789", len(str(HIGHEST_ID_NUMBER))

K = TypeVar("K")
V = TypeVar("V")

MAX_CACHED_RANGES = 64
"""Maximum number of ranges that a process caches."""

DIRECTORY_BUCKETS = 4_096
"""Number of directory buckets (fixed for the lifetime of the keyspace).

With a billion users each bucket holds about 250,000 ids, some 15 MB. More buckets would need more queries: of a batch
of a million ids, each bucket has 244.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRange:
    """Sequential numeric external ids that one entry of the directory maps to members: `u0` .. `u199999999`."""

    prefix: str
    first: int
    count: int
    first_member: Member

    def __post_init__(self) -> None:
        """Raises ValueError for an empty range, or ids that a lookup would never find in it."""
        for number in (self.first, self.last):
            if self.count < 1 or split_id(UserId(f"{self.prefix}{number}")) != (self.prefix, number):
                raise ValueError(f"{self.prefix}{self.first} and {self.count - 1} more are not a valid range of ids.")

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    @property
    def end(self) -> Member:
        """Return the first member number after the range."""
        return Member(self.first_member + self.count)

    def require_disjoint(self, existing: "IdRange") -> None:
        """Raises NumberTaken if ids or member numbers overlap, unless both ranges are identical."""
        shares_ids = self.prefix == existing.prefix and self.first <= existing.last and existing.first <= self.last
        shares_members = self.first_member < existing.end and existing.first_member < self.end
        if self != existing and (shares_ids or shares_members):
            raise NumberTaken(f"{self} overlaps with {existing}.")

    def __str__(self) -> str:
        return f"{self.prefix}{self.first}..{self.prefix}{self.last} at {self.first_member}"

    def member_of(self, number: int) -> Member | None:
        index = number - self.first
        return Member(self.first_member + index) if 0 <= index < self.count else None

    def user_of(self, member: Member) -> UserId | None:
        index = member - self.first_member
        return UserId(f"{self.prefix}{self.first + index}") if 0 <= index < self.count else None


FindRangesByNumber = Callable[[Sequence[tuple[str, int]]], Sequence[IdRange | None]]
"""For each (prefix, number), return the last range of the prefix that starts at or below the number, if any."""


def split_id(user: UserId) -> tuple[str, int] | None:
    """Split an id into prefix and number, which has at most 19 digits.

    A leading zero belongs to the prefix: `u07` gives `u0` and 7. Return None if the id ends in no digit, or the number
    is above HIGHEST_ID_NUMBER.
    """
    tail = user[len(user.rstrip(_DIGITS)) :]
    if not tail:
        return None
    number = int(tail[-_MAX_DIGITS:])
    return (user.removesuffix(str(number)), number) if number <= HIGHEST_ID_NUMBER else None


class IdRangeCache:
    """Cache of ranges that this process has read. Ranges never change, so no entry becomes stale."""

    def __init__(self) -> None:
        self._ranges: deque[IdRange] = deque(maxlen=MAX_CACHED_RANGES)

    def member_of(self, user: UserId) -> Member | None:
        """Return the member according to a cached range, if one contains the id.

        This proves nothing: the account may be deleted, or have an entry of its own with another number.
        """
        if (parts := split_id(user)) is None:
            return None
        prefix, number = parts
        members = (range_.member_of(number) for range_ in tuple(self._ranges) if range_.prefix == prefix)
        return next((member for member in members if member is not None), None)

    def remember(self, range_: IdRange) -> None:
        # Concurrent readers may fetch the same range before the first of them caches it.
        if range_ not in tuple(self._ranges):
            self._ranges.append(range_)


def members_in_ranges(users: Iterable[UserId], find_ranges: FindRangesByNumber) -> dict[UserId, Member]:
    """Map users whose ids are in a range to members."""
    remaining = _by_prefix(users)
    mapped: dict[UserId, Member] = {}
    while remaining:
        ranges = find_ranges([(prefix, ids[-1][0]) for prefix, ids in remaining.items()])
        for (prefix, ids), range_ in zip(list(remaining.items()), ranges, strict=True):
            start = bisect_left(ids, (range_.first, UserId(""))) if range_ else 0
            if range_:
                mapped |= {user: m for number, user in ids[start:] if (m := range_.member_of(number)) is not None}
            _keep_unmapped(remaining, prefix, ids[:start])
    return mapped


FindRangesByMember = Callable[[Sequence[Member]], Sequence[IdRange | None]]
"""For each member, return the last range that starts at or below the member, if any."""


def users_in_ranges(members: Iterable[Member], find_ranges: FindRangesByMember) -> dict[Member, UserId]:
    """Map members whose numbers are in a range back to users."""
    remaining = _by_shard(members)
    mapped: dict[Member, UserId] = {}
    while remaining:
        ranges = find_ranges([shard_members[-1] for shard_members in remaining.values()])
        for (shard, shard_members), range_ in zip(list(remaining.items()), ranges, strict=True):
            start = bisect_left(shard_members, range_.first_member) if range_ else 0
            if range_:
                mapped |= {
                    member: user for member in shard_members[start:] if (user := range_.user_of(member)) is not None
                }
            _keep_unmapped(remaining, shard, shard_members[:start])
    return mapped


def _keep_unmapped(remaining: dict[K, list[V]], key: K, unmapped: list[V]) -> None:
    if unmapped:
        remaining[key] = unmapped
    else:
        del remaining[key]


def _by_shard(members: Iterable[Member]) -> dict[int, list[Member]]:
    """Group members by shard, ascending."""
    grouped = defaultdict[int, list[Member]](list)
    for member in sorted(members):
        grouped[shard_of(member)].append(member)
    return grouped


def _by_prefix(users: Iterable[UserId]) -> dict[str, list[tuple[int, UserId]]]:
    """Group numbered ids by prefix, each group ascending by number. Ids without a number are left out."""
    grouped = defaultdict[str, list[tuple[int, UserId]]](list)
    for user in users:
        if parts := split_id(user):
            grouped[parts[0]].append((parts[1], user))
    return {prefix: sorted(ids) for prefix, ids in grouped.items()}


def consecutive_runs(users: Iterable[UserId], min_count: int) -> Iterable[tuple[str, int, int]]:
    """Yield prefix, first number and count of each run of consecutive ids with at least `min_count` ids."""
    for prefix, ids in _by_prefix(users).items():
        first = 0
        for n, (number, _) in enumerate(ids, 1):
            if n < len(ids) and ids[n][0] <= number + 1:
                continue
            if (count := number - ids[first][0] + 1) >= min_count:
                yield prefix, ids[first][0], count
            first = n


def require_unique_numbers(
    new_members: Mapping[UserId, Member],
    current_members: Mapping[UserId, Member],
    current_users: Mapping[Member, UserId],
) -> None:
    """Raises NumberTaken if a user would get a second number, or two users would get the same number."""
    for user, member in new_members.items():
        if current_members.get(user, member) != member:
            raise NumberTaken(f"{user} is {current_members[user]}, not {member}.")
        if current_users.get(member, user) != user:
            raise NumberTaken(f"{member} is {current_users[member]}, not {user}.")
    if len(set(new_members.values())) < len(new_members):
        raise NumberTaken("Two users have the same number.")


def directory_bucket_of(user: UserId) -> int:
    return crc32(user.encode()) % DIRECTORY_BUCKETS
