"""Measures mentions of a celebrity with 200,000,000 followers: each tier's time, and isolation of P0."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.costs_and_figures import Figure, Spread, worst_at_most
from benchmarks.fanout.measured_notifier import FanoutStage, rows_of, staged
from notifier.devkit.check import delivery_latency
from notifier.devkit.check.finding_and_quantiles import at_most
from notifier.devkit.fixture.world import SINCE, World
from notifier.devkit.fixture.world_bitmaps import WorldBitmaps
from notifier.domain.audience.bitmap import SHARD_BLOCKS, Bits, count
from notifier.domain.audience.follows import BlockFollows
from notifier.domain.audience.tiers_and_member_sets import TIERS, SetKind, Tier
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.delivery.plan import FollowerCounts
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.ports.audience import ShardBitmap
from notifier.ports.user_directory_and_account_flags import DirectoryEntry as Enrolled

FOLLOWERS = 200_000_000
P1_S, P2_S, P0_P95_LIMIT_SECONDS = 8.0, 20.0, 4.0
ISOLATION_RATIO, ISOLATION_FLOOR_S = 1.5, 0.3
REISSUED_S = {Tier.P0: 3.0, Tier.P1: 5.0}

BURSTS = 2
"""Bursts per start of the notifier. A full run starts it twice. The worst burst is judged."""
FLOOD_BURSTS = 3
"""Number of concurrent bursts."""
BURST_PAUSE_SECONDS = 1.2
"""Seconds between two bursts of a subject: its collapse window here is one second, and its budget gains one fan-out per
second."""
KILLS = 3

VIPS = tuple(UserId(f"spica{i}") for i in range(10))
"""Small subjects whose followers are all VIPs."""
VIP_SHARDS = 8
PROBES, PROBE_INTERVAL_SECONDS = 40, 0.15
TIMEOUT_SECONDS = 90.0
CLAIM_TIMEOUT_SECONDS = 30.0
"""Far beyond any limit: a slice without a claim for so long has failed."""


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    world = World(universe=FOLLOWERS, followers=FOLLOWERS, celebrities=1, seed=1)
    progress_rows: list[BurstProgress] = []
    isolation: list[tuple[float, float, int]] = []
    lost: dict[Tier, list[float]] = {tier: [] for tier in REISSUED_S}
    for number in range(1 if quick else 2):
        with staged(folder / f"large{number}", world, tell=tell, collapse="PT1S", refill="1") as stage:
            _enrol_vips(stage)
            tell("one mention with 200,000,000 followers")
            progress_rows += [large_burst(stage) for _ in range(BURSTS)]
            tell("P0 alone, then under a flood of P2")
            isolation.append(_isolation(stage))
            tell("killing workers that hold a slice")
            for tier, seconds in _reissued(stage).items():
                lost[tier] += seconds
    return [*_times(progress_rows), _isolated(isolation), *_lost(lost)]


def large_burst(stage: FanoutStage, within: float = TIMEOUT_SECONDS) -> BurstProgress:
    """Send one mention of the first celebrity and wait for all rows of its burst.

    The next mention may open another burst.
    """
    event, _ = stage.mention(stage.world.names[0])
    progress = stage.wait(stage.burst_of(event), TIERS, within)
    time.sleep(BURST_PAUSE_SECONDS)
    return progress


def _times(progress_rows: Sequence[BurstProgress]) -> list[Figure]:
    p0 = [delivery_latency.p95(delivery_latency.slice_latencies([progress], [Tier.P0])) for progress in progress_rows]
    return [
        last_row("burst_200m_p1_s", progress_rows, Tier.P1, P1_S),
        last_row("burst_200m_p2_s", progress_rows, Tier.P2, P2_S),
        worst_at_most("p0_200m_p95_s", p0, P0_P95_LIMIT_SECONDS),
    ]


def last_row(name: str, progress_rows: Sequence[BurstProgress], tier: Tier, limit: float) -> Figure:
    """Judge the time from the 202's time stamp to the last row of the tier in the ledger, for the worst burst."""
    seconds = [
        delivery_latency.slowest(delivery_latency.slice_latencies([progress], [tier])) for progress in progress_rows
    ]
    people = sum(s.final_entry.people for s in rows_of(progress_rows[0], [tier]) if s.final_entry)
    return worst_at_most(name, seconds, limit, detail=f"{people:,} users")


def _enrol_vips(stage: FanoutStage) -> None:
    """Create subjects whose followers are the VIPs of the first shards."""
    crowd, ports = WorldBitmaps(stage.world), stage.ports
    vips: list[Bits] = [crowd.account_wide_set(SetKind.VIP, shard) for shard in range(VIP_SHARDS)]
    counts = [count(bits) for bits in vips]
    for i, name in enumerate(VIPS):
        subject = Subject(Kind.MENTION, name)
        ports.sets.put_follower_counts({subject: FollowerCounts(total=sum(counts), by_shard=counts)})
        ports.sets.put(ShardBitmap(kind=SetKind.FOLLOWERS, owner=subject, shard=s, bits=b) for s, b in enumerate(vips))
        ports.follows.write_blocks(
            BlockFollows(
                subject=subject,
                block=shard * SHARD_BLOCKS + block,
                visible_from=SINCE,
                members=bits.reshape(SHARD_BLOCKS, -1)[block].tobytes(),
            )
            for shard, bits in enumerate(vips)
            for block in range(SHARD_BLOCKS)
        )
        ports.directory.enrol([Enrolled(user=name, member=Member(stage.world.celebrity_member(0) + 1 + i))])


