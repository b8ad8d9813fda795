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
from notifier.flow.devices.registry import DeviceRegistry
from notifier.metrics import Metrics
from notifier.ports.cache import TokenBuckets
from notifier.ports.coordination import Clock

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequestLimiter:
    """Runs reads and writes of devices in threads, with limited concurrency."""

    registry: DeviceRegistry
    threads: Threads
    """A share of the process's threads."""

    async def __call__(self, user: UserId, call: Callable[[DeviceRegistry, Member], T], *, newcomer: bool = False) -> T:
        """Call `ask` with the device registry and the user's member number.

        A `newcomer` without a member number receives one. Raises StoreUnavailable, and the registry's errors.
        """
        return await self.threads.run(self._call, user, call, newcomer=newcomer)

    def _call(self, user: UserId, call: Callable[[DeviceRegistry, Member], T], *, newcomer: bool) -> T:
        return call(self.registry, self.registry.member(user, create=newcomer))


# Rate limits: requests are counted locally at once, and across all processes through Redis a little later.

QUARTER, HOURS, MINUTE = timedelta(minutes=15), timedelta(hours=3), timedelta(minutes=1)
REPORTED_EVERY = 1.0
"""Seconds between two synchronizations with Redis, while there are counts to send."""
REPORTED_AT = 100
"""A process reports a caller's requests once they reach 1/100 of the limit, so that rare callers cost no round trip.

A caller can therefore exceed the limit by 1/100 per process, plus its requests within a second.
"""
MAX_LOCAL_BUCKETS = 20_000
"""Users and keys kept, the most recently active; about 6 MB. An evicted caller starts again with a full bucket.

The next synchronization corrects that bucket.
"""


@dataclass(slots=True)
class _LocalBucket:
    """A caller's local bucket."""

    bucket: TokenBucket
    unreported: int = 0
    """Requests counted here but not yet reported to Redis."""


@dataclass(slots=True, kw_only=True)
class RequestMeter:
    """Counts requests against the limits. One instance per event loop. No request waits for Redis."""

    buckets: TokenBuckets
    """Buckets in Redis, shared by all processes."""
    threads: Threads
    clock: Clock
    metrics: Metrics
    reads: RequestLimit | None
    writes: RequestLimit | None
    requests: RequestLimit | None
    """Limits for the reads and writes of users and the requests of services. None means unlimited."""
    pause: Pause = asyncio.sleep
    local_buckets: "OrderedDict[tuple[RequestLimit, str], _LocalBucket]" = field(default_factory=OrderedDict)
    unreported: dict[RequestLimit, set[str]] = field(default_factory=lambda: defaultdict(set))
    settling: "asyncio.Task[None] | None" = None

    def take(self, limit: RequestLimit, caller: str) -> tuple[bool, RequestAllowance]:
        """Count a request of the caller. Return whether it is allowed, and the remaining allowance."""
        now, account = self.clock.now(), self._local_bucket(limit, caller)
        account.bucket = account.bucket.rewound(now).refilled(limit.bucket, now)
        if granted := account.bucket.has_token:
            account.bucket = account.bucket.spent()
            account.unreported += 1
            self._queue_report(limit, caller, account)
        return granted, RequestAllowance(limit=limit, bucket=account.bucket)

    def _local_bucket(self, limit: RequestLimit, caller: str) -> _LocalBucket:
        key = (limit, caller)
        if key not in self.local_buckets:
            self.local_buckets[key] = _LocalBucket(TokenBucket.full(limit.bucket, self.clock.now()))
            if len(self.local_buckets) > MAX_LOCAL_BUCKETS:
                self.local_buckets.popitem(last=False)
        self.local_buckets.move_to_end(key)
        return self.local_buckets[key]

    def _queue_report(self, limit: RequestLimit, caller: str, account: _LocalBucket) -> None:
        if account.unreported * REPORTED_AT < limit.max_requests:
            return
        self.unreported[limit].add(caller)
        if self.settling is None or self.settling.done():
            self.settling = asyncio.create_task(self._report_all())

    async def _report_all(self) -> None:
        while self.unreported:
            await self.pause(REPORTED_EVERY)
            due, self.unreported = self.unreported, defaultdict(set)
            for limit, names in due.items():
                await self._report(
                    limit,
                    {
                        caller: self.local_buckets[limit, caller]
                        for caller in names
                        if (limit, caller) in self.local_buckets
                    },
                )

    async def _report(self, limit: RequestLimit, accounts: Mapping[str, _LocalBucket]) -> None:
        spent = {name: account.unreported for name, account in accounts.items()}
        for account in accounts.values():
            account.unreported = 0
        try:
            left = await self._spend(spent, limit)
        except CacheUnavailable:
            # Fails open: each process uses its own counts. Redis may or may not have counted this report, so it is not
            # repeated.
            self.metrics.outages.labels("cache").inc()
            return
        for name, tokens in left.items():
            account = accounts[name]
            account.bucket = account.bucket.lowered(tokens - account.unreported)

    async def _spend(self, spent: Mapping[str, int], limit: RequestLimit) -> Mapping[str, float]:
        """Take tokens from the shared buckets. Return the tokens left in each. Raises CacheUnavailable."""
        counts = {f"{limit.name}:{name}": count for name, count in spent.items()}
        left = await self.threads.run(self.buckets.spend, counts, limit.bucket)
        return {name: left[f"{limit.name}:{name}"] for name in spent}


def request_meter(
    limits: RequestLimits, *, buckets: TokenBuckets, threads: Threads, clock: Clock, metrics: Metrics, pause: Pause
) -> RequestMeter:
    def limit(name: str, most: int, window: timedelta) -> RequestLimit | None:
        return RequestLimit.per(window, name, most) if most else None

    return RequestMeter(
        buckets=buckets,
        threads=threads,
        clock=clock,
        metrics=metrics,
        pause=pause,
        reads=limit("reads", limits.reads, QUARTER),
        writes=limit("writes", limits.writes, HOURS),
        requests=limit("requests", limits.requests, MINUTE),
    )
