"""Follows: the highest sequence wins, and a member's own row overrides the block row."""

from asyncio import run
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import BLOCK_BYTES, BLOCK_MEMBERS, SHARD_MEMBERS, members
from notifier.domain.audience.follows import UNFOLLOWED, BlockFollows, Follow
from notifier.domain.ids import Member, UserId
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.contracts.memory_and_sqlite_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION
from tests.support.fakes.clock_and_nonces import START

ADA = UserId("ada")
MEMBER, NEIGHBOR, STRANGER = Member(SHARD_MEMBERS + 9), Member(SHARD_MEMBERS + 10), Member(SHARD_MEMBERS * 2)
SHARD = 1
LATER = START + timedelta(hours=1)


@pytest.fixture
def user_store(store: Store) -> Store:
    store.directory.enrol([DirectoryEntry(user=ADA, member=MEMBER)])
    return store


def follow(member: Member = MEMBER, *, sequence: int = 1, unfollowed: bool = False) -> Follow:
    since = UNFOLLOWED if unfollowed else START + timedelta(minutes=sequence)
    return Follow(subject=NOVA, member=member, visible_from=since, sequence=sequence)


def block_of(*slots: int, next: int = 0) -> BlockFollows:
    bits = bytearray(BLOCK_BYTES)
    for slot in slots:
        bits[slot // 8] |= 1 << slot % 8
    return BlockFollows(subject=NOVA, block=MEMBER // BLOCK_MEMBERS + next, visible_from=START, members=bytes(bits))


def whole_block(user_store: Store, *slots: int) -> None:
    user_store.follows.write_blocks([block_of(*slots)])


def followers(user_store: Store) -> list[Member]:
    return members(user_store.follows.followers(NOVA, SHARD), SHARD)


def test_follow_is_stored_with_its_start_time(user_store: Store) -> None:
    user_store.follows.write([follow()])
    with reopened(user_store) as other_process:
        assert other_process.follows.read_current([(NOVA, MEMBER)]) == {(NOVA, MEMBER): True}
        assert followers(other_process) == [MEMBER]
        assert run(other_process.people.viewer(ADA, MEMBER)).follows == {NOVA: START + timedelta(minutes=1)}


def test_only_named_pairs_are_follows(user_store: Store) -> None:
    user_store.follows.write([follow()])
    pairs = [(NOVA, NEIGHBOR), (ORION, MEMBER), (NOVA, STRANGER)]
    assert user_store.follows.read_current(pairs) == dict.fromkeys(pairs, False)
    assert members(user_store.follows.followers(NOVA, 2), 2) == []
    assert members(user_store.follows.followers(ORION, SHARD), SHARD) == []


def test_unfollow_removes_follower_until_next_follow(user_store: Store) -> None:
    user_store.follows.write([follow(), follow(NEIGHBOR)])
    user_store.follows.write([follow(sequence=2, unfollowed=True)])
    assert followers(user_store) == [NEIGHBOR]
    assert run(user_store.people.viewer(ADA, MEMBER)).follows == {}
    user_store.follows.write([follow(sequence=3)])
    assert followers(user_store) == [MEMBER, NEIGHBOR]


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_highest_sequence_wins_in_any_order(user_store: Store, order: tuple[int, ...]) -> None:
    changes = [follow(sequence=1), follow(sequence=2, unfollowed=True), follow(sequence=3)]
    for index in order:
        user_store.follows.write([changes[index]])
    assert run(user_store.people.viewer(ADA, MEMBER)).follows == {NOVA: changes[2].visible_from}
    assert followers(user_store) == [MEMBER]


def test_late_follow_does_not_undo_unfollow(user_store: Store) -> None:
    user_store.follows.write([follow(sequence=5, unfollowed=True)])
    user_store.follows.write([follow(sequence=4)])
    assert user_store.follows.read_current([(NOVA, MEMBER)]) == {(NOVA, MEMBER): False}
    assert followers(user_store) == []


@pytest.mark.parametrize("reverse_order", [False, True])
def test_unfollow_wins_on_equal_sequence(user_store: Store, reverse_order: bool) -> None:
    changes = [follow(sequence=4), follow(sequence=4, unfollowed=True)]
    for change in reversed(changes) if reverse_order else changes:
        user_store.follows.write([change])
    assert followers(user_store) == []


def test_highest_sequence_wins_within_batch(user_store: Store) -> None:
    user_store.follows.write([follow(sequence=2, unfollowed=True), follow(sequence=3), follow(sequence=1)])
    assert run(user_store.people.viewer(ADA, MEMBER)).follows == {NOVA: START + timedelta(minutes=3)}


def test_members_own_row_overrides_block_row(user_store: Store) -> None:
    whole_block(user_store, 9, 10)
    assert followers(user_store) == [MEMBER, NEIGHBOR]
    user_store.follows.write([follow(unfollowed=True), follow(Member(MEMBER + 5))])
    assert followers(user_store) == [NEIGHBOR, Member(MEMBER + 5)]
    pairs = [(NOVA, MEMBER), (NOVA, NEIGHBOR), (NOVA, Member(MEMBER + 5))]
    assert list(user_store.follows.read_current(pairs).values()) == [False, True, True]


def test_first_block_row_wins_and_later_writers_get_it(user_store: Store) -> None:
    assert user_store.follows.insert_blocks([]) == {}
    assert user_store.follows.insert_blocks([block_of(9)]) == {}
    assert run(user_store.people.viewer(ADA, MEMBER)).follows == {NOVA: START}
    later = replace(block_of(10, 11), visible_from=LATER)
    next_block = block_of(3, next=1)
    with reopened(user_store) as other_process:
        assert other_process.follows.insert_blocks([later, next_block]) == {later.key: block_of(9)}
        assert other_process.follows.insert_blocks([later, next_block]) == {
            later.key: block_of(9),
            next_block.key: next_block,
        }
        assert followers(other_process) == [MEMBER, Member(MEMBER - 9 + BLOCK_MEMBERS + 3)]


def test_concurrent_block_writers_agree_on_one_row(user_store: Store) -> None:
    rows = [[block_of(slot, next=n) for n in range(20)] for slot in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(user_store.follows.insert_blocks, rows)
    for n in range(20):
        block_place = rows[0][n].key
        current = first.get(block_place, rows[0][n])
        assert current == second.get(block_place, rows[1][n])
        assert user_store.follows.read_current([(NOVA, Member(current.block * BLOCK_MEMBERS + 1))]) == {
            (NOVA, Member(current.block * BLOCK_MEMBERS + 1)): current == rows[0][n]
        }
    assert len(followers(user_store)) == 20


def test_muted_subject_is_still_followed(user_store: Store) -> None:
    user_store.follows.write([follow()])
    user_store.facts.mute(ADA, NOVA)
    assert followers(user_store) == [MEMBER]
    assert user_store.follows.read_current([(NOVA, MEMBER)]) == {(NOVA, MEMBER): True}


def test_empty_batch_changes_nothing(user_store: Store) -> None:
    user_store.follows.write([])
    assert user_store.follows.read_current([]) == {}


CHANGES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 6), st.booleans()).map(
        lambda change: follow(Member(MEMBER + change[0]), sequence=change[1], unfollowed=change[2])
    ),
    max_size=12,
)


@given(CHANGES)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_follows_by_pair_and_by_shard_agree(user_store: Store, changes: list[Follow]) -> None:
    for change in changes:
        user_store.follows.write([change])
    pairs = [(NOVA, Member(MEMBER + n)) for n in range(4)]
    current = user_store.follows.read_current(pairs)
    assert followers(user_store) == [member for (_, member), follows in current.items() if follows]
