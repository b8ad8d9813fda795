"""Subject preferences: newest change wins, and a member's own row overrides the block mute."""

from asyncio import run
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import BLOCK_BYTES, BLOCK_MEMBERS, SHARD_MEMBERS, members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.ids import Member, Subject
from notifier.domain.users.subject_preferences import (
    ALWAYS,
    NEVER,
    SUBJECT_PREFERENCE_SETS,
    MemberBlockMutes,
    PreferenceChange,
    SubjectPreference,
    Volume,
)
from tests.contracts.memory_and_sqlite_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION
from tests.support.fakes.clock_and_nonces import START

MEMBER, NEIGHBOR, STRANGER = Member(SHARD_MEMBERS + 9), Member(SHARD_MEMBERS + 10), Member(SHARD_MEMBERS * 2)
SHARD = 1


def change(
    volume: Volume | None = Volume.OFF,
    *,
    subject: Subject = NOVA,
    member: Member = MEMBER,
    minute: int = 1,
    visible_from: datetime | None = ALWAYS,
) -> PreferenceChange:
    at = START + timedelta(minutes=minute)
    return PreferenceChange(subject=subject, member=member, at=at, volume=volume, visible_from=visible_from)


def preference(
    volume: Volume = Volume.OFF, *, subject: Subject = NOVA, minute: int = 1, visible_from: datetime = ALWAYS
) -> SubjectPreference:
    at = START + timedelta(minutes=minute)
    return SubjectPreference(subject=subject, member=MEMBER, at=at, volume=volume, visible_from=visible_from)


