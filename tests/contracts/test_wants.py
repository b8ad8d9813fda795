"""Wants: of a pair what was said last counts, whatever comes late; one's own word goes before the block's mute."""

from asyncio import run
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import BLOCK_BYTES, BLOCK_MEMBERS, SHARD_MEMBERS, members
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member, Subject
from notifier.domain.users.subject_preferences import ALWAYS, NEVER, OF_WANTS, BlockMute, Volume, Want, Word
from tests.contracts.flow_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION
from tests.support.fakes.clock import START

MEMBER, NEIGHBOUR, STRANGER = Member(SHARD_MEMBERS + 9), Member(SHARD_MEMBERS + 10), Member(SHARD_MEMBERS * 2)
SHARD = 1


def word(
    volume: Volume | None = Volume.OFF,
    *,
    of: Subject = NOVA,
    member: Member = MEMBER,
    minute: int = 1,
    visible_from: datetime | None = ALWAYS,
) -> Word:
    at = START + timedelta(minutes=minute)
    return Word(subject=of, member=member, at=at, volume=volume, visible_from=visible_from)


def want(volume: Volume = Volume.OFF, *, of: Subject = NOVA, minute: int = 1, visible_from: datetime = ALWAYS) -> Want:
    at = START + timedelta(minutes=minute)
    return Want(subject=of, member=MEMBER, at=at, volume=volume, visible_from=visible_from)


