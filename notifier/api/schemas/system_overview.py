"""JSON body of the system overview."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from notifier.api.process_status_loading_progress_metrics import RoleProcesses
from notifier.domain.delivery.dead_letter_limit import LaneStop
from notifier.domain.delivery.recipient_totals_and_progress import RecipientTotals, TierProgress
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.delivery.throttle_and_backpressure import Throttle
from notifier.domain.push.circuit_breaker import OpenCircuit
from notifier.flow.operations.overview import BurstOverview, CacheState, OverviewSnapshot


class TierBody(msgspec.Struct, kw_only=True):
    """Progress of the inbox rows of one tier of a burst. Slices of alerts are left out.

    - `people` counts the users in slices that are done.
    - `ended` counts the slices that are done, pulled or dead.
    - `duration_seconds` is the time from the acceptance of the first mention to the end of the last slice. It is null
      until all slices have ended.
    - Each of `spans` has a first shard, a last shard, and their state: planned, in_flight, parked, done, pulled, dead.
    """

    people: int
    slices: int
    ended: int
    duration_seconds: float | None
    spans: list[tuple[int, int, str]]


class RecipientsBody(msgspec.Struct, kw_only=True):
    """Accounting of a burst's followers.

    `counted_shards` counts the shards whose audience snapshot is included. While it is less than the burst's `shards`,
    the totals are partial.
    """

    expected: int
    delivered: int
    suppressed: int
    parked: int
    pulled: int
    dead: int
    in_flight: int
    balanced: bool
    counted_shards: int


class RunningBody(msgspec.Struct, kw_only=True):
    """The burst that is shown in detail: the newest unfinished candidate, or the newest one if none is unfinished.

    - Candidates are the bursts of `mention:` subjects among the newest 256 of the last hour. If any of them is in the
      celebrity lane and not pull-only, only such bursts are candidates.
    - Deferred bursts do not count as unfinished.
    - `count` counts the mentions of the burst.
    - `deferred_until` is the time when the first deferred slice resumes; null if none is deferred.
    """

    burst: str
    opened_at: datetime
    count: int
    followers: int
    shards: int
    finished: bool
    deferred_until: datetime | None
    tiers: dict[str, TierBody]
    recipients: RecipientsBody


class BacklogBody(msgspec.Struct, kw_only=True):
    """Backlog of a pool.

    - `slices` counts the runnable slices.
    - `deferred_slices` counts slices that resume at a later time. Slices of deferred bursts are not counted.
    - `delay_seconds` is the age of the oldest burst with runnable slices, or 0 without any. It is null if unknown, and
      while a throttle holds the pool.
    """

    slices: int
    deferred_slices: int
    delay_seconds: float | None


class OpenCircuitBody(msgspec.Struct, kw_only=True):
    """A provider's line whose circuit breaker is open in a process, or a group of devices that a provider rejects.

    - `line` is `apns`, `apns sandbox`, `fcm`, or `web` with the host of a push service. A group is `fcm third-party`.
    - That process sends no alerts over an open line before `until`. Alerts to a group are still sent.
    """

    line: str
    until: datetime
    reason: str


class ThrottleBody(msgspec.Struct, kw_only=True):
    """A throttle and the operator who set it. `state` is `active` or `ramping`."""

    id: str
    tier: str
    rate: float | None
    state: str
    reason: str
    operator: str
    ends_at: datetime


class StoppedLaneBody(msgspec.Struct, kw_only=True):
    """A processing lane that was stopped by its dead-letter limit.

    - `lane` is a stream of the log or a pool of slices.
    - `limit` is `in_a_row` or `in_window`.
    - `record` is the record whose failure exceeded the limit. It is no dead letter, and is tried first after a resume.
    """

    lane: str
    since: datetime
    limit: str
    record: str
    cause: str


class RoleBody(msgspec.Struct, kw_only=True):
    """A role of `notifier up`: the id of its process, and how often the process was replaced."""

    pid: int
    replaced: int


class RedisBody(msgspec.Struct, kw_only=True):
    """State of Redis: `ok`, `rebuilding` while its data is incomplete, or `unavailable`."""

    state: str
    generation: str | None


class SystemBody(msgspec.Struct, kw_only=True):
    """Overview of the system at one moment.

    - `deferred_bursts` are not counted in `open_bursts`. They have nothing to do before a known time.
    - `stopped_lanes` are processing lanes that process nothing until an operator resumes them.
    - `loading` is the progress of loading a demo's data in percent; null if no data is loading.
    """

    at: datetime
    mentions_per_second: float
    rows_per_second: float
    deliveries_per_second: float
    open_bursts: int
    deferred_bursts: int
    running: RunningBody | None
    backlog: dict[str, BacklogBody]
    open_circuits: list[OpenCircuitBody]
    throttles: list[ThrottleBody]
    stopped_lanes: list[StoppedLaneBody]
    backpressure: float | None
    roles: dict[str, RoleBody]
    redis: RedisBody
    loading: int | None


def system_body(snapshot: OverviewSnapshot, roles: RoleProcesses, loading_percent: int | None) -> SystemBody:
    return SystemBody(
        at=snapshot.at,
        mentions_per_second=round(snapshot.mentions_per_second, 1),
        rows_per_second=round(snapshot.rate.rows),
        deliveries_per_second=round(snapshot.rate.deliveries),
        open_bursts=snapshot.unfinished_burst_count,
        deferred_bursts=snapshot.deferred_burst_count,
        running=_running_body(snapshot.shown_burst) if snapshot.shown_burst else None,
        backlog=_backlog_bodies(snapshot),
        open_circuits=[
            _open_circuit_body(line, circuit) for line, circuit in sorted(snapshot.cache.open_circuits.items())
        ],
        throttles=[_throttle_body(throttle, snapshot.at) for throttle in snapshot.throttles],
        stopped_lanes=[_stopped_lane_body(lane, stop) for lane, stop in snapshot.stopped_lanes.items()],
        backpressure=snapshot.cache.backpressure,
        roles=_role_bodies(roles),
        redis=RedisBody(state=_redis_state(snapshot.cache), generation=snapshot.cache.generation),
        loading=loading_percent,
    )


def _running_body(running: BurstOverview) -> RunningBody:
    return RunningBody(
        burst=str(running.burst.key),
        opened_at=running.burst.opened_at,
        count=running.burst.count,
        followers=running.followers,
        shards=running.shard_count,
        finished=running.is_finished,
        deferred_until=running.deferred_until,
        tiers={str(progress.tier): _tier_body(progress) for progress in running.tiers},
        recipients=_recipients_body(running.totals, running.counted_shards),
    )


def _tier_body(progress: TierProgress) -> TierBody:
    return TierBody(
        people=progress.people,
        slices=progress.slice_count,
        ended=progress.ended_count,
        duration_seconds=progress.seconds,
        spans=[(span.first, span.last, str(span.state)) for span in progress.spans],
    )


def _recipients_body(totals: RecipientTotals, counted_shards: int) -> RecipientsBody:
    return RecipientsBody(
        expected=totals.expected,
        delivered=totals.delivered,
        suppressed=totals.suppressed,
        parked=totals.parked,
        pulled=totals.pulled,
        dead=totals.dead,
        in_flight=totals.in_flight,
        balanced=totals.is_balanced,
        counted_shards=counted_shards,
    )


def _backlog_bodies(snapshot: OverviewSnapshot) -> dict[str, BacklogBody]:
    backlogs = snapshot.cache.backlogs
    return {
        str(pool): BacklogBody(
            slices=backlog.slices, deferred_slices=backlog.deferred, delay_seconds=snapshot.seconds_behind(pool)
        )
        for pool in Pool
        if (backlog := backlogs.get(pool)) is not None
    }


def _open_circuit_body(line: str, circuit: OpenCircuit) -> OpenCircuitBody:
    return OpenCircuitBody(line=line, until=circuit.until, reason=circuit.reason)


def _throttle_body(throttle: Throttle, now: datetime) -> ThrottleBody:
    return ThrottleBody(
        id=throttle.id,
        tier=str(throttle.tier),
        rate=throttle.rate,
        state="active" if throttle.is_active(now) else "ramping",
        reason=throttle.reason,
        operator=throttle.operator,
        ends_at=throttle.ends_at,
    )


def _stopped_lane_body(lane: str, stop: LaneStop) -> StoppedLaneBody:
    return StoppedLaneBody(lane=lane, since=stop.at, limit=str(stop.kind), record=stop.record, cause=stop.cause)


def _role_bodies(roles: RoleProcesses) -> dict[str, RoleBody]:
    replaced: Mapping[str, int] = roles.replacements()
    return {role: RoleBody(pid=pid, replaced=replaced.get(role, 0)) for role, pid in roles.pids().items()}


def _redis_state(cache: CacheState) -> str:
    if not cache.is_available:
        return "unavailable"
    return "ok" if cache.generation else "rebuilding"
