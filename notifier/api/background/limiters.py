"""Concurrency limit of device requests, and rate limits of users and service keys."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from notifier.api.background.activity_recorder import Pause
from notifier.bounded_executor import Threads
from notifier.config import RequestLimits
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Member, UserId
from notifier.domain.token_bucket import RequestAllowance, RequestLimit, TokenBucket
from notifier.flow.devices.registry import PhoneBook
from notifier.metrics import Metrics
from notifier.ports.cache import Buckets
from notifier.ports.coordination import Clock

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequestLimiter:
    """Runs reads and writes of devices in threads, with limited concurrency."""

    book: PhoneBook
    threads: Threads
    """A share of the process's threads."""

    async def __call__(self, user: UserId, ask: Callable[[PhoneBook, Member], T], *, newcomer: bool = False) -> T:
        """Call `ask` with the device registry and the user's member number.

        A `newcomer` without a member number receives one. Raises StoreUnavailable, and the registry's errors.
        """
        return await self.threads.run(self._asked, user, ask, newcomer=newcomer)

    def _asked(self, user: UserId, ask: Callable[[PhoneBook, Member], T], *, newcomer: bool) -> T:
        return ask(self.book, self.book.member(user, newcomer=newcomer))


# Rate limits: requests are counted locally at once, and across all processes through Redis a little later.

QUARTER, HOURS, MINUTE = timedelta(minutes=15), timedelta(hours=3), timedelta(minutes=1)
SETTLED_EVERY = 1.0
"""Seconds between two synchronizations with Redis, while there are counts to send."""
TOLD_BY = 100
"""A process reports a caller's requests once they reach 1/100 of the limit, so that rare callers cost no round trip.

A caller can therefore exceed the limit by 1/100 per process, plus its requests within a second.
"""
MOST_KNOWN = 20_000
"""Users and keys kept, the most recently active; about 6 MB. An evicted caller starts again with a full bucket.

The next synchronization corrects that bucket.
"""


@dataclass(slots=True)
class _Account:
    """A caller's local bucket."""

    bucket: TokenBucket
    untold: int = 0
    """Requests counted here but not yet reported to Redis."""


@dataclass(slots=True, kw_only=True)
class Metering:
    """Counts requests against the limits. One instance per event loop. No request waits for Redis."""

    buckets: Buckets
    """Buckets in Redis, shared by all processes."""
    threads: Threads
    clock: Clock
    metrics: Metrics
    reads: RequestLimit | None
    writes: RequestLimit | None
    requests: RequestLimit | None
    """Limits for the reads and writes of users and the requests of services. None means unlimited."""
    pause: Pause = asyncio.sleep
    known: "OrderedDict[tuple[RequestLimit, str], _Account]" = field(default_factory=OrderedDict)
    due: dict[RequestLimit, set[str]] = field(default_factory=lambda: defaultdict(set))
    going: "asyncio.Task[None] | None" = None

    def take(self, limit: RequestLimit, who: str) -> tuple[bool, RequestAllowance]:
        """Count a request of the caller. Return whether it is allowed, and the remaining allowance."""
        now, account = self.clock.now(), self._account(limit, who)
        account.bucket = account.bucket.rewound(now).refilled(limit.bucket, now)
        if granted := account.bucket.affords:
            account.bucket = account.bucket.spent()
            account.untold += 1
            self._tell(limit, who, account)
        return granted, RequestAllowance(limit=limit, bucket=account.bucket)

    def _account(self, limit: RequestLimit, who: str) -> _Account:
        key = (limit, who)
        if key not in self.known:
            self.known[key] = _Account(TokenBucket.full(limit.bucket, self.clock.now()))
            if len(self.known) > MOST_KNOWN:
                self.known.popitem(last=False)
        self.known.move_to_end(key)
        return self.known[key]

    def _tell(self, limit: RequestLimit, who: str, account: _Account) -> None:
        if account.untold * TOLD_BY < limit.most:
            return
        self.due[limit].add(who)
        if self.going is None or self.going.done():
            self.going = asyncio.create_task(self._settle_all())

    async def _settle_all(self) -> None:
        while self.due:
            await self.pause(SETTLED_EVERY)
            due, self.due = self.due, defaultdict(set)
            for limit, names in due.items():
                await self._settle(limit, {who: self.known[limit, who] for who in names if (limit, who) in self.known})

    async def _settle(self, limit: RequestLimit, accounts: Mapping[str, _Account]) -> None:
        spent = {name: account.untold for name, account in accounts.items()}
        for account in accounts.values():
            account.untold = 0
        try:
            left = await self._spend(spent, limit)
        except CacheUnavailable:
            # Fails open: each process uses its own counts. Redis may or may not have counted this report, so it is not
            # repeated.
            self.metrics.outages.labels("cache").inc()
            return
        for name, tokens in left.items():
            account = accounts[name]
            account.bucket = account.bucket.lowered(tokens - account.untold)

    async def _spend(self, spent: Mapping[str, int], limit: RequestLimit) -> Mapping[str, float]:
        """Take tokens from the shared buckets. Return the tokens left in each. Raises CacheUnavailable."""
        counts = {f"{limit.name}:{name}": count for name, count in spent.items()}
        left = await self.threads.run(self.buckets.spend, counts, limit.bucket)
        return {name: left[f"{limit.name}:{name}"] for name in spent}


def metering(
    limits: RequestLimits, *, buckets: Buckets, threads: Threads, clock: Clock, metrics: Metrics, pause: Pause
) -> Metering:
    def limit(name: str, most: int, window: timedelta) -> RequestLimit | None:
        return RequestLimit.per(window, name, most) if most else None

    return Metering(
        buckets=buckets,
        threads=threads,
        clock=clock,
        metrics=metrics,
        pause=pause,
        reads=limit("reads", limits.reads, QUARTER),
        writes=limit("writes", limits.writes, HOURS),
        requests=limit("requests", limits.requests, MINUTE),
    )
