"""Verification finds whatever differs from the rows of follows, and what it asks for is made right."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers import SetKind
from notifier.domain.delivery.plan import SetHead
from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.users.account_preferences import OverallWish
from notifier.domain.users.subject_preferences import Volume
from notifier.flow.indexing.audience_verification import Compared, Verification
from notifier.ports.audience import ShardBlob
from tests.support.damaged_bitmaps import Damaged
from tests.support.in_memory_system import Stage

BEA = UserId("bea")
OF_BEA = Subject(Kind.MENTION, BEA)


def verification(stage: Stage) -> Verification:
    g = stage.ground
    return Verification(
        directory=g.directory, follows=g.follows, wants=g.wants, overalls=g.overalls, sets=g.sets, log=g.log
    )


def compared(stage: Stage, sample: float = inf) -> Sequence[Compared]:
    made = verification(stage)
    return made.verify(BEA, made.shards(BEA), sample)


def followed() -> Stage:
    """Bea has two followers in the first shard and one in the second."""
    stage = Stage()
    for who in ("kim", "pat", "eve"):
        stage.followed(who, BEA, sequence=1)
    return stage


def test_what_the_indexer_wrote_is_right() -> None:
    stage = followed()
    found = compared(stage)
    assert [(one.shard, one.followers, one.head, one.wrong) for one in found] == [(0, 2, 2, False), (1, 1, 1, False)]
    assert verification(stage).repair(BEA, found) == 0


def test_what_is_missing_and_who_is_a_stranger_is_found_and_made_right() -> None:
    stage = followed()
    spoilt = ShardBlob(kind=SetKind.FOLLOWERS, owner=OF_BEA, shard=0, bits=from_offsets([12, 99]))
    stage.ground.sets.force(spoilt)
    wrong, right = compared(stage)
    assert (wrong.missing, wrong.strangers, wrong.wrong, right.wrong) == (1, 1, True, False)
    assert verification(stage).repair(BEA, [wrong, right]) == 1
    stage.sequence()
    assert not any(one.wrong for one in compared(stage))


def test_a_mute_that_no_bitmap_has_is_found_and_made_right() -> None:
    stage = followed()
    stage.ground.people.mute(UserId("kim"), OF_BEA)
    wrong, right = compared(stage)
    assert (wrong.missing, wrong.strangers, right.wrong) == (1, 0, False)
    assert verification(stage).repair(BEA, [wrong]) == 1
    stage.sequence()
    assert not any(one.wrong for one in compared(stage))
    assert stage.ground.sets.read(SetKind.MUTED, OF_BEA, [0])[0].any()


def test_a_word_of_everything_that_no_bitmap_has_is_found_and_made_right() -> None:
    stage = followed()
    stage.ground.people.arrange(UserId("kim"), OverallWish(volume=Volume.OFF))
    wrong, right = compared(stage)
    assert (wrong.missing, wrong.strangers, right.wrong) == (1, 0, False)
    assert verification(stage).repair(BEA, [wrong]) == 1
    stage.sequence()
    assert not any(one.wrong for one in compared(stage))
    assert stage.ground.sets.read(SetKind.OVERALL_OFF, None, [0])[0].any()


def test_a_head_that_counts_wrongly_is_made_right() -> None:
    stage = followed()
    stage.ground.sets.force(SetHead(total=9, counts=(9,)), of=OF_BEA)
    found = compared(stage)
    assert [one.head for one in found] == [9, 0]
    assert verification(stage).repair(BEA, found) == 2
    stage.sequence()
    assert stage.ground.sets.head(OF_BEA) == SetHead(total=3, counts=(2, 1))


def test_of_a_sample_it_looks_no_further_than_it_was_asked_to() -> None:
    stage = followed()
    assert [len(compared(stage, sample)) for sample in (1, 2, 3, 4)] == [1, 1, 2, 2]


def test_beyond_a_sample_it_is_seen_which_bitmaps_can_not_be_read_and_which_the_head_counts_wrongly() -> None:
    stage = followed()
    made = verification(stage)
    assert [one.wrong for one in made.look(BEA, [0, 1])] == [False, False]
    stage.ground.sets.force(ShardBlob(kind=SetKind.FOLLOWERS, owner=OF_BEA, shard=1, bits=from_offsets([1, 2, 3])))
    assert [(one.followers, one.head, one.wrong) for one in made.look(BEA, [0, 1])] == [(2, 2, False), (3, 1, True)]
    spoilt = replace(made, sets=Damaged(stage.ground.sets, SetKind.MUTED, OF_BEA))
    assert [(one.unreadable, one.wrong) for one in spoilt.look(BEA, [0])] == [(1, True)]
    assert spoilt.repair(BEA, spoilt.look(BEA, [0])) == 1