def block_mute(*slots: int, subject: Subject = NOVA) -> MemberBlockMutes:
    bits = bytearray(BLOCK_BYTES)
    for slot in slots:
        bits[slot // 8] |= 1 << slot % 8
    return MemberBlockMutes(subject=subject, block=MEMBER // BLOCK_MEMBERS, members=bytes(bits))


def read(store: Store, member: Member = MEMBER) -> dict[Subject, SubjectPreference]:
    return dict(run(store.preferences.read(member)))


def sets(store: Store, subject: Subject = NOVA, shard: int = SHARD) -> dict[str, list[Member]]:
    bits_by_kind = store.subject_preferences.member_sets(subject, shard)
    assert set(bits_by_kind) == set(SUBJECT_PREFERENCE_SETS)
    return {str(kind): members(bits, shard) for kind, bits in bits_by_kind.items() if bits.any()}


def test_preferences_are_read_as_written(store: Store) -> None:
    store.subject_preferences.write([change(Volume.FIRST), change(None, subject=ORION, visible_from=START)])
    nova_preference, orion_preference = (
        preference(Volume.FIRST),
        preference(Volume.DEFAULT, subject=ORION, visible_from=START),
    )
    with reopened(store) as other_process:
        assert read(other_process) == {NOVA: nova_preference, ORION: orion_preference}
        assert read(other_process, NEIGHBOR) == {}
        pairs = [(NOVA, MEMBER), (ORION, MEMBER), (NOVA, NEIGHBOR), (NOVA, STRANGER)]
        assert other_process.subject_preferences.read_own(pairs) == {
            (NOVA, MEMBER): nova_preference,
            (ORION, MEMBER): orion_preference,
        }


def test_users_own_change_is_visible_at_once_and_indexed_later(store: Store) -> None:
    run(store.preferences.write(change(visible_from=None)))
    assert read(store) == {NOVA: preference()}
    store.subject_preferences.write([change(visible_from=None)])
    assert (read(store), sets(store)) == ({NOVA: preference()}, {"off": [MEMBER]})


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_newest_change_wins_in_any_order(store: Store, order: tuple[int, ...]) -> None:
    changes = [change(Volume.OFF, minute=1), change(visible_from=NEVER, minute=2), change(Volume.FIRST, minute=3)]
    for index in order:
        store.subject_preferences.write([changes[index]])
    assert (read(store), sets(store)) == ({NOVA: preference(Volume.FIRST, minute=3)}, {"first": [MEMBER]})


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_each_field_keeps_its_own_newest_change(store: Store, order: tuple[int, ...]) -> None:
    changes = [
        change(Volume.FIRST, visible_from=START, minute=1),
        change(None, visible_from=NEVER, minute=2),
        change(Volume.OFF, visible_from=None, minute=3),
    ]
    for index in order:
        store.subject_preferences.write([changes[index]])
    assert read(store) == {NOVA: preference(Volume.OFF, minute=3, visible_from=NEVER)}
    assert sets(store) == {"muted": [MEMBER], "off": [MEMBER]}


def test_newest_change_wins_within_batch(store: Store) -> None:
    store.subject_preferences.write([change(minute=2), change(Volume.FIRST, minute=3), change(Volume.ALL, minute=1)])
    assert read(store) == {NOVA: preference(Volume.FIRST, minute=3)}


def test_imported_value_applies_only_where_no_change_exists(store: Store) -> None:
    imported = replace(change(Volume.OFF, visible_from=NEVER), at=ALWAYS)
    store.subject_preferences.write([change(Volume.FIRST, visible_from=None), imported])
    store.subject_preferences.write([replace(imported, member=NEIGHBOR)])
    assert read(store) == {NOVA: preference(Volume.FIRST, visible_from=NEVER)}
    assert read(store, NEIGHBOR)[NOVA] == replace(preference(visible_from=NEVER), member=NEIGHBOR, at=ALWAYS)
    store.subject_preferences.write([change(Volume.ALL, member=NEIGHBOR)])
    assert sets(store) == {"first": [MEMBER], "all": [NEIGHBOR], "muted": [MEMBER]}


def test_member_is_in_set_of_own_preference(store: Store) -> None:
    volumes = [Volume.OFF, Volume.FIRST, Volume.DIGEST, Volume.ALL]
    store.subject_preferences.write([change(volume, member=Member(MEMBER + n)) for n, volume in enumerate(volumes)])
    store.subject_preferences.write([change(Volume.FIRST, member=Member(MEMBER + 4), visible_from=NEVER)])
    store.subject_preferences.write(
        [change(Volume.ALL, member=Member(MEMBER + 5), visible_from=START + timedelta(days=300))]
    )
    assert sets(store) == {
        "muted": [MEMBER + 4],
        "off": [MEMBER],
        "first": [MEMBER + 1, MEMBER + 4],
        "digest": [MEMBER + 2],
        "all": [MEMBER + 3, MEMBER + 5],
    }
    assert (sets(store, ORION), sets(store, shard=2)) == ({}, {})


def test_block_mute_applies_until_member_has_own_preference(store: Store) -> None:
    store.subject_preferences.write_mutes([block_mute(9, 10), block_mute(10, subject=ORION)])
    with reopened(store) as other_process:
        assert read(other_process)[NOVA].visible_from == NEVER
        assert set(read(other_process, NEIGHBOR)) == {NOVA, ORION}
        assert read(other_process, Member(MEMBER + 2)) == {}
        assert sets(other_process) == {"muted": [MEMBER, NEIGHBOR]}
        assert other_process.subject_preferences.read_own([(NOVA, MEMBER)]) == {}
    store.subject_preferences.write([change(Volume.FIRST)])
    assert (read(store)[NOVA], sets(store)) == (preference(Volume.FIRST), {"muted": [NEIGHBOR], "first": [MEMBER]})


def test_block_mutes_are_replaced(store: Store) -> None:
    store.subject_preferences.write_mutes([block_mute(9, 10)])
    store.subject_preferences.write_mutes([block_mute(10)])
    assert sets(store) == {"muted": [NEIGHBOR]}


def test_many_block_mutes_are_written_at_once(store: Store) -> None:
    mutes = [replace(block_mute(3), block=block) for block in range(128, 128 + 300)]
    store.subject_preferences.write_mutes(mutes)
    assert [len(sets(store, shard=shard)["muted"]) for shard in (1, 2, 3)] == [128, 128, 44]


def test_empty_batch_changes_nothing(store: Store) -> None:
    store.subject_preferences.write([])
    store.subject_preferences.write_mutes([])
    assert store.subject_preferences.read_own([]) == {}


CHANGES = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from([*Volume, None]),
        st.sampled_from([ALWAYS, START, NEVER]),
    ),
    max_size=12,
)


@given(CHANGES)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_preferences_by_pair_member_and_shard_agree(
    store: Store, changes: list[tuple[int, Volume | None, datetime]]
) -> None:
    store.subject_preferences.write_mutes([block_mute(9, 11)])
    base = CLOCK.setdefault("minute", 1)
    for n, (offset, volume, since) in enumerate(changes):
        change_ = change(volume, member=Member(MEMBER + offset), minute=base + n, visible_from=since)
        store.subject_preferences.write([change_])
    CLOCK["minute"] = base + len(changes)
    bits_by_kind = store.subject_preferences.member_sets(NOVA, SHARD)
    people = [Member(MEMBER + n) for n in range(4)]
    own_rows = store.subject_preferences.read_own([(NOVA, member) for member in people])
    for member in people:
        preference_ = read(store, member).get(NOVA)
        if (NOVA, member) in own_rows:
            assert preference_ == own_rows[NOVA, member]
        expected_kinds = preference_.member_sets if preference_ is not None else ()
        assert {kind for kind in SetKind if kind in bits_by_kind and member in members(bits_by_kind[kind], SHARD)} == {
            *expected_kinds
        }


CLOCK: dict[str, int] = {}
"""All examples share one store, so later examples use later times."""
