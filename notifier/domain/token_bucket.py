"""Token buckets: the arithmetic of rate limits.

A bucket holds up to `capacity` tokens and earns one each `refill`. `adapters/redis/lua/token_bucket.lua` follows
the same rule.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLimit:
    capacity: int
    refill: timedelta
    """Time in which one token is earned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBucket:
    """State of a bucket at one time."""

    tokens: float
    """Negative after tokens were spent on credit, or after two processes spent the same tokens."""
    at: datetime
    """The time up to which earned tokens are included."""

    @classmethod
    def full(cls, limit: BucketLimit, now: datetime) -> Self:
        return cls(tokens=float(limit.capacity), at=now)

    def refilled(self, limit: BucketLimit, now: datetime) -> Self:
        """Add the tokens earned until now.

        A `now` before the last refill, from another clock, changes nothing.
        """
        return self.topped_up(self.elapsed(now) / limit.refill, limit.capacity, now)

    def topped_up(self, earned: float, capacity: float, now: datetime) -> Self:
        """Add tokens that the caller has computed, up to the capacity."""
        return replace(self, tokens=min(float(capacity), self.tokens + earned), at=max(self.at, now))

    def elapsed(self, now: datetime) -> timedelta:
        """Return the time since the last refill; zero if `now` is earlier."""
        return max(timedelta(0), now - self.at)

    def with_time_at_most(self, now: datetime) -> Self:
        """Return the bucket; if its last refill is after `now`, move that time back to `now`.

        Without this, a bucket earns nothing for a while after its clock was set back. Use it only for a bucket with a
        single clock: two clocks that disagree would both earn tokens for the same time.
        """
        return self if now >= self.at else replace(self, at=now)

    def spent(self, count: float = 1.0) -> Self:
        return replace(self, tokens=self.tokens - count)

    def lowered(self, tokens: float) -> Self:
        """Return the bucket with at most this many tokens."""
        return replace(self, tokens=min(self.tokens, tokens))

    @property
    def has_token(self) -> bool:
        return self.tokens >= 1.0

    def time_until(self, limit: BucketLimit, tokens: float = 1.0) -> timedelta:
        """Return the time until the bucket holds this many tokens."""
        return max(timedelta(0), (tokens - self.tokens) * limit.refill)


# Limits of HTTP clients, as the `RateLimit` headers report them.


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimit:
    """Limit of one client's requests of one kind: `max_requests` at once, and in the long run as many per window."""

    name: str
    window: timedelta
    bucket: BucketLimit

    @classmethod
    def per(cls, window: timedelta, name: str, max_requests: int) -> Self:
        return cls(name=name, window=window, bucket=BucketLimit(capacity=max_requests, refill=window / max_requests))

    @property
    def max_requests(self) -> int:
        return self.bucket.capacity


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAllowance:
    """Remaining allowance of one client under a limit."""

    limit: RequestLimit
    bucket: TokenBucket

    @property
    def remaining(self) -> int:
        return max(0, int(self.bucket.tokens))

    @property
    def retry_after(self) -> timedelta:
        return self.bucket.time_until(self.limit.bucket)

    @property
    def full_after(self) -> timedelta:
        """Return the time until the whole limit is available again."""
        return self.bucket.time_until(self.limit.bucket, self.limit.max_requests)


def whole_seconds(span: timedelta) -> int:
    """Return the span in whole seconds, rounded up: a client that waits for so long doesn't return too early."""
    return ceil(span.total_seconds())
