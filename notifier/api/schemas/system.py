"""The overview as JSON."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from notifier.api.processes import Roles
from notifier.domain.delivery.accounting import Books, Filling
from notifier.domain.delivery.dead_letter_limit import LaneStop
from notifier.domain.delivery.slice import Pool
from notifier.domain.delivery.throttle import Throttle
from notifier.domain.push.circuit_breaker import LeftAlone
from notifier.flow.operations.overview import BurstOverview, Cache, Snapshot


class TierBody(msgspec.Struct, kw_only=True):
    people: int
    slices: int
    ended: int
    seconds: float | None
    """From the opener's acceptance to the last slice; null while work is left."""
    spans: list[tuple[int, int, str]]
    """First shard, last shard, state: planned, in_flight, parked, done, pulled or dead."""


class BooksBody(msgspec.Struct, kw_only=True):
    expected: int
    delivered: int
    suppressed: int
    parked: int
    pulled: int
    dead: int
    in_flight: int
    balanced: bool
    sealed: int
    """Shards in the books; while it is below the burst's, the sums are of a part."""


class RunningBody(msgspec.Struct, kw_only=True):
    burst: str
    opened_at: datetime
    count: int
    followers: int
    shards: int
    settled: bool
    waits_until: datetime | None
    """When the first of its alerts that wait goes on; null where none does."""
    tiers: dict[str, TierBody]
    books: BooksBody


class BehindBody(msgspec.Struct, kw_only=True):
    slices: int
    later: int
    """Beside those, slices that go on at a moment to come: people sleep, or a provider is left alone. Without those of
    bursts that sleep as a whole."""
    seconds: float | None
    """Null where nobody says, and while a throttle holds what is left."""


class LeftAloneBody(msgspec.Struct, kw_only=True):
    line: str
    """`apns`, `fcm`, or `web` with a push service."""
    until: datetime
    reason: str


class ThrottleBody(msgspec.Struct, kw_only=True):
    id: str
    tier: str
    rate: float | None
    state: str
    reason: str
    who: str
    ends_at: datetime


class StoppedLaneBody(msgspec.Struct, kw_only=True):
    lane: str
    """A stream of the log, or a pool of slices."""
    since: datetime
    limit: str
    """`in_a_row` or `in_window`."""
    record: str
    """The record that wasn't moved to the dead letters; a resume tries it first."""
    cause: str


class RoleBody(msgspec.Struct, kw_only=True):
    pid: int
    replaced: int


class RedisBody(msgspec.Struct, kw_only=True):
    state: str
    """`ok`, `empty` until it is rebuilt, or `away`."""
    generation: str | None


class SystemBody(msgspec.Struct, kw_only=True):
    at: datetime
    mentions_per_second: float
    rows_per_second: float
    deliveries_per_second: float
    open_bursts: int
    sleeping_bursts: int
    """Beside those; nothing of them is to be done before somebody wakes, or a provider wants to be asked later."""
    running: RunningBody | None
    behind: dict[str, BehindBody]
    """By pool."""
    left_alone: list[LeftAloneBody]
    """To whom no alerts are sent for a while."""
    throttles: list[ThrottleBody]
    stopped_lanes: list[StoppedLaneBody]
    """Lanes that handle nothing, because too many of their records died, until an operator resumes them."""
    pressure: float | None
    roles: dict[str, RoleBody]
    redis: RedisBody
    loading: int | None
    """Hundredths of a demo's world; null once it is whole."""


def told(snapshot: Snapshot, roles: Roles, loaded: int | None) -> SystemBody:
    return SystemBody(
        at=snapshot.at,
        mentions_per_second=round(snapshot.mentions_per_second, 1),
        rows_per_second=round(snapshot.pace.rows),
        deliveries_per_second=round(snapshot.pace.deliveries),
        open_bursts=snapshot.open_bursts,
        sleeping_bursts=snapshot.sleeping_bursts,
        running=_running(snapshot.running) if snapshot.running else None,
        behind=_behind(snapshot),
        left_alone=[_left_alone(line, left) for line, left in sorted(snapshot.cache.left_alone.items())],
        throttles=[_throttle(each, snapshot.at) for each in snapshot.throttles],
        stopped_lanes=[_stopped_lane(lane, stop) for lane, stop in snapshot.stopped_lanes.items()],
        pressure=snapshot.cache.pressure,
        roles=_roles(roles),
        redis=RedisBody(state=_state(snapshot.cache), generation=snapshot.cache.generation),
        loading=loaded,
    )


def _running(running: BurstOverview) -> RunningBody:
    return RunningBody(
        burst=str(running.burst.key),
        opened_at=running.burst.opened_at,
        count=running.burst.count,
        followers=running.followers,
        shards=running.shards,
        settled=running.settled,
        waits_until=running.waits_until,
        tiers={str(filling.tier): _tier(filling) for filling in running.fillings},
        books=_books(running.books, running.sealed),
    )


def _tier(filling: Filling) -> TierBody:
    return TierBody(
        people=filling.people,
        slices=filling.slices,
        ended=filling.ended,
        seconds=filling.seconds,
        spans=[(span.first, span.last, str(span.state)) for span in filling.spans],
    )


def _books(books: Books, sealed: int) -> BooksBody:
    return BooksBody(
        expected=books.expected,
        delivered=books.delivered,
        suppressed=books.suppressed,
        parked=books.parked,
        pulled=books.pulled,
        dead=books.dead,
        in_flight=books.in_flight,
        balanced=books.balanced,
        sealed=sealed,
    )


def _behind(snapshot: Snapshot) -> dict[str, BehindBody]:
    told = snapshot.cache.behind
    return {
        str(pool): BehindBody(slices=of.slices, later=of.later, seconds=snapshot.seconds_behind(pool))
        for pool in Pool
        if (of := told.get(pool)) is not None
    }


def _left_alone(line: str, left: LeftAlone) -> LeftAloneBody:
    return LeftAloneBody(line=line, until=left.until, reason=left.reason)


def _throttle(each: Throttle, now: datetime) -> ThrottleBody:
    return ThrottleBody(
        id=each.id,
        tier=str(each.tier),
        rate=each.rate,
        state="active" if each.active(now) else "ramping",
        reason=each.reason,
        who=each.who,
        ends_at=each.ends_at,
    )


def _stopped_lane(lane: str, stop: LaneStop) -> StoppedLaneBody:
    return StoppedLaneBody(lane=lane, since=stop.at, limit=str(stop.kind), record=stop.record, cause=stop.cause)


def _roles(roles: Roles) -> dict[str, RoleBody]:
    replaced: Mapping[str, int] = roles.replaced()
    return {role: RoleBody(pid=pid, replaced=replaced.get(role, 0)) for role, pid in roles.pids().items()}


def _state(cache: Cache) -> str:
    if not cache.answers:
        return "away"
    return "ok" if cache.generation else "empty"
