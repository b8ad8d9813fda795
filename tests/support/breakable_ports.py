"""In-memory ports that a test can break."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.throttle_and_backpressure import Throttle
from notifier.domain.ids import Member
from notifier.ports.event_log_and_dead_letters import Consumer, Logged, Record
from notifier.ports.inbox_cache_freshness import ChangesSince, FeedPosition
from tests.support.fakes.activity_member_sets_and_follows import MemoryActivity
from tests.support.fakes.bursts_and_sequence_heads import MemoryBursts
from tests.support.fakes.epochs_leases_queues_throttles import MemoryThrottles
from tests.support.fakes.event_log import MemoryEventLog
from tests.support.fakes.inbox_cache_freshness import MemoryBurstChanges
from tests.support.fakes.inbox_rows_and_audience_snapshots import MemoryInboxStore, MemoryTimeline
from tests.support.fakes.push import MemoryInboxLatencyReport
from tests.support.fakes.recent_events_and_load_limits import MemoryBackpressure, MemoryRecentEvents


@dataclass(slots=True)
class PortErrors:
    """Errors that the ports raise until a test removes them."""

    log: Exception | None = None
    store: Exception | None = None
    cache: Exception | None = None


@dataclass(slots=True)
class BreakableLog:
    inner: MemoryEventLog
    errors: PortErrors
    before_read: Callable[[], None] = lambda: None

    def append(self, records: Sequence[Record]) -> None:
        if self.errors.log:
            raise self.errors.log
        self.inner.append(records)

    def subscribe(self, stream: str, group: str, owner: str) -> Consumer:
        return self.inner.subscribe(stream, group, owner)

    def read_uncommitted(self, stream: str, group: str, limit: int) -> Iterator[Logged]:
        if self.errors.log:
            raise self.errors.log
        self.before_read()
        return self.inner.read_uncommitted(stream, group, limit)

    def drop_committed(self, before: datetime) -> int:
        return self.inner.drop_committed(before)


class BreakableBurstChanges(MemoryBurstChanges):
    def __init__(self, bursts: MemoryBursts, errors: PortErrors) -> None:
        super().__init__(bursts)
        self.errors = errors

    async def begin(self) -> FeedPosition:
        if self.errors.store:
            raise self.errors.store
        return await super().begin()

    async def after(self, position: FeedPosition) -> ChangesSince | None:
        if self.errors.store:
            raise self.errors.store
        return await super().after(position)


class BreakableTimeline(MemoryTimeline):
    def __init__(self, bursts: MemoryBursts, inbox: MemoryInboxStore, errors: PortErrors) -> None:
        super().__init__(bursts, inbox)
        self.errors = errors

    async def older_than(self, *arguments: Any, **keywords: Any) -> Sequence[Burst]:
        if self.errors.store:
            raise self.errors.store
        return await super().older_than(*arguments, **keywords)


class BreakableThrottles(MemoryThrottles):
    def __init__(self, errors: PortErrors) -> None:
        super().__init__()
        self.errors = errors

    def ending_after(self, moment: datetime) -> Sequence[Throttle]:
        if self.errors.store:
            raise self.errors.store
        return super().ending_after(moment)


@dataclass(slots=True)
class BreakableBackpressure(MemoryBackpressure):
    errors: PortErrors = field(kw_only=True)

    def level(self) -> float:
        if self.errors.cache:
            raise self.errors.cache
        return MemoryBackpressure.level(self)


@dataclass(slots=True)
class BreakableInboxLatencyReport(MemoryInboxLatencyReport):
    errors: PortErrors = field(kw_only=True)

    def publish(self, process: str, p99: timedelta, ttl: timedelta) -> None:
        if self.errors.cache:
            raise self.errors.cache
        MemoryInboxLatencyReport.publish(self, process, p99, ttl)


@dataclass(slots=True)
class BreakableRecentEvents(MemoryRecentEvents):
    errors: PortErrors = field(kw_only=True)

    def was_accepted(self, source: str | None, id: str) -> bool:
        if self.errors.cache:
            raise self.errors.cache
        return MemoryRecentEvents.was_accepted(self, source, id)


@dataclass(slots=True)
class BreakableActivity(MemoryActivity):
    errors: PortErrors = field(kw_only=True)
    sent: list[tuple[int, list[Member]]] = field(default_factory=list, kw_only=True)
    """Calls in order."""

    async def touch(self, members: Collection[Member], hour: int) -> None:
        if self.errors.cache:
            raise self.errors.cache
        self.sent.append((hour, sorted(members)))
        await MemoryActivity.touch(self, members, hour)
