"""User blocks: the highest sequence wins per ordered pair; both users are hidden."""

from asyncio import run
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.subject_preferences import NEVER
from notifier.domain.users.user_blocks import UserBlock, UserBlockChange
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.contracts.memory_and_sqlite_stores import MOST_BLOCKERS, Store, reopened, user_block_change
from tests.support.fakes.clock_and_nonces import START

ADA, EVE, BOB, KIM = (UserId(name) for name in ("ada", "eve", "bob", "kim"))
MEMBERS = {ADA: Member(9), EVE: Member(SHARD_MEMBERS + 9), BOB: Member(10), KIM: Member(SHARD_MEMBERS * 2)}
OF_ADA, OF_EVE, OF_BOB = (Subject(Kind.MENTION, user) for user in (ADA, EVE, BOB))
BEFORE, LATER = START - timedelta(days=1), START + timedelta(hours=1)


@pytest.fixture
def user_store(store: Store) -> Store:
    """Ada and Eve follow each other, and Ada follows Bob."""
    store.directory.enrol([DirectoryEntry(user=user, member=member) for user, member in MEMBERS.items()])
    store.facts.follow(ADA, OF_EVE, BEFORE)
    store.facts.follow(EVE, OF_ADA, BEFORE)
    store.facts.follow(ADA, OF_BOB, BEFORE)
    return store


def change(
    store: Store, sequence: int, *, until: datetime = NEVER, blocker: UserId = EVE, blocked: UserId = ADA
) -> UserBlock:
    return user_block_change(store.directory, blocker, blocked, until=until, sequence=sequence)


def blocked(store: Store) -> dict[UserId, set[UserId]]:
    """Return each user's blocked users, as both sides see them."""
    blocked_by_user = {user: set(run(store.people.viewer(user, member)).blocked) for user, member in MEMBERS.items()}
    return {user: blocked_users for user, blocked_users in blocked_by_user.items() if blocked_users}


def since(store: Store) -> list[datetime]:
    """Return since when Ada sees Eve, and Eve sees Ada."""
    ada, eve = (run(store.people.viewer(user, MEMBERS[user])) for user in (ADA, EVE))
    return [ada.follows[OF_EVE], eve.follows[OF_ADA]]


def test_users_are_not_blocked_by_default(user_store: Store) -> None:
    user_store.user_blocks.write([])
    assert blocked(user_store) == {}
    assert since(user_store) == [BEFORE, BEFORE]


def test_block_hides_only_both_users_from_each_other(user_store: Store) -> None:
    user_store.user_blocks.write([change(user_store, 1)])
    with reopened(user_store) as other_process:
        assert blocked(other_process) == {ADA: {EVE}, EVE: {ADA}}
        assert since(other_process) == [NEVER, NEVER]
        assert run(other_process.people.viewer(ADA, MEMBERS[ADA])).follows[OF_BOB] == BEFORE


def test_unblocked_users_see_each_other_from_then_on(user_store: Store) -> None:
    user_store.user_blocks.write([change(user_store, 1)])
    user_store.user_blocks.write([change(user_store, 2, until=START)])
    with reopened(user_store) as other_process:
        assert blocked(other_process) == {}
        assert since(other_process) == [START, START]


def test_follow_after_unblock_is_visible_from_its_own_start(user_store: Store) -> None:
    user_store.user_blocks.write([change(user_store, 1), change(user_store, 2, until=START)])
    user_store.facts.follow(ADA, OF_EVE, LATER)
    assert since(user_store) == [LATER, START]


def test_mutual_blocks_are_lifted_separately(user_store: Store) -> None:
    user_store.user_blocks.write([change(user_store, 1), change(user_store, 1, blocker=ADA, blocked=EVE)])
    user_store.user_blocks.write([change(user_store, 2, until=START)])
    assert blocked(user_store) == {ADA: {EVE}, EVE: {ADA}}
    assert since(user_store) == [NEVER, NEVER]
    user_store.user_blocks.write([change(user_store, 2, blocker=ADA, blocked=EVE, until=LATER)])
    assert blocked(user_store) == {}
    assert since(user_store) == [LATER, LATER]


def test_later_unblock_counts_in_any_order(user_store: Store) -> None:
    user_store.user_blocks.write(
        [change(user_store, 9, until=LATER), change(user_store, 1, blocker=ADA, blocked=EVE, until=START)]
    )
    assert since(user_store) == [LATER, LATER]


@pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
@pytest.mark.parametrize("highest", [NEVER, LATER], ids=["blocked", "unblocked"])
def test_highest_sequence_wins_in_any_order(user_store: Store, order: Sequence[int], highest: datetime) -> None:
    changes = [change(user_store, 1), change(user_store, 2, until=START), change(user_store, 3, until=highest)]
    for index in order:
        user_store.user_blocks.write([changes[index]])
    assert since(user_store) == [highest, highest]
    assert blocked(user_store) == ({ADA: {EVE}, EVE: {ADA}} if highest == NEVER else {})


@pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
def test_block_wins_on_equal_sequence_and_later_unblock_wins(user_store: Store, order: Sequence[int]) -> None:
    changes = [change(user_store, 4, until=START), change(user_store, 4), change(user_store, 4, until=LATER)]
    for index in order:
        user_store.user_blocks.write([changes[index]])
    assert blocked(user_store) == {ADA: {EVE}, EVE: {ADA}}
    unblocks = [change(user_store, 4, blocker=KIM, blocked=ADA, until=until) for until in (LATER, START)]
    user_store.user_blocks.write(unblocks)
    user_store.facts.follow(ADA, Subject(Kind.MENTION, KIM), BEFORE)
    assert run(user_store.people.viewer(ADA, MEMBERS[ADA])).follows[Subject(Kind.MENTION, KIM)] == LATER


def test_unblock_dated_before_1970_loses_on_equal_sequence(user_store: Store) -> None:
    old_unblock = UserBlockChange(
        id=EventId("graph", "1"),
        blocker=EVE,
        blocked=ADA,
        blocks=False,
        sequence=4,
        at=datetime(1950, 1, 1, tzinfo=UTC),
    )
    user_store.user_blocks.write([change(user_store, 4)])
    user_store.user_blocks.write([old_unblock.user_block(MEMBERS)])
    assert blocked(user_store) == {ADA: {EVE}, EVE: {ADA}}


def test_late_block_loses_to_newer_unblock(user_store: Store) -> None:
    user_store.user_blocks.write([change(user_store, 5, until=START)])
    user_store.user_blocks.write([change(user_store, 4)])
    assert blocked(user_store) == {}
    assert since(user_store) == [START, START]


def test_repeated_changes_have_no_effect(user_store: Store) -> None:
    for _ in range(2):
        user_store.user_blocks.write([change(user_store, 1), change(user_store, 1), change(user_store, 2, blocker=BOB)])
    assert blocked(user_store) == {ADA: {EVE, BOB}, EVE: {ADA}, BOB: {ADA}}


def block_kim(store: Store, count: int) -> list[UserId]:
    """Let this many users block Kim."""
    names = [UserId(f"many-{n:03}") for n in range(count)]
    store.user_blocks.write([change(store, 1, blocker=name, blocked=KIM) for name in names])
    return names


def test_many_blocks_are_all_returned(user_store: Store) -> None:
    names = block_kim(user_store, MOST_BLOCKERS)
    assert blocked(user_store)[KIM] == {*names}


def test_heavily_blocked_viewer_gets_first_blockers_and_all_followed(user_store: Store) -> None:
    names = block_kim(user_store, 4 * MOST_BLOCKERS)
    last, unblocked = (Subject(Kind.MENTION, name) for name in names[-2:])
    for subject in (last, unblocked):
        user_store.facts.follow(KIM, subject, BEFORE)
    user_store.user_blocks.write([change(user_store, 2, until=START, blocker=unblocked.owner, blocked=KIM)])
    user_store.user_blocks.write([change(user_store, 1, blocker=KIM, blocked=BOB)])
    with reopened(user_store) as other_process:
        kim = run(other_process.people.viewer(KIM, MEMBERS[KIM]))
    assert set(kim.blocked) == {*names[:MOST_BLOCKERS], last.owner, BOB}
    assert kim.follows == {last: NEVER, unblocked: START}


def test_all_users_that_viewer_blocks_are_returned(user_store: Store) -> None:
    names = [UserId(f"many-{n:03}") for n in range(2 * MOST_BLOCKERS)]
    user_store.user_blocks.write([change(user_store, 1, blocker=KIM, blocked=name) for name in names])
    assert blocked(user_store)[KIM] == {*names}
