"""Partings: of an ordered pair the highest sequence counts, whatever comes late, and both sides know of it."""

from asyncio import run
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.bursts.mention import EventId
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.subject_preferences import NEVER
from notifier.domain.users.user_blocks import Parting, PartingChange
from notifier.ports.directory import DirectoryEntry
from tests.contracts.flow_stores import MOST_BLOCKERS, Store, reopened, user_block_change
from tests.support.fakes.clock import START

ADA, EVE, BOB, KIM = (UserId(name) for name in ("ada", "eve", "bob", "kim"))
MEMBERS = {ADA: Member(9), EVE: Member(SHARD_MEMBERS + 9), BOB: Member(10), KIM: Member(SHARD_MEMBERS * 2)}
OF_ADA, OF_EVE, OF_BOB = (Subject(Kind.MENTION, user) for user in (ADA, EVE, BOB))
BEFORE, LATER = START - timedelta(days=1), START + timedelta(hours=1)


@pytest.fixture
def people(store: Store) -> Store:
    """Ada and eve follow each other, and ada follows bob."""
    store.directory.enrol([DirectoryEntry(user=user, member=member) for user, member in MEMBERS.items()])
    store.facts.follow(ADA, OF_EVE, BEFORE)
    store.facts.follow(EVE, OF_ADA, BEFORE)
    store.facts.follow(ADA, OF_BOB, BEFORE)
    return store


def said(
    store: Store, sequence: int, *, until: datetime = NEVER, blocker: UserId = EVE, blocked: UserId = ADA
) -> Parting:
    return user_block_change(store.directory, blocker, blocked, until=until, sequence=sequence)


def blocked(store: Store) -> dict[UserId, set[UserId]]:
    """By both of whom it is told, and by others."""
    found = {user: set(run(store.people.viewer(user, member)).blocked) for user, member in MEMBERS.items()}
    return {user: others for user, others in found.items() if others}


def since(store: Store) -> list[datetime]:
    """Ada sees eve, and eve ada."""
    ada, eve = (run(store.people.viewer(user, MEMBERS[user])) for user in (ADA, EVE))
    return [ada.follows[OF_EVE], eve.follows[OF_ADA]]


def test_nobody_is_apart_from_anybody(people: Store) -> None:
    people.partings.write([])
    assert blocked(people) == {}
    assert since(people) == [BEFORE, BEFORE]


def test_a_block_hides_each_from_the_other_and_nobody_else(people: Store) -> None:
    people.partings.write([said(people, 1)])
    with reopened(people) as again:
        assert blocked(again) == {ADA: {EVE}, EVE: {ADA}}
        assert since(again) == [NEVER, NEVER]
        assert run(again.people.viewer(ADA, MEMBERS[ADA])).follows[OF_BOB] == BEFORE


def test_who_is_unblocked_sees_and_is_seen_from_then_on(people: Store) -> None:
    people.partings.write([said(people, 1)])
    people.partings.write([said(people, 2, until=START)])
    with reopened(people) as again:
        assert blocked(again) == {}
        assert since(again) == [START, START]


def test_a_follow_that_began_since_then_counts_from_its_own_moment(people: Store) -> None:
    people.partings.write([said(people, 1), said(people, 2, until=START)])
    people.facts.follow(ADA, OF_EVE, LATER)
    assert since(people) == [LATER, START]


def test_a_block_by_each_are_two_and_lifting_one_leaves_the_other(people: Store) -> None:
    people.partings.write([said(people, 1), said(people, 1, blocker=ADA, blocked=EVE)])
    people.partings.write([said(people, 2, until=START)])
    assert blocked(people) == {ADA: {EVE}, EVE: {ADA}}
    assert since(people) == [NEVER, NEVER]
    people.partings.write([said(people, 2, blocker=ADA, blocked=EVE, until=LATER)])
    assert blocked(people) == {}
    assert since(people) == [LATER, LATER]


def test_the_later_of_two_unblocks_counts_whoever_said_it_first(people: Store) -> None:
    people.partings.write([said(people, 9, until=LATER), said(people, 1, blocker=ADA, blocked=EVE, until=START)])
    assert since(people) == [LATER, LATER]


@pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
@pytest.mark.parametrize("highest", [NEVER, LATER], ids=["blocked", "unblocked"])
def test_in_any_order_the_highest_sequence_counts(people: Store, order: Sequence[int], highest: datetime) -> None:
    words = [said(people, 1), said(people, 2, until=START), said(people, 3, until=highest)]
    for place in order:
        people.partings.write([words[place]])
    assert since(people) == [highest, highest]
    assert blocked(people) == ({ADA: {EVE}, EVE: {ADA}} if highest == NEVER else {})


@pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
def test_of_equals_the_block_wins_and_of_two_unblocks_the_later(people: Store, order: Sequence[int]) -> None:
    words = [said(people, 4, until=START), said(people, 4), said(people, 4, until=LATER)]
    for place in order:
        people.partings.write([words[place]])
    assert blocked(people) == {ADA: {EVE}, EVE: {ADA}}
    others = [said(people, 4, blocker=KIM, blocked=ADA, until=until) for until in (LATER, START)]
    people.partings.write(others)
    people.facts.follow(ADA, Subject(Kind.MENTION, KIM), BEFORE)
    assert run(people.people.viewer(ADA, MEMBERS[ADA])).follows[Subject(Kind.MENTION, KIM)] == LATER


def test_an_unblock_of_before_all_times_loses_to_a_block_with_its_number(people: Store) -> None:
    long_ago = PartingChange(
        id=EventId("graph", "1"),
        blocker=EVE,
        blocked=ADA,
        blocks=False,
        sequence=4,
        at=datetime(1950, 1, 1, tzinfo=UTC),
    )
    people.partings.write([said(people, 4)])
    people.partings.write([long_ago.word(MEMBERS)])
    assert blocked(people) == {ADA: {EVE}, EVE: {ADA}}


def test_a_block_that_comes_late_loses_to_the_unblock_of_a_stranger(people: Store) -> None:
    people.partings.write([said(people, 5, until=START)])
    people.partings.write([said(people, 4)])
    assert blocked(people) == {}
    assert since(people) == [START, START]


def test_the_same_once_more_is_the_same(people: Store) -> None:
    for _ in range(2):
        people.partings.write([said(people, 1), said(people, 1), said(people, 2, blocker=BOB)])
    assert blocked(people) == {ADA: {EVE, BOB}, EVE: {ADA}, BOB: {ADA}}


def many(store: Store, count: int) -> list[UserId]:
    """All of whom block kim."""
    names = [UserId(f"many-{n:03}") for n in range(count)]
    store.partings.write([said(store, 1, blocker=name, blocked=KIM) for name in names])
    return names


def test_many_at_once_are_all_there(people: Store) -> None:
    names = many(people, MOST_BLOCKERS)
    assert blocked(people)[KIM] == {*names}


def test_who_is_blocked_by_very_many_knows_the_first_by_name_and_all_whom_one_follows(people: Store) -> None:
    names = many(people, 4 * MOST_BLOCKERS)
    last, lifted = (Subject(Kind.MENTION, name) for name in names[-2:])
    for subject in (last, lifted):
        people.facts.follow(KIM, subject, BEFORE)
    people.partings.write([said(people, 2, until=START, blocker=lifted.owner, blocked=KIM)])
    people.partings.write([said(people, 1, blocker=KIM, blocked=BOB)])
    with reopened(people) as again:
        found = run(again.people.viewer(KIM, MEMBERS[KIM]))
    assert set(found.blocked) == {*names[:MOST_BLOCKERS], last.owner, BOB}
    assert found.follows == {last: NEVER, lifted: START}


def test_of_whom_one_blocks_all_are_known(people: Store) -> None:
    names = [UserId(f"many-{n:03}") for n in range(2 * MOST_BLOCKERS)]
    people.partings.write([said(people, 1, blocker=KIM, blocked=name) for name in names])
    assert blocked(people)[KIM] == {*names}
