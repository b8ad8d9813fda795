"""The scenario that the service was asked for: of a thousand followers some are alerted, and all find it."""

from collections.abc import Collection
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fanout.stage import Stage, staged
from benchmarks.push.arrivals import Heard, Told
from notifier.devkit.check.http_client import HttpClient, patiently
from notifier.devkit.fixture.world import ACTIVE_30D, World, user
from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers import SetKind, Tier
from notifier.domain.ids import Member
from notifier.ports.audience import ShardBlob

WORLD = World(universe=1_000, followers=1_000, celebrities=2, seed=52)
VIPS = range(2, 1_000, 10)
VIPS_WITHIN, ACTIVE_WITHIN = timedelta(seconds=5), timedelta(minutes=5)


def waits(heard: Heard, told: Told) -> dict[Member, timedelta]:
    """From the acceptance of the mention until the alert was with its provider, of everybody whose phone rang."""
    return {line.member: line.at - told.burst.accepted_at for line in heard.of(told) if line.member is not None}


def unread(stage: Stage, members: Collection[int]) -> set[int]:
    """Return the numbers of unread items that these members find in a whole page of their inbox."""
    found = set()
    for member in members:
        wire = HttpClient(url=stage.instance.url, bearer=stage.token(user(member)))
        page = patiently(wire, "/v1/inbox").body
        found.add(sum(item["unread"] for item in page["items"]))
        wire.close()
    return found


@pytest.mark.timeout(120)
def test_vips_are_alerted_within_5_s_the_active_within_5_minutes_and_the_inactive_find_it_when_they_open(
    tmp_path: Path,
) -> None:
    m = np.arange(WORLD.universe, dtype=np.int64)
    inactive = m[(WORLD.idleness(m) >= ACTIVE_30D) & ~WORLD.mutes(0, m) & ~WORLD.follows(1, m)].tolist()
    with staged(tmp_path, WORLD, tell=lambda _: None, threshold=1_000, push_fakes="on") as stage:
        vips = ShardBlob(kind=SetKind.VIP, owner=None, shard=0, bits=from_offsets(VIPS))
        stage.ports.sets.put([vips])
        heard = Heard(stage=stage, tiers=[Tier.P0, Tier.P1])
        heard.mention(WORLD.names[1])  # what was just started takes its first mention slowly
        stage.rest(60)
        told = heard.mention(WORLD.names[0])
        stage.rest(60)
        found = waits(heard, told)
        assert unread(stage, inactive[:20]) == {1}
    urgent = {member for member in found if member in VIPS}
    assert len(urgent) >= 2
    assert max(found[member] for member in urgent) < VIPS_WITHIN
    assert len(found) > len(urgent)
    assert max(found.values()) < ACTIVE_WITHIN
    assert not set(inactive) & set(found)
    assert told.due <= set(found)