def block_mute(*slots: int, of: Subject = NOVA) -> BlockMute:
    bits = bytearray(BLOCK_BYTES)
    for slot in slots:
        bits[slot // 8] |= 1 << slot % 8
    return BlockMute(subject=of, block=MEMBER // BLOCK_MEMBERS, members=bytes(bits))


def read(store: Store, member: Member = MEMBER) -> dict[Subject, Want]:
    return dict(run(store.preferences.read(member)))


def sets(store: Store, of: Subject = NOVA, shard: int = SHARD) -> dict[str, list[Member]]:
    found = store.wants.sets(of, shard)
    assert set(found) == set(OF_WANTS)
    return {str(kind): members(bits, shard) for kind, bits in found.items() if bits.any()}


def test_what_was_said_stands_and_is_read_as_it_was_said(store: Store) -> None:
    store.wants.write([word(Volume.FIRST), word(None, of=ORION, visible_from=START)])
    of_nova, of_orion = want(Volume.FIRST), want(Volume.DEFAULT, of=ORION, visible_from=START)
    with reopened(store) as again:
        assert read(again) == {NOVA: of_nova, ORION: of_orion}
        assert read(again, NEIGHBOUR) == {}
        asked = [(NOVA, MEMBER), (ORION, MEMBER), (NOVA, NEIGHBOUR), (NOVA, STRANGER)]
        assert again.wants.standing(asked) == {(NOVA, MEMBER): of_nova, (ORION, MEMBER): of_orion}


def test_a_person_s_own_word_is_there_at_once_and_the_indexer_writes_the_same(store: Store) -> None:
    run(store.preferences.write(word(visible_from=None)))
    assert read(store) == {NOVA: want()}
    store.wants.write([word(visible_from=None)])
    assert (read(store), sets(store)) == ({NOVA: want()}, {"off": [MEMBER]})


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_in_any_order_what_was_said_last_counts(store: Store, order: tuple[int, ...]) -> None:
    words = [word(Volume.OFF, minute=1), word(visible_from=NEVER, minute=2), word(Volume.FIRST, minute=3)]
    for place in order:
        store.wants.write([words[place]])
    assert (read(store), sets(store)) == ({NOVA: want(Volume.FIRST, minute=3)}, {"first": [MEMBER]})


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_what_is_said_about_one_thing_leaves_the_other_as_it_is(store: Store, order: tuple[int, ...]) -> None:
    words = [
        word(Volume.FIRST, visible_from=START, minute=1),
        word(None, visible_from=NEVER, minute=2),
        word(Volume.OFF, visible_from=None, minute=3),
    ]
    for place in order:
        store.wants.write([words[place]])
    assert read(store) == {NOVA: want(Volume.OFF, minute=3, visible_from=NEVER)}
    assert sets(store) == {"muted": [MEMBER], "off": [MEMBER]}


def test_of_one_batch_the_last_word_counts_too(store: Store) -> None:
    store.wants.write([word(minute=2), word(Volume.FIRST, minute=3), word(Volume.ALL, minute=1)])
    assert read(store) == {NOVA: want(Volume.FIRST, minute=3)}


def test_what_an_import_says_is_before_all_that_is_said_and_stands_where_nothing_is(store: Store) -> None:
    imported = replace(word(Volume.OFF, visible_from=NEVER), at=ALWAYS)
    store.wants.write([word(Volume.FIRST, visible_from=None), imported])
    store.wants.write([replace(imported, member=NEIGHBOUR)])
    assert read(store) == {NOVA: want(Volume.FIRST, visible_from=NEVER)}
    assert read(store, NEIGHBOUR)[NOVA] == replace(want(visible_from=NEVER), member=NEIGHBOUR, at=ALWAYS)
    store.wants.write([word(Volume.ALL, member=NEIGHBOUR)])
    assert sets(store) == {"first": [MEMBER], "all": [NEIGHBOUR], "muted": [MEMBER]}


def test_each_is_in_the_set_of_what_is_wanted(store: Store) -> None:
    said = [Volume.OFF, Volume.FIRST, Volume.DIGEST, Volume.ALL]
    store.wants.write([word(volume, member=Member(MEMBER + n)) for n, volume in enumerate(said)])
    store.wants.write([word(Volume.FIRST, member=Member(MEMBER + 4), visible_from=NEVER)])
    store.wants.write([word(Volume.ALL, member=Member(MEMBER + 5), visible_from=START + timedelta(days=300))])
    assert sets(store) == {
        "muted": [MEMBER + 4],
        "off": [MEMBER],
        "first": [MEMBER + 1, MEMBER + 4],
        "digest": [MEMBER + 2],
        "all": [MEMBER + 3, MEMBER + 5],
    }
    assert (sets(store, ORION), sets(store, shard=2)) == ({}, {})


def test_who_has_muted_with_the_block_has_muted_until_there_is_a_word_of_ones_own(store: Store) -> None:
    store.wants.write_mutes([block_mute(9, 10), block_mute(10, of=ORION)])
    with reopened(store) as again:
        assert read(again)[NOVA].visible_from == NEVER
        assert set(read(again, NEIGHBOUR)) == {NOVA, ORION}
        assert read(again, Member(MEMBER + 2)) == {}
        assert sets(again) == {"muted": [MEMBER, NEIGHBOUR]}
        assert again.wants.standing([(NOVA, MEMBER)]) == {}
    store.wants.write([word(Volume.FIRST)])
    assert (read(store)[NOVA], sets(store)) == (want(Volume.FIRST), {"muted": [NEIGHBOUR], "first": [MEMBER]})


def test_a_block_s_mutes_are_replaced(store: Store) -> None:
    store.wants.write_mutes([block_mute(9, 10)])
    store.wants.write_mutes([block_mute(10)])
    assert sets(store) == {"muted": [NEIGHBOUR]}


def test_many_blocks_are_written_as_one_is(store: Store) -> None:
    mutes = [replace(block_mute(3), block=block) for block in range(128, 128 + 300)]
    store.wants.write_mutes(mutes)
    assert [len(sets(store, shard=shard)["muted"]) for shard in (1, 2, 3)] == [128, 128, 44]


def test_nothing_is_written_of_nothing_and_nobody_is_asked_for(store: Store) -> None:
    store.wants.write([])
    store.wants.write_mutes([])
    assert store.wants.standing([]) == {}


WORDS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from([*Volume, None]),
        st.sampled_from([ALWAYS, START, NEVER]),
    ),
    max_size=12,
)


@given(WORDS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_stands_is_the_same_by_pair_by_person_and_by_shard(
    store: Store, words: list[tuple[int, Volume | None, datetime]]
) -> None:
    store.wants.write_mutes([block_mute(9, 11)])
    base = MAKING.setdefault("minute", 1)
    for n, (place, volume, since) in enumerate(words):
        said = word(volume, member=Member(MEMBER + place), minute=base + n, visible_from=since)
        store.wants.write([said])
    MAKING["minute"] = base + len(words)
    found = store.wants.sets(NOVA, SHARD)
    people = [Member(MEMBER + n) for n in range(4)]
    own = store.wants.standing([(NOVA, member) for member in people])
    for member in people:
        stands = read(store, member).get(NOVA)
        if (NOVA, member) in own:
            assert stands == own[NOVA, member]
        of = stands.sets if stands is not None else ()
        assert {kind for kind in SetKind if kind in found and member in members(found[kind], SHARD)} == {*of}


MAKING: dict[str, int] = {}
"""The store is one for all examples: later ones speak later."""
