"""The audience count equals the audience snapshots of a burst and lists suppressed users."""

import pytest

from notifier.domain.audience.bitmap import count
from notifier.domain.audience.tiers_and_member_sets import TIERS, SetKind, Tier
from notifier.domain.errors import Unavailable
from notifier.domain.ids import Kind, Lane, Subject, UserId
from notifier.flow.operations.audience_count import AudienceCounter
from tests.support.corrupt_member_sets import CorruptSets
from tests.support.in_memory_system import LYRA, NOVA, Stage


def test_count_equals_the_snapshots_and_includes_suppressed_users() -> None:
    stage = Stage()
    audience = AudienceCounter(sets=stage.state.sets).count(NOVA, Lane.CELEBRITY)
    stage.mention("nova")
    stage.deliver()
    snapshots = list(stage.state.store_scan.audience_snapshots(stage.bursts()[0]))
    assert (audience.followers, audience.planned_followers) == (7, 100_000_000)  # so that she is a celebrity here
    assert {tier: audience.tiers[tier] for tier in TIERS} == {
        tier: sum(count(snapshot.tiers[tier]) for snapshot in snapshots) for tier in TIERS
    }
    assert audience.tiers[Tier.DORMANT] == sum(snapshot.dormant_count for snapshot in snapshots)
    assert audience.push_enabled[Tier.P0] + audience.push_enabled[Tier.P1] == 3
    assert audience.first_only_count == 1
    of_lyra = AudienceCounter(sets=stage.state.sets).count(LYRA, Lane.STANDARD)
    assert (of_lyra.followers, of_lyra.suppressed, of_lyra.tiers[Tier.DORMANT]) == (3, {"muted": 1}, 0)


def test_count_without_followers_is_zero() -> None:
    audience = AudienceCounter(sets=Stage().state.sets).count(Subject(Kind.MENTION, UserId("kim")), Lane.STANDARD)
    assert (audience.followers, audience.planned_followers, audience.shard_count, audience.suppressed) == (0, 0, 0, {})


def test_unreadable_bitmap_error_names_the_repair_command() -> None:
    with pytest.raises(Unavailable, match="Run `notifier audience verify @nova --repair`"):
        AudienceCounter(sets=CorruptSets(Stage().state.sets, SetKind.FOLLOWERS)).count(NOVA, Lane.CELEBRITY)
