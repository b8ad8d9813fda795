"""Account-wide preferences: for each field the newest change wins, regardless of arrival order."""

from asyncio import run
from dataclasses import replace
from datetime import datetime, time, timedelta
from itertools import permutations
from typing import Any

import pytest

from notifier.domain.audience.bitmap import SHARD_MEMBERS, members
from notifier.domain.bursts.moderation import MentionsAllowed
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import (
    ACCOUNT_PREFERENCE_SETS,
    DEFAULT_ACCOUNT_PREFERENCES,
    AccountPreferences,
    AccountPreferencesChange,
)
from notifier.domain.users.quiet_hours import QuietHours
from notifier.domain.users.subject_preferences import ALWAYS, NEVER, Volume
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.contracts.memory_and_sqlite_stores import Store, reopened
from tests.support.fakes.clock_and_nonces import START

MEMBER, NEIGHBOR, STRANGER = Member(SHARD_MEMBERS + 9), Member(SHARD_MEMBERS + 10), Member(SHARD_MEMBERS * 2)
NIGHT = QuietHours(start=time(22), end=time(6, 30))
FIELDS: dict[str, Any] = {
    "volume": Volume.FIRST,
    "visible_from": START - timedelta(hours=1),
    "default_from": START - timedelta(hours=2),
    "push": False,
    "quiet": NIGHT,
    "zone": "America/Argentina/Buenos_Aires",
    "digest_hour": 0,
    "mentions": MentionsAllowed.FOLLOWED,
}


def change(minute: int = 1, *, member: Member = MEMBER, **fields: Any) -> AccountPreferencesChange:
    return AccountPreferencesChange(member=member, at=START + timedelta(minutes=minute), **fields)


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def sets(store: Store, shard: int = 1) -> dict[str, list[Member]]:
    bits_by_kind = store.account_preferences.member_sets(shard)
    assert set(bits_by_kind) == set(ACCOUNT_PREFERENCE_SETS)
    return {str(kind): members(bits, shard) for kind, bits in bits_by_kind.items() if bits.any()}


def read(store: Store, member: Member = MEMBER) -> AccountPreferences:
    return run(store.preferences.read_account(member))


def test_member_without_preferences_has_defaults(store: Store) -> None:
    store.account_preferences.write([])
    assert (read(store), store.account_preferences.read_current([MEMBER]), sets(store)) == (
        DEFAULT_ACCOUNT_PREFERENCES,
        {},
        {},
    )


def test_preferences_are_read_as_written(store: Store) -> None:
    store.account_preferences.write([change(**FIELDS)])
    stored = AccountPreferences(at=at(1), **FIELDS)
    with reopened(store) as other_process:
        assert (read(other_process), read(other_process, NEIGHBOR)) == (stored, DEFAULT_ACCOUNT_PREFERENCES)
        assert other_process.account_preferences.read_current([MEMBER, NEIGHBOR, STRANGER]) == {MEMBER: stored}


def test_users_own_change_is_visible_at_once_and_indexed_later(store: Store) -> None:
    run(store.preferences.write_account(change(**FIELDS)))
    assert read(store) == AccountPreferences(at=at(1), **FIELDS)
    store.account_preferences.write([change(**FIELDS)])
    assert (read(store), sets(store)) == (
        AccountPreferences(at=at(1), **FIELDS),
        {"overall_first": [MEMBER], "no_push": [MEMBER]},
    )


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_newest_change_of_each_field_wins_in_any_order(store: Store, order: tuple[int, ...]) -> None:
    changes = [
        change(1, volume=Volume.OFF, push=False, zone="Asia/Tokyo"),
        change(2, volume=Volume.FIRST, visible_from=NEVER),
        change(3, push=True, quiet=NIGHT),
    ]
    for index in order:
        store.account_preferences.write([changes[index]])
    assert read(store) == AccountPreferences(
        at=at(3), volume=Volume.FIRST, visible_from=NEVER, push=True, quiet=NIGHT, zone="Asia/Tokyo"
    )
    assert sets(store) == {"overall_first": [MEMBER], "asked": [MEMBER]}


