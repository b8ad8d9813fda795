"""Audience verification finds and repairs bitmaps and heads that differ from the rows of follows."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.delivery.plan import FollowerCounts
from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferencesPatch
from notifier.domain.users.subject_preferences import Volume
from notifier.flow.indexing.audience_verification import AudienceVerification, ShardComparison
from notifier.ports.audience import ShardBitmap
from tests.support.corrupt_member_sets import CorruptSets
from tests.support.in_memory_system import Stage

BEA = UserId("bea")
OF_BEA = Subject(Kind.MENTION, BEA)


def verification(stage: Stage) -> AudienceVerification:
    state = stage.state
    return AudienceVerification(
        directory=state.directory,
        follows=state.follows,
        subject_preferences=state.subject_preferences,
        account_preferences=state.account_preferences,
        sets=state.sets,
        log=state.log,
    )


def compared(stage: Stage, sample: float = inf) -> Sequence[ShardComparison]:
    check = verification(stage)
    return check.verify(BEA, check.shards(BEA), sample)


def stage_with_followers_of_bea() -> Stage:
    """Return a stage with two followers of bea in the first shard and one in the second."""
    stage = Stage()
    for user in ("kim", "pat", "eve"):
        stage.followed(user, BEA, sequence=1)
    return stage


def test_verification_finds_no_error_in_indexed_bitmaps() -> None:
    stage = stage_with_followers_of_bea()
    shards = compared(stage)
    assert [(shard.shard, shard.followers, shard.counted_followers, shard.has_differences) for shard in shards] == [
        (0, 2, 2, False),
        (1, 1, 1, False),
    ]
    assert verification(stage).repair(BEA, shards) == 0


def test_missing_and_extra_followers_are_repaired() -> None:
    stage = stage_with_followers_of_bea()
    corrupt = ShardBitmap(kind=SetKind.FOLLOWERS, owner=OF_BEA, shard=0, bits=from_offsets([12, 99]))
    stage.state.sets.force(corrupt)
    wrong, right = compared(stage)
    assert (wrong.missing, wrong.extra, wrong.has_differences, right.has_differences) == (1, 1, True, False)
    assert verification(stage).repair(BEA, [wrong, right]) == 1
    stage.sequence()
    assert not any(shard.has_differences for shard in compared(stage))


def test_missing_mute_is_repaired() -> None:
    stage = stage_with_followers_of_bea()
    stage.state.people.mute(UserId("kim"), OF_BEA)
    wrong, right = compared(stage)
    assert (wrong.missing, wrong.extra, right.has_differences) == (1, 0, False)
    assert verification(stage).repair(BEA, [wrong]) == 1
    stage.sequence()
    assert not any(shard.has_differences for shard in compared(stage))
    assert stage.state.sets.read(SetKind.MUTED, OF_BEA, [0])[0].any()


def test_missing_account_preference_is_repaired() -> None:
    stage = stage_with_followers_of_bea()
    stage.state.people.patch_account(UserId("kim"), AccountPreferencesPatch(volume=Volume.OFF))
    wrong, right = compared(stage)
    assert (wrong.missing, wrong.extra, right.has_differences) == (1, 0, False)
    assert verification(stage).repair(BEA, [wrong]) == 1
    stage.sequence()
    assert not any(shard.has_differences for shard in compared(stage))
    assert stage.state.sets.read(SetKind.OVERALL_OFF, None, [0])[0].any()


def test_wrong_head_is_repaired() -> None:
    stage = stage_with_followers_of_bea()
    stage.state.sets.force(FollowerCounts(total=9, by_shard=(9,)), of=OF_BEA)
    shards = compared(stage)
    assert [shard.counted_followers for shard in shards] == [9, 0]
    assert verification(stage).repair(BEA, shards) == 2
    stage.sequence()
    assert stage.state.sets.follower_counts(OF_BEA) == FollowerCounts(total=3, by_shard=(2, 1))


def test_sample_bounds_the_shards_compared() -> None:
    stage = stage_with_followers_of_bea()
    assert [len(compared(stage, sample)) for sample in (1, 2, 3, 4)] == [1, 1, 2, 2]


def test_quick_check_finds_unreadable_bitmaps_and_wrong_heads() -> None:
    stage = stage_with_followers_of_bea()
    check = verification(stage)
    assert [shard.has_differences for shard in check.check_counts(BEA, [0, 1])] == [False, False]
    stage.state.sets.force(ShardBitmap(kind=SetKind.FOLLOWERS, owner=OF_BEA, shard=1, bits=from_offsets([1, 2, 3])))
    assert [
        (shard.followers, shard.counted_followers, shard.has_differences) for shard in check.check_counts(BEA, [0, 1])
    ] == [
        (2, 2, False),
        (3, 1, True),
    ]
    damaged = replace(check, sets=CorruptSets(stage.state.sets, SetKind.MUTED, OF_BEA))
    assert [(shard.unreadable, shard.has_differences) for shard in damaged.check_counts(BEA, [0])] == [(1, True)]
    assert damaged.repair(BEA, damaged.check_counts(BEA, [0])) == 1
