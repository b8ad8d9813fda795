"""The census: the same people that a burst's seals would have, and whom they leave out."""

import pytest

from notifier.domain.audience.bitmap import count
from notifier.domain.audience.tiers import TIERS, SetKind, Tier
from notifier.domain.errors import Unavailable
from notifier.domain.ids import Kind, Lane, Subject, UserId
from notifier.flow.operations.audience_count import Census
from tests.support.damaged_bitmaps import Damaged
from tests.support.in_memory_system import LYRA, NOVA, Stage


def test_it_counts_whom_a_mention_reaches_and_whom_a_rule_leaves_out() -> None:
    stage = Stage()
    found = Census(sets=stage.ground.sets).count(NOVA, Lane.CELEBRITY)
    stage.mention("nova")
    stage.deliver()
    seals = list(stage.ground.archive.seals(stage.bursts()[0]))
    assert (found.followers, found.head) == (7, 100_000_000)  # so that she is a celebrity here
    assert {tier: found.tiers[tier] for tier in TIERS} == {
        tier: sum(count(seal.tiers[tier]) for seal in seals) for tier in TIERS
    }
    assert found.tiers[Tier.DORMANT] == sum(seal.dormant for seal in seals)
    assert found.phones[Tier.P0] + found.phones[Tier.P1] == 3
    assert found.first == 1
    of_lyra = Census(sets=stage.ground.sets).count(LYRA, Lane.STANDARD)
    assert (of_lyra.followers, of_lyra.suppressed, of_lyra.tiers[Tier.DORMANT]) == (3, {"muted": 1}, 0)


def test_of_whom_nobody_follows_there_is_nothing_to_count() -> None:
    found = Census(sets=Stage().ground.sets).count(Subject(Kind.MENTION, UserId("kim")), Lane.STANDARD)
    assert (found.followers, found.head, found.shards, found.suppressed) == (0, 0, 0, {})


def test_a_bitmap_that_can_not_be_read_is_told_with_what_to_do() -> None:
    with pytest.raises(Unavailable, match="Try `notifier audience verify @nova --repair`"):
        Census(sets=Damaged(Stage().ground.sets, SetKind.FOLLOWERS)).count(NOVA, Lane.CELEBRITY)