def test_imported_value_applies_only_where_no_change_exists(store: Store) -> None:
    imported = replace(change(volume=Volume.OFF, push=False), at=ALWAYS)
    store.account_preferences.write([change(volume=Volume.FIRST), imported, replace(imported, member=NEIGHBOR)])
    assert read(store) == AccountPreferences(at=at(1), volume=Volume.FIRST, push=False)
    assert read(store, NEIGHBOR) == AccountPreferences(at=ALWAYS, volume=Volume.OFF, push=False)
    store.account_preferences.write([change(member=NEIGHBOR, push=True)])
    assert sets(store) == {
        "overall_off": [NEIGHBOR],
        "overall_first": [MEMBER],
        "no_push": [MEMBER],
        "asked": [NEIGHBOR],
    }


def test_newest_change_wins_within_batch(store: Store) -> None:
    store.account_preferences.write(
        [change(2, volume=Volume.OFF), change(3, volume=Volume.ALL), change(1, volume=Volume.FIRST)]
    )
    assert (read(store).volume, sets(store)) == (Volume.ALL, {})


def test_member_is_in_sets_of_own_preferences(store: Store) -> None:
    volumes = [Volume.OFF, Volume.FIRST, Volume.DIGEST, Volume.ALL]
    store.account_preferences.write(
        [change(member=Member(MEMBER + n), volume=volume) for n, volume in enumerate(volumes)]
    )
    store.account_preferences.write([change(member=Member(MEMBER + n), push=False) for n in (1, 4)])
    store.account_preferences.write([change(member=Member(MEMBER + n), push=True) for n in (2, 6)])
    store.account_preferences.write([change(member=Member(MEMBER + 5), quiet=NIGHT, zone="Asia/Tokyo")])
    assert sets(store) == {
        "overall_off": [MEMBER],
        "overall_first": [MEMBER + 1],
        "overall_digest": [MEMBER + 2],
        "no_push": [MEMBER + 1, MEMBER + 4],
        "asked": [MEMBER + 2, MEMBER + 6],
    }
    store.account_preferences.write([change(2, member=Member(MEMBER + 6), push=False)])
    assert sets(store)["asked"] == [MEMBER + 2]
    assert (sets(store, 0), sets(store, 2)) == ({}, {})


def test_sets_contain_only_members_of_their_shard(store: Store) -> None:
    edges = [Member(SHARD_MEMBERS - 1), Member(SHARD_MEMBERS), Member(2 * SHARD_MEMBERS - 1), Member(2 * SHARD_MEMBERS)]
    store.account_preferences.write([change(member=member, volume=Volume.OFF) for member in edges])
    members_by_shard = [sets(store, shard)["overall_off"] for shard in (0, 1, 2)]
    assert members_by_shard == [edges[:1], edges[1:3], edges[3:]]


def test_preferences_are_part_of_the_viewer(store: Store) -> None:
    ada, nova, orion = UserId("ada"), Subject(Kind.MENTION, UserId("nova")), Subject(Kind.MENTION, UserId("orion"))
    store.directory.enrol([DirectoryEntry(user=ada, member=MEMBER)])
    for subject in (nova, orion):
        store.facts.follow(ada, subject, START - timedelta(days=1))
    store.facts.volume(ada, orion, Volume.ALL)
    store.account_preferences.write([change(**FIELDS)])
    viewer = run(store.people.viewer(ada, MEMBER))
    assert viewer.account_preferences == AccountPreferences(at=at(1), **FIELDS)
    assert (viewer.effective_volume(nova), viewer.effective_volume(orion)) == (Volume.FIRST, Volume.ALL)
    store.account_preferences.write([replace(change(2), default_from=START)])
    viewer = run(store.people.viewer(ada, MEMBER))
    assert viewer.follows == {nova: START, orion: FIELDS["visible_from"]}
