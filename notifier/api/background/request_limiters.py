"""Concurrency limit of device requests; rate limits of users and service keys."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from notifier.api.background.activity_recorder import Pause
from notifier.concurrency_and_time_limits import Threads
from notifier.config import RequestLimits
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Member, UserId
from notifier.domain.token_bucket import RequestAllowance, RequestLimit, TokenBucket
from notifier.flow.devices.device_registry import DeviceRegistry
from notifier.metrics import Metrics
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.recent_events_and_load_limits import TokenBuckets

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequestLimiter:
    """Runs reads and writes of devices in threads, with limited concurrency."""

    registry: DeviceRegistry
    threads: Threads
    """The part of the process's threads that device requests may use."""

    async def __call__(
        self, user: UserId, call: Callable[[DeviceRegistry, Member], T], *, create_member: bool = False
    ) -> T:
        """Call `call` with the device registry and the user's member number.

        With `create_member`, an unknown user gets a member number. Otherwise an unknown user raises NotFound; a user
        whose account is deleted always does. Raises StoreUnavailable, and the errors of `call`.
        """
        return await self.threads.run(self._call, user, call, create_member=create_member)

    def _call(self, user: UserId, call: Callable[[DeviceRegistry, Member], T], *, create_member: bool) -> T:
        return call(self.registry, self.registry.member(user, create=create_member))


# Rate limits. A process counts accepted requests in memory. Once a caller's unreported requests reach 1/100 of the
# limit, the process reports them to Redis within about a second. Redis answers how many requests are left.

READS_WINDOW, WRITES_WINDOW, REQUESTS_WINDOW = timedelta(minutes=15), timedelta(hours=3), timedelta(minutes=1)
"""Times over which a user's reads, a user's writes and a service's requests are limited."""
REPORT_SECONDS = 1.0
"""Seconds between two reports to Redis."""
REPORTS_PER_LIMIT = 100
"""A process reports a caller's requests once they reach 1/100 of the limit, so that a few requests cost no round trip.

A caller can exceed the limit by about 1/100 per process, and by the requests of about one second.
"""
MAX_LOCAL_BUCKETS = 20_000
"""Maximum buckets in memory, about 6 MB. The least recently used one is evicted.

The caller of an evicted bucket starts again with a full bucket, which the next report corrects.
"""


@dataclass(slots=True)
class _LocalBucket:
    """A caller's token bucket in this process. The answer to each report corrects the bucket."""

    bucket: TokenBucket
    unreported: int = 0
    """Requests counted here but not yet reported to Redis."""


@dataclass(slots=True, kw_only=True)
class RequestMeter:
    """Counts requests. No request waits for a report. A limit of None limits nothing. One instance per event loop."""

    buckets: TokenBuckets
    """Buckets in Redis, shared by all processes."""
    threads: Threads
    clock: Clock
    metrics: Metrics
    read_limit: RequestLimit | None
    write_limit: RequestLimit | None
    service_limit: RequestLimit | None
    pause: Pause = asyncio.sleep
    local_buckets: "OrderedDict[tuple[RequestLimit, str], _LocalBucket]" = field(default_factory=OrderedDict)
    callers_to_report: dict[RequestLimit, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Callers whose requests the next report contains, by limit."""
    report_task: "asyncio.Task[None] | None" = None

    def take(self, limit: RequestLimit, caller: str) -> tuple[bool, RequestAllowance]:
        """Count the request if the limit allows it. Return whether it was counted, and the remaining allowance."""
        now, local = self.clock.now(), self._local_bucket(limit, caller)
        local.bucket = local.bucket.with_time_at_most(now).refilled(limit.bucket, now)
        if granted := local.bucket.has_token:
            local.bucket = local.bucket.spent()
            local.unreported += 1
            self._queue_report(limit, caller, local)
        return granted, RequestAllowance(limit=limit, bucket=local.bucket)

    def _local_bucket(self, limit: RequestLimit, caller: str) -> _LocalBucket:
        key = (limit, caller)
        if key not in self.local_buckets:
            self.local_buckets[key] = _LocalBucket(TokenBucket.full(limit.bucket, self.clock.now()))
            if len(self.local_buckets) > MAX_LOCAL_BUCKETS:
                self.local_buckets.popitem(last=False)
        self.local_buckets.move_to_end(key)
        return self.local_buckets[key]

    def _queue_report(self, limit: RequestLimit, caller: str, local: _LocalBucket) -> None:
        if local.unreported * REPORTS_PER_LIMIT < limit.max_requests:
            return
        self.callers_to_report[limit].add(caller)
        if self.report_task is None or self.report_task.done():
            self.report_task = asyncio.create_task(self._report_all())

    async def _report_all(self) -> None:
        while self.callers_to_report:
            await self.pause(REPORT_SECONDS)
            due, self.callers_to_report = self.callers_to_report, defaultdict(set)
            for limit, callers in due.items():
                await self._report(
                    limit,
                    {
                        caller: self.local_buckets[limit, caller]
                        for caller in callers
                        if (limit, caller) in self.local_buckets
                    },
                )

    async def _report(self, limit: RequestLimit, local_buckets: Mapping[str, _LocalBucket]) -> None:
        spent = {caller: local.unreported for caller, local in local_buckets.items()}
        for local in local_buckets.values():
            local.unreported = 0
        try:
            tokens_left = await self._spend(spent, limit)
        except CacheUnavailable:
            # Fails open: meanwhile each process uses its own counts only. The report is not repeated, because Redis may
            # have counted it.
            self.metrics.outages.labels("cache").inc()
            return
        for caller, tokens in tokens_left.items():
            local = local_buckets[caller]
            # The answer does not include the requests that were counted here while the report was sent: subtract them.
            local.bucket = local.bucket.lowered(tokens - local.unreported)

    async def _spend(self, spent: Mapping[str, int], limit: RequestLimit) -> Mapping[str, float]:
        """Take tokens from the shared buckets. Return the tokens left in each. Raises CacheUnavailable."""
        counts = {f"{limit.name}:{caller}": count for caller, count in spent.items()}
        tokens_left = await self.threads.run(self.buckets.spend, counts, limit.bucket)
        return {caller: tokens_left[f"{limit.name}:{caller}"] for caller in spent}


def request_meter(
    limits: RequestLimits, *, buckets: TokenBuckets, threads: Threads, clock: Clock, metrics: Metrics, pause: Pause
) -> RequestMeter:
    def limit(name: str, max_requests: int, window: timedelta) -> RequestLimit | None:
        return RequestLimit.per(window, name, max_requests) if max_requests else None

    return RequestMeter(
        buckets=buckets,
        threads=threads,
        clock=clock,
        metrics=metrics,
        pause=pause,
        read_limit=limit("reads", limits.reads, READS_WINDOW),
        write_limit=limit("writes", limits.writes, WRITES_WINDOW),
        service_limit=limit("requests", limits.requests, REQUESTS_WINDOW),
    )
