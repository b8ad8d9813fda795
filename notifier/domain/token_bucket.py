"""Allowances: how much of something one may ask for in a while, as a bucket that fills up again."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    name: str
    most: int
    """At once; and in the long run as many in each window."""
    window: timedelta

    @property
    def refill(self) -> timedelta:
        """Until one more comes."""
        return self.window / self.most


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What is left of a limit; below nothing where several gave away the same at once."""

    limit: Limit
    tokens: float
    at: datetime

    @classmethod
    def full(cls, limit: Limit, now: datetime) -> Self:
        return cls(limit=limit, tokens=float(limit.most), at=now)

    def refilled(self, now: datetime) -> Self:
        """A clock that was set back refills nothing, and goes on from there."""
        earned = max(timedelta(0), now - self.at) / self.limit.refill
        return replace(self, tokens=min(float(self.limit.most), self.tokens + earned), at=now)

    def spent(self) -> Self:
        return replace(self, tokens=self.tokens - 1)

    def lowered(self, tokens: float) -> Self:
        return replace(self, tokens=min(self.tokens, tokens))

    @property
    def affords(self) -> bool:
        return self.tokens >= 1

    @property
    def left(self) -> int:
        return max(0, int(self.tokens))

    @property
    def again_after(self) -> timedelta:
        """Until one may ask once more."""
        return max(timedelta(0), (1 - self.tokens) * self.limit.refill)

    @property
    def full_after(self) -> timedelta:
        return (self.limit.most - self.tokens) * self.limit.refill


def seconds(span: timedelta) -> int:
    """Whole ones: who waits for so long waits long enough."""
    return ceil(span.total_seconds())
