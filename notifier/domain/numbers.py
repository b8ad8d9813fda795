"""Outside ids and inside numbers: ids that end in a number of their own, and ranges of them that one entry maps."""

import re
from dataclasses import dataclass
from zlib import crc32

from notifier.domain.subject import Member, UserId

_NUMBERED = re.compile(r"(?s:(.*?))(0|[1-9][0-9]{0,17})")
"""A prefix and a number as `str` writes it: `u7`, never `u07`."""

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

    @property
    def end(self) -> Member:
        """The first number after the range's."""
        return Member(self.member + self.count)

    def member_of(self, number: int) -> Member | None:
        place = number - self.first
        return Member(self.member + place) if 0 <= place < self.count else None

    def user_of(self, member: Member) -> UserId | None:
        place = member - self.member
        return UserId(f"{self.prefix}{self.first + place}") if 0 <= place < self.count else None


def numbered(user: UserId) -> tuple[str, int] | None:
    """Its prefix and its number, with which it may be in a range."""
    parts = _NUMBERED.fullmatch(user)
    return None if parts is None else (parts[1], int(parts[2]))


def bucket_of(user: UserId) -> int:
    return crc32(user.encode()) % BUCKETS
