"""User blocks: the meaning of a block and of its end, without any store."""

from dataclasses import replace
from datetime import timedelta

from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.ids import Member
from notifier.domain.users.subject_preferences import NEVER
from notifier.domain.users.user_blocks import (
    BlockDirection,
    UserBlock,
    UserBlockChange,
    UserBlockSide,
    blocked_accounts,
    user_block_ends,
    visible_after_unblock,
)
from tests.support.domain_examples import ADA, BOB, EVE, NOON, NOVA, OF_NOVA

LATER = NOON + timedelta(hours=1)
BLOCK = UserBlockChange(id=EventId("graph", "1"), blocker=ADA, blocked=EVE, blocks=True, sequence=3, at=NOON)
MEMBERS = {ADA: Member(1), EVE: Member(2)}


def test_block_has_a_side_for_each_account() -> None:
    assert BLOCK.user_block(MEMBERS).sides == (
        UserBlockSide(member=Member(1), other_account=EVE, direction=BlockDirection.BLOCKS, until=NEVER, sequence=3),
        UserBlockSide(
            member=Member(2), other_account=ADA, direction=BlockDirection.BLOCKED_BY, until=NEVER, sequence=3
        ),
    )


def test_block_ends_at_the_time_of_the_unblock() -> None:
    ended: UserBlock = replace(BLOCK, blocks=False, at=LATER).user_block(MEMBERS)
    assert ended.until == LATER


def test_later_end_of_both_sides_counts() -> None:
    assert user_block_ends([(ADA, NOON), (EVE, NEVER), (ADA, LATER), (EVE, NOON)]) == {ADA: LATER, EVE: NEVER}
    assert blocked_accounts({ADA: LATER, EVE: NEVER}) == {EVE}


def test_follow_is_visible_from_the_later_of_follow_and_unblock() -> None:
    follows = {OF_NOVA: NOON}
    assert visible_after_unblock(follows, {BOB: NEVER}) == follows
    assert visible_after_unblock(follows, {NOVA: LATER}) == {OF_NOVA: LATER}
    assert visible_after_unblock(follows, {NOVA: NOON - timedelta(hours=1)}) == follows
    assert visible_after_unblock(follows, {NOVA: NEVER}) == {OF_NOVA: NEVER}
