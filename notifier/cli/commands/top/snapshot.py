"""Snapshot for `notifier top`: the overview, and the processes on this machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from notifier.cli.commands.throttle import throttle_json
from notifier.cli.output import iso_time
from notifier.cli.running_service import Ready, is_alive, read_ready
from notifier.cli.supervisor.pid_files import pid_files_of
from notifier.config import Settings
from notifier.domain.audience.tiers_and_member_sets import TIERS
from notifier.domain.delivery.ledger import State
from notifier.domain.delivery.recipient_totals_and_progress import TierProgress, tier_progress
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import NotRunning
from notifier.flow.operations.overview import Overview, OverviewSnapshot
from notifier.ports.all_ports import Ports

MAX_COUNTED_LETTERS = 100
"""Maximum number of dead letters that are counted."""
MAX_SHOWN_BURSTS = 8
"""Maximum number of unfinished bursts that are shown, oldest first: a delay is visible in the oldest."""

JsonObject = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class TierBar:
    """Delivery progress of one tier of a burst."""

    tier: str
    share: float
    """Share of the shards that are done, pulled or dead."""
    user_count: int
    """Number of users who got a row."""
    parked: bool
    """Whether a throttle holds any of the remaining work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedBurst:
    """A burst with slices that have not ended."""

    burst: str
    mention_count: int
    follower_count: int
    bars: Sequence[TierBar]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """A process of `up`."""

    role: str
    pid: int
    alive: bool
    since: datetime | None
    """When it wrote its pid file; for `up` itself, when `up` started. None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopView:
    """Everything that `notifier top` shows at one moment."""

    snapshot: OverviewSnapshot
    unfinished: Sequence[UnfinishedBurst]
    dead_letter_count: int
    url: str | None
    """Address of the service. None: nothing runs on the folder."""
    processes: Sequence[ProcessRow]

    @property
    def redis(self) -> str:
        cache = self.snapshot.cache
        if not cache.is_available:
            return "unavailable"
        return "ok" if cache.generation else "rebuilding"


def read_view(overview: Overview, ports: Ports, settings: Settings) -> TopView:
    snapshot = overview.read()
    ready = _ready(settings)
    return TopView(
        snapshot=snapshot,
        unfinished=_unfinished(ports, snapshot),
        dead_letter_count=len(ports.dead_letters.list(MAX_COUNTED_LETTERS)),
        url=ready.url if ready else None,
        processes=_processes(settings, ready) if ready else (),
    )


def view_json(view: TopView) -> dict[str, object]:
    snapshot = view.snapshot
    return {
        "at": iso_time(snapshot.at),
        "url": view.url,
        "mentions_per_second": round(snapshot.mentions_per_second, 1),
        "rows_per_second": round(snapshot.rate.rows, 1),
        "deliveries_per_second": round(snapshot.rate.deliveries, 1),
        "open_bursts": snapshot.unfinished_burst_count,
        "deferred_bursts": snapshot.deferred_burst_count,
        "running": [_burst_json(burst) for burst in view.unfinished],
        "backlog": {str(pool): _backlog_json(snapshot, pool) for pool in Pool if pool in snapshot.cache.backlogs},
        "open_circuits": [
            {"line": provider, "until": iso_time(circuit.until), "reason": circuit.reason}
            for provider, circuit in sorted(snapshot.cache.open_circuits.items())
        ],
        "throttles": [throttle_json(throttle, snapshot.at) for throttle in snapshot.throttles],
        "stopped_lanes": [
            {
                "lane": lane,
                "since": iso_time(stop.at),
                "limit": str(stop.kind),
                "record": stop.record,
                "cause": stop.cause,
            }
            for lane, stop in snapshot.stopped_lanes.items()
        ],
        "backpressure": snapshot.cache.backpressure,
        "redis": view.redis,
        "dead_letters": view.dead_letter_count,
        "processes": [
            {
                "role": process.role,
                "pid": process.pid,
                "alive": process.alive,
                "since": iso_time(process.since) if process.since else None,
            }
            for process in view.processes
        ],
    }


def pool_delay(snapshot: OverviewSnapshot, pool: Pool) -> float | None:
    """Return the age of the oldest burst with work for the pool, in seconds. 0: there is no work.

    None: a throttle holds the pool.
    """
    backlog = snapshot.cache.backlogs[pool]
    if backlog.oldest_opened_at is None:
        return None if backlog.slices else 0.0
    return max(0.0, (snapshot.at - backlog.oldest_opened_at).total_seconds())


def _backlog_json(snapshot: OverviewSnapshot, pool: Pool) -> JsonObject:
    seconds = pool_delay(snapshot, pool)
    return {
        "slices": snapshot.cache.backlogs[pool].slices,
        "deferred_slices": snapshot.cache.backlogs[pool].deferred,
        "delay_seconds": None if seconds is None else round(seconds, 1),
    }


def _burst_json(burst: UnfinishedBurst) -> JsonObject:
    tiers = {
        bar.tier: {"share": round(bar.share, 3), "people": bar.user_count, "parked": bar.parked} for bar in burst.bars
    }
    return {"burst": burst.burst, "mentions": burst.mention_count, "followers": burst.follower_count, "tiers": tiers}


def _unfinished(ports: Ports, snapshot: OverviewSnapshot) -> Sequence[UnfinishedBurst]:
    keys = ports.ledger.unfinished_bursts()[:MAX_SHOWN_BURSTS]
    progress, bursts = ports.ledger.read(keys), ports.bursts.read(keys)
    throttle_ids = frozenset(throttle.id for throttle in snapshot.throttles)
    return [
        UnfinishedBurst(
            burst=str(key),
            mention_count=bursts[key].count if key in bursts else 1,
            follower_count=progress[key].plan.followers,
            bars=[_tier_bar(tier) for tier in tier_progress(progress[key], throttle_ids=throttle_ids, now=snapshot.at)],
        )
        for key in keys
        if key in progress and not progress[key].is_finished
    ]


def _tier_bar(tier: TierProgress) -> TierBar:
    final_states = {State.DONE, State.PULLED, State.DEAD}
    spans = [(span.last - span.first + 1, span.state) for span in tier.spans]
    total = sum(width for width, _ in spans)
    return TierBar(
        tier=str(tier.tier),
        share=sum(width for width, state in spans if state in final_states) / total if total else 1.0,
        user_count=tier.people,
        parked=any(state is State.PARKED for _, state in spans),
    )


def _ready(settings: Settings) -> Ready | None:
    try:
        return read_ready(settings.data)
    except NotRunning:
        return None


def _processes(settings: Settings, ready: Ready) -> Sequence[ProcessRow]:
    pid_files = pid_files_of(settings.data)
    started = {"up": datetime.fromisoformat(ready.since)} if ready.since else {}
    return [
        ProcessRow(role=name, pid=pid, alive=is_alive(pid), since=started.get(name) or pid_files.written_at(name, pid))
        for name, pid in ready.pids.items()
    ]


def tier_names() -> Sequence[str]:
    return [str(tier) for tier in TIERS]


def format_clock(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%H:%M:%S UTC")
