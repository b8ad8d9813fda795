"""1,000 followers: active ones are alerted in time, and inactive ones find the burst."""

from collections.abc import Collection
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fanout.measured_notifier import FanoutStage, staged
from benchmarks.push.expected_and_arrived_alerts import ArrivedAlerts, ExpectedAlerts
from notifier.devkit.check.http_client import HttpClient, get_patiently
from notifier.devkit.fixture.world import ACTIVE_30D, World, user
from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers_and_member_sets import SetKind, Tier
from notifier.domain.ids import Member
from notifier.ports.audience import ShardBitmap

WORLD = World(universe=1_000, followers=1_000, celebrities=2, seed=52)
VIPS = range(2, 1_000, 10)
VIPS_WITHIN, ACTIVE_WITHIN = timedelta(seconds=5), timedelta(minutes=5)


def alert_latencies(arrivals: ArrivedAlerts, mention: ExpectedAlerts) -> dict[Member, timedelta]:
    """Return the time from acceptance of the mention until the provider had the alert, for each alerted member."""
    return {
        line.member: line.at - mention.burst.accepted_at for line in arrivals.of(mention) if line.member is not None
    }


def unread(stage: FanoutStage, members: Collection[int]) -> set[int]:
    """Return the numbers of unread items that these members see on a whole page of their inbox."""
    counts = set()
    for member in members:
        client = HttpClient(url=stage.instance.url, bearer=stage.token(user(member)))
        page = get_patiently(client, "/v1/inbox").body
        counts.add(sum(item["unread"] for item in page["items"]))
        client.close()
    return counts


@pytest.mark.timeout(120)
def test_active_followers_are_alerted_in_time_and_inactive_ones_find_the_burst(tmp_path: Path) -> None:
    members = np.arange(WORLD.universe, dtype=np.int64)
    see_one_mention = ~WORLD.mutes(0, members) & ~WORLD.follows(1, members)
    inactive = members[(WORLD.idleness(members) >= ACTIVE_30D) & see_one_mention].tolist()
    with staged(tmp_path, WORLD, tell=lambda _: None, threshold=1_000, push_fakes="on") as stage:
        vips = ShardBitmap(kind=SetKind.VIP, owner=None, shard=0, bits=from_offsets(VIPS))
        stage.ports.sets.put([vips])
        arrivals = ArrivedAlerts(stage=stage, tiers=[Tier.P0, Tier.P1])
        arrivals.mention(WORLD.names[1])  # a process that was just started takes its first mention slowly
        stage.await_idle(60)
        mention = arrivals.mention(WORLD.names[0])
        stage.await_idle(60)
        latencies = alert_latencies(arrivals, mention)
        assert unread(stage, inactive[:20]) == {1}
    urgent = {member for member in latencies if member in VIPS}
    assert len(urgent) >= 2
    assert max(latencies[member] for member in urgent) < VIPS_WITHIN
    assert len(latencies) > len(urgent)
    assert max(latencies.values()) < ACTIVE_WITHIN
    assert not set(inactive) & set(latencies)
    assert mention.due <= set(latencies)
