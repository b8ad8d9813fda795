"""`vip_push_p95_s`: time until the VIPs' alerts are with their providers in the demo's storm."""

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.costs_and_figures import Figure, Spread
from benchmarks.fanout.measured_notifier import FanoutStage, staged
from benchmarks.push.expected_and_arrived_alerts import ArrivedAlerts
from notifier.devkit.check.check_alerts import ArrivedAlert
from notifier.devkit.check.delivery_latency import VIP_PUSH_P95_LIMIT_SECONDS
from notifier.devkit.check.expected_result import ExpectedResult
from notifier.devkit.check.finding_and_quantiles import at_most, quantile
from notifier.devkit.check.mention_storm import Storm, tweets
from notifier.devkit.fixture.world import ACTIVE_7D, World
from notifier.devkit.fixture.world_bitmaps import WorldBitmaps
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Kind, Member
from notifier.domain.push.alert import burst_alert
from notifier.ports.audience import ShardBitmap

NAME = "vip_push_p95_s"
PEOPLE, PEOPLE_QUICK = 1_000_000, 200_000
MENTIONS, STORM_SECONDS, BATCH = 240, 12.0, 5
"""The storm of the demo without a page."""
CELEBRITIES = 12
TIMEOUT_SECONDS = 120.0


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    people = PEOPLE_QUICK if quick else PEOPLE
    world = World(universe=people, followers=people, celebrities=CELEBRITIES, seed=1)
    with staged(folder, world, tell=tell, threshold=people, push_hourly=0, push_daily=0, push_fakes="on") as stage:
        _make_vips(stage)
        tell(f"storm: {MENTIONS} mentions in {STORM_SECONDS:.0f} s")
        Storm(instance=stage.instance, tweets=tweets(world, MENTIONS, 1), duration=STORM_SECONDS, batch_size=BATCH)()
        stage.await_idle(TIMEOUT_SECONDS)
        bursts = [burst for burst in stage.ports.store_scan.bursts() if burst.key.subject.kind is Kind.MENTION]
        return [figure(world, bursts, ArrivedAlerts(stage=stage, tiers=()).lines())]


def _make_vips(stage: FanoutStage) -> None:
    """Make every user with a device a VIP, because a world has too few VIPs for a percentile."""
    crowd = WorldBitmaps(stage.world)
    stage.ports.sets.put(
        ShardBitmap(kind=SetKind.VIP, owner=None, shard=shard, bits=crowd.account_wide_set(SetKind.WITH_DEVICE, shard))
        for shard in range(stage.world.shards)
    )


def figure(world: World, bursts: Collection[Burst], lines: Sequence[ArrivedAlert]) -> Figure:
    waits, most = list(_waits(world, bursts, lines)), max((len(vips(world, burst)) for burst in bursts), default=0)
    arrived = [wait for wait in waits if wait != float("inf")]
    detail = f"{len(bursts)} bursts, up to {most} VIPs with a device in one; {len(waits) - len(arrived)} alerts missing"
    finding = at_most(NAME, quantile(waits, 0.95), VIP_PUSH_P95_LIMIT_SECONDS, unit="s", n=len(waits), detail=detail)
    return Figure(finding=finding, ours=Spread.of(arrived) if arrived else None)


def _waits(world: World, bursts: Collection[Burst], lines: Sequence[ArrivedAlert]) -> Iterator[float]:
    """Yield the seconds from the acceptance of a burst's first mention to the first alert at the VIP's provider.

    A missing alert is infinite. A tweet that names two celebrities makes one alert per user, for either burst.
    """
    tweets = {burst_alert(burst).collapse_id: burst.tweet for burst in bursts}
    first = dict[tuple[str, Member | None], ArrivedAlert]()
    for line in sorted(lines, key=lambda arrival: arrival.at):
        first.setdefault((line.collapse_id, line.member), line)
    arrived = {(tweets.get(place), member) for place, member in first}
    for burst in bursts:
        for member in vips(world, burst):
            came = first.get((burst_alert(burst).collapse_id, member))
            if came or (burst.tweet, member) not in arrived:
                yield (came.at - burst.accepted_at).total_seconds() if came else float("inf")


def vips(world: World, burst: Burst) -> Collection[Member]:
    """Return the members of the audience with a device who were active within a week."""
    if burst.pull_only:
        return ()
    truth, members = ExpectedResult(world=world, mentions=[], bursts={}), list[Member]()
    for shard in range(world.shards):
        m = np.arange(shard * SHARD_MEMBERS, (shard + 1) * SHARD_MEMBERS, dtype=np.int64)
        is_expected = truth.audience(burst, shard, m) & truth.with_device(shard) & (world.idleness(m) < ACTIVE_7D)
        members += map(Member, m[is_expected].tolist())
    return members
