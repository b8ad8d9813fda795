"""Limits of what one API process does at a time, for devices, and in a window, for users and service keys."""

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
    """The devices of users, read and written in threads."""

    book: PhoneBook
    threads: Threads
    """A share of the process's threads."""

    async def __call__(self, user: UserId, ask: Callable[[PhoneBook, Member], T], *, newcomer: bool = False) -> T:
        """Ask something of the book, for a user. Raises StoreUnavailable, and what the book raises."""
        return await self.threads.run(self._asked, user, ask, newcomer=newcomer)

    def _asked(self, user: UserId, ask: Callable[[PhoneBook, Member], T], *, newcomer: bool) -> T:
        return ask(self.book, self.book.member(user, newcomer=newcomer))


# Metering: what people and services ask for is counted here at once, and among all processes a little later.

QUARTER, HOURS, MINUTE = timedelta(minutes=15), timedelta(hours=3), timedelta(minutes=1)
SETTLED_EVERY = 1.0
"""Seconds, while anybody asks for much."""
TOLD_BY = 100
"""A process tells the others once a hundredth of a limit was spent: who looks now and then costs no round trip, and
beyond a limit nobody gets more than that hundredth of each process, and what comes within a second."""
MOST_KNOWN = 20_000
"""People and keys, the latest; some 6 MB. Who is forgotten begins with a full allowance until it is settled again."""


@dataclass(slots=True)
class _Account:
    bucket: TokenBucket
    untold: int = 0
    """Spent here, and not settled yet."""


@dataclass(slots=True, kw_only=True)
class Metering:
    """For one loop. No request waits for Redis."""

    buckets: Buckets
    """Shared by all processes."""
    threads: Threads
    clock: Clock
    metrics: Metrics
    reads: RequestLimit | None
    writes: RequestLimit | None
    requests: RequestLimit | None
    """None: as many as they like."""
    pause: Pause = asyncio.sleep
    known: "OrderedDict[tuple[RequestLimit, str], _Account]" = field(default_factory=OrderedDict)
    due: dict[RequestLimit, set[str]] = field(default_factory=lambda: defaultdict(set))
    going: "asyncio.Task[None] | None" = None

    def take(self, limit: RequestLimit, who: str) -> tuple[bool, RequestAllowance]:
        """Whether one may, and what is left then."""
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
        spent = {who: account.untold for who, account in accounts.items()}
        for account in accounts.values():
            account.untold = 0
        try:
            left = await self._spend(spent, limit)
        except CacheUnavailable:
            # Fails open: each process goes on by what it counted itself. What was told just now may be taken or not,
            # and isn't told again.
            self.metrics.outages.labels("cache").inc()
            return
        for who, tokens in left.items():
            account = accounts[who]
            account.bucket = account.bucket.lowered(tokens - account.untold)

    async def _spend(self, spent: Mapping[str, int], limit: RequestLimit) -> Mapping[str, float]:
        """Take from the buckets of all processes; return what is left in each. Raises CacheUnavailable."""
        named = {f"{limit.name}:{who}": count for who, count in spent.items()}
        left = await self.threads.run(self.buckets.spend, named, limit.bucket)
        return {who: left[f"{limit.name}:{who}"] for who in spent}


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
