"""Ranges of numeric ids that a process has read: a range stays what it is for ever, so it is never out of date."""

from collections import deque

from notifier.domain.numbers import IdRange, numbered
from notifier.domain.subject import Member, UserId

RANGES = 64
"""Remembered at most. Each is an import, and most imports bring everybody that there is."""


class RememberedRanges:
    def __init__(self) -> None:
        self._ranges: deque[IdRange] = deque(maxlen=RANGES)

    def member_of(self, user: UserId) -> Member | None:
        """Return the number that a known range gives; the account may be deleted, or have a number of its own."""
        if (parts := numbered(user)) is None:
            return None
        prefix, number = parts
        found = (known.member_of(number) for known in tuple(self._ranges) if known.prefix == prefix)
        return next((member for member in found if member is not None), None)

    def remember(self, found: IdRange) -> None:
        self._ranges.append(found)
