"""Follows: of a pair the highest sequence counts, whatever comes late; one's own word goes before the block's."""

from asyncio import run
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import BLOCK_BYTES, BLOCK_MEMBERS, SHARD_MEMBERS, members
from notifier.domain.audience.follows import LEFT, BlockFollows, Follow
from notifier.domain.ids import Member, UserId
from notifier.ports.directory import DirectoryEntry
from tests.contracts.flow_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION
from tests.support.fakes.clock import START

ADA = UserId("ada")
MEMBER, NEIGHBOUR, STRANGER = Member(SHARD_MEMBERS + 9), Member(SHARD_MEMBERS + 10), Member(SHARD_MEMBERS * 2)
SHARD = 1
LATER = START + timedelta(hours=1)


@pytest.fixture
def graph(store: Store) -> Store:
    store.directory.enrol([DirectoryEntry(user=ADA, member=MEMBER)])
    return store


def follow(member: Member = MEMBER, *, sequence: int = 1, left: bool = False) -> Follow:
    since = LEFT if left else START + timedelta(minutes=sequence)
    return Follow(subject=NOVA, member=member, visible_from=since, sequence=sequence)


def block_of(*slots: int, next: int = 0) -> BlockFollows:
    bits = bytearray(BLOCK_BYTES)
    for slot in slots:
        bits[slot // 8] |= 1 << slot % 8
    return BlockFollows(subject=NOVA, block=MEMBER // BLOCK_MEMBERS + next, visible_from=START, members=bytes(bits))


def whole_block(graph: Store, *slots: int) -> None:
    graph.follows.write_blocks([block_of(*slots)])


def followers(graph: Store) -> list[Member]:
    return members(graph.follows.followers(NOVA, SHARD), SHARD)


def test_who_follows_stands_and_sees_from_then_on(graph: Store) -> None:
    graph.follows.write([follow()])
    with reopened(graph) as again:
        assert again.follows.standing([(NOVA, MEMBER)]) == {(NOVA, MEMBER): True}
        assert followers(again) == [MEMBER]
        assert run(again.people.viewer(ADA, MEMBER)).follows == {NOVA: START + timedelta(minutes=1)}


def test_nobody_follows_whom_nobody_named(graph: Store) -> None:
    graph.follows.write([follow()])
    asked = [(NOVA, NEIGHBOUR), (ORION, MEMBER), (NOVA, STRANGER)]
    assert graph.follows.standing(asked) == dict.fromkeys(asked, False)
    assert members(graph.follows.followers(NOVA, 2), 2) == []
    assert members(graph.follows.followers(ORION, SHARD), SHARD) == []


def test_who_leaves_is_gone_and_may_come_back(graph: Store) -> None:
    graph.follows.write([follow(), follow(NEIGHBOUR)])
    graph.follows.write([follow(sequence=2, left=True)])
    assert followers(graph) == [NEIGHBOUR]
    assert run(graph.people.viewer(ADA, MEMBER)).follows == {}
    graph.follows.write([follow(sequence=3)])
    assert followers(graph) == [MEMBER, NEIGHBOUR]


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_in_any_order_the_highest_sequence_counts(graph: Store, order: tuple[int, ...]) -> None:
    words = [follow(sequence=1), follow(sequence=2, left=True), follow(sequence=3)]
    for place in order:
        graph.follows.write([words[place]])
    assert run(graph.people.viewer(ADA, MEMBER)).follows == {NOVA: words[2].visible_from}
    assert followers(graph) == [MEMBER]


def test_an_unfollow_is_not_undone_by_a_follow_that_comes_late(graph: Store) -> None:
    graph.follows.write([follow(sequence=5, left=True)])
    graph.follows.write([follow(sequence=4)])
    assert graph.follows.standing([(NOVA, MEMBER)]) == {(NOVA, MEMBER): False}
    assert followers(graph) == []


@pytest.mark.parametrize("swapped", [False, True])
def test_of_two_with_one_sequence_the_leave_counts(graph: Store, swapped: bool) -> None:
    words = [follow(sequence=4), follow(sequence=4, left=True)]
    for word in reversed(words) if swapped else words:
        graph.follows.write([word])
    assert followers(graph) == []


def test_of_one_batch_the_highest_counts_too(graph: Store) -> None:
    graph.follows.write([follow(sequence=2, left=True), follow(sequence=3), follow(sequence=1)])
    assert run(graph.people.viewer(ADA, MEMBER)).follows == {NOVA: START + timedelta(minutes=3)}


def test_ones_own_word_overrides_the_blocks(graph: Store) -> None:
    whole_block(graph, 9, 10)
    assert followers(graph) == [MEMBER, NEIGHBOUR]
    graph.follows.write([follow(left=True), follow(Member(MEMBER + 5))])
    assert followers(graph) == [NEIGHBOUR, Member(MEMBER + 5)]
    asked = [(NOVA, MEMBER), (NOVA, NEIGHBOUR), (NOVA, Member(MEMBER + 5))]
    assert list(graph.follows.standing(asked).values()) == [False, True, True]


def test_a_block_s_row_is_its_first_one_s_and_who_comes_later_is_told(graph: Store) -> None:
    assert graph.follows.settle_blocks([]) == {}
    assert graph.follows.settle_blocks([block_of(9)]) == {}
    assert run(graph.people.viewer(ADA, MEMBER)).follows == {NOVA: START}
    later = replace(block_of(10, 11), visible_from=LATER)
    other = block_of(3, next=1)
    with reopened(graph) as again:
        assert again.follows.settle_blocks([later, other]) == {later.place: block_of(9)}
        assert again.follows.settle_blocks([later, other]) == {later.place: block_of(9), other.place: other}
        assert followers(again) == [MEMBER, Member(MEMBER - 9 + BLOCK_MEMBERS + 3)]


def test_of_two_who_settle_a_block_at_once_one_row_stands_for_both(graph: Store) -> None:
    rows = [[block_of(slot, next=n) for n in range(20)] for slot in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(graph.follows.settle_blocks, rows)
    for n in range(20):
        place = rows[0][n].place
        standing = first.get(place, rows[0][n])
        assert standing == second.get(place, rows[1][n])
        assert graph.follows.standing([(NOVA, Member(standing.block * BLOCK_MEMBERS + 1))]) == {
            (NOVA, Member(standing.block * BLOCK_MEMBERS + 1)): standing == rows[0][n]
        }
    assert len(followers(graph)) == 20


def test_who_mutes_is_still_a_follower(graph: Store) -> None:
    graph.follows.write([follow()])
    graph.facts.mute(ADA, NOVA)
    assert followers(graph) == [MEMBER]
    assert graph.follows.standing([(NOVA, MEMBER)]) == {(NOVA, MEMBER): True}


def test_nothing_is_written_of_nothing_and_nobody_is_asked_for(graph: Store) -> None:
    graph.follows.write([])
    assert graph.follows.standing([]) == {}


WORDS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 6), st.booleans()).map(
        lambda word: follow(Member(MEMBER + word[0]), sequence=word[1], left=word[2])
    ),
    max_size=12,
)


@given(WORDS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_stands_is_the_same_by_pair_and_by_shard(graph: Store, words: list[Follow]) -> None:
    for word in words:
        graph.follows.write([word])
    asked = [(NOVA, Member(MEMBER + n)) for n in range(4)]
    standing = graph.follows.standing(asked)
    assert followers(graph) == [member for (_, member), follows in standing.items() if follows]