def _isolation(stage: FanoutStage) -> tuple[float, float, int]:
    """Return P0's p95 of the small subjects when idle, P0's p95 under load, and the number of bursts under load."""
    idle = delivery_latency.p95(_p0(stage, _probe(stage, lambda: False)))
    flood = []
    for _ in range(FLOOD_BURSTS):
        flood.append(stage.burst_of(stage.mention(stage.world.names[0])[0]))
        time.sleep(BURST_PAUSE_SECONDS)
    for burst in flood:
        stage.wait(burst, [Tier.P0], TIMEOUT_SECONDS)
    probes = _probe(stage, lambda: not _busy(stage, flood))
    ended = _ended(stage.wait(flood[-1], TIERS, TIMEOUT_SECONDS))
    under = _p0(stage, [key for key in probes if _opened(stage, key) < ended])
    return idle, delivery_latency.p95(under), len(under)


def _probe(stage: FanoutStage, enough: Callable[[], bool]) -> list[BurstKey]:
    events = []
    for number in range(PROBES):
        events.append(stage.mention(VIPS[number % len(VIPS)])[0])
        time.sleep(PROBE_INTERVAL_SECONDS)
        if enough():
            break
    bursts = dict.fromkeys(stage.burst_of(event) for event in events)
    for burst in bursts:
        stage.wait(burst, [Tier.P0], TIMEOUT_SECONDS)
    return list(bursts)


def _p0(stage: FanoutStage, bursts: Sequence[BurstKey]) -> list[tuple[float, int]]:
    return delivery_latency.slice_latencies(stage.ports.ledger.read(bursts).values(), [Tier.P0])


def _busy(stage: FanoutStage, bursts: Sequence[BurstKey]) -> bool:
    progress_rows = stage.ports.ledger.read(bursts).values()
    return any(
        not slice_state.final_entry for progress in progress_rows for slice_state in rows_of(progress, [Tier.P2])
    )


def _ended(progress: BurstProgress) -> datetime:
    return max(slice_state.final_entry.at for slice_state in rows_of(progress, [Tier.P2]) if slice_state.final_entry)


def _opened(stage: FanoutStage, burst: BurstKey) -> datetime:
    return stage.ports.bursts.read([burst])[burst].opened_at


def _isolated(rounds: Sequence[tuple[float, float, int]]) -> Figure:
    """Judge the worst round."""
    idle, flooded, n = max(rounds, key=lambda round_: round_[1])
    limit = max(ISOLATION_RATIO * idle, ISOLATION_FLOOR_S)
    finding = at_most(
        "p0_isolation", flooded, limit, unit="s", n=n, detail=f"p95 idle {idle:.3f} s, under P2 {flooded:.3f} s"
    )
    return Figure(
        finding=finding,
        ours=Spread.of([round_[1] for round_ in rounds]),
        baseline=Spread.of([round_[0] for round_ in rounds]),
    )


def _reissued(stage: FanoutStage) -> dict[Tier, list[float]]:
    """Return the seconds from the death of a worker to the next claim of its slice."""
    return {tier: list(_kills(stage, tier)) for tier in REISSUED_S}


def _kills(stage: FanoutStage, tier: Tier) -> Iterator[float]:
    """Kill workers during a burst of its own for the tier, because other tiers finish their slices meanwhile."""
    burst = stage.burst_of(stage.mention(stage.world.names[0])[0])
    for _ in range(KILLS):
        if (seconds := _kill(stage, burst, tier)) is not None:
            yield seconds
    stage.wait(burst, TIERS, TIMEOUT_SECONDS)
    time.sleep(BURST_PAUSE_SECONDS)


def _kill(stage: FanoutStage, burst: BurstKey, tier: Tier) -> float | None:
    """Return the seconds until the killed worker's slice is claimed again, or None if no kill hit a slice."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        progress = stage.progress(burst)
        slice_states = rows_of(progress, [tier]) if progress else []
        if slice_states and all(slice_state.final_entry for slice_state in slice_states):
            return None
        now, pid = stage.ports.clock.now(), stage.instance.pid(str(tier))
        held = [s for s in slice_states if not s.final_entry and s.claim and s.claim.until > now]
        if held and pid:
            os.kill(pid, signal.SIGKILL)
            killed = datetime.now(UTC)
            return _claimed_again(stage, held[0].slice.first, tier, burst, killed)
        time.sleep(0.005)
    return None


def _claimed_again(stage: FanoutStage, first: int, tier: Tier, burst: BurstKey, killed: datetime) -> float | None:
    deadline = time.monotonic() + CLAIM_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        progress = stage.progress(burst)
        for slice_state in rows_of(progress, [tier]) if progress else []:
            if slice_state.slice.first == first and slice_state.claim and slice_state.claim.claimed_at > killed:
                return (slice_state.claim.claimed_at - killed).total_seconds()
            if slice_state.slice.first == first and slice_state.final_entry:
                return None  # it ended before the signal arrived
        time.sleep(0.01)
    return CLAIM_TIMEOUT_SECONDS


def _lost(seconds_by_tier: dict[Tier, list[float]]) -> list[Figure]:
    figures = []
    for tier, seconds in seconds_by_tier.items():
        name, limit = f"lost_slice_reissued_s{{{tier}}}", REISSUED_S[tier]
        worst = max(seconds, default=float("inf"))
        finding = at_most(name, worst, limit, unit="s", n=len(seconds), detail="worst kill")
        figures.append(Figure(finding=finding, ours=Spread.of(seconds) if seconds else None))
    return figures
