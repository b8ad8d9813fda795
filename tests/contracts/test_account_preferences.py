"""What people say of everything: of each thing what was said last counts, whatever comes late."""

from asyncio import run
from dataclasses import replace
from datetime import datetime, time, timedelta
from itertools import permutations
from typing import Any

import pytest

from notifier.domain.audience.bitmap import SHARD_MEMBERS, members
from notifier.domain.bursts.moderation import MentionsAllowed
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import NOTHING_SAID, OF_OVERALLS, Overall, OverallWord
from notifier.domain.users.quiet_hours import Hours
from notifier.domain.users.subject_preferences import ALWAYS, NEVER, Volume
from notifier.ports.directory import DirectoryEntry
from tests.contracts.flow_stores import Store, reopened
from tests.support.fakes.clock import START

MEMBER, NEIGHBOUR, STRANGER = Member(SHARD_MEMBERS + 9), Member(SHARD_MEMBERS + 10), Member(SHARD_MEMBERS * 2)
NIGHT = Hours(start=time(22), end=time(6, 30))
SAID: dict[str, Any] = {
    "volume": Volume.FIRST,
    "visible_from": START - timedelta(hours=1),
    "default_from": START - timedelta(hours=2),
    "push": False,
    "quiet": NIGHT,
    "zone": "America/Argentina/Buenos_Aires",
    "digest_hour": 0,
    "mentions": MentionsAllowed.FOLLOWED,
}


def word(minute: int = 1, *, member: Member = MEMBER, **said: Any) -> OverallWord:
    return OverallWord(member=member, at=START + timedelta(minutes=minute), **said)


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def sets(store: Store, shard: int = 1) -> dict[str, list[Member]]:
    found = store.overalls.sets(shard)
    assert set(found) == set(OF_OVERALLS)
    return {str(kind): members(bits, shard) for kind, bits in found.items() if bits.any()}


def read(store: Store, member: Member = MEMBER) -> Overall:
    return run(store.preferences.overall(member))


def test_of_whom_nothing_was_said_nothing_stands(store: Store) -> None:
    store.overalls.write([])
    assert (read(store), store.overalls.standing([MEMBER]), sets(store)) == (NOTHING_SAID, {}, {})


def test_everything_that_was_said_is_read_as_it_was_said(store: Store) -> None:
    store.overalls.write([word(**SAID)])
    stands = Overall(at=at(1), **SAID)
    with reopened(store) as again:
        assert (read(again), read(again, NEIGHBOUR)) == (stands, NOTHING_SAID)
        assert again.overalls.standing([MEMBER, NEIGHBOUR, STRANGER]) == {MEMBER: stands}


def test_a_person_s_own_word_is_there_at_once_and_the_indexer_writes_the_same(store: Store) -> None:
    run(store.preferences.say(word(**SAID)))
    assert read(store) == Overall(at=at(1), **SAID)
    store.overalls.write([word(**SAID)])
    assert (read(store), sets(store)) == (
        Overall(at=at(1), **SAID),
        {"overall_first": [MEMBER], "no_push": [MEMBER]},
    )


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_of_each_thing_what_was_said_last_counts_in_any_order(store: Store, order: tuple[int, ...]) -> None:
    words = [
        word(1, volume=Volume.OFF, push=False, zone="Asia/Tokyo"),
        word(2, volume=Volume.FIRST, visible_from=NEVER),
        word(3, push=True, quiet=NIGHT),
    ]
    for place in order:
        store.overalls.write([words[place]])
    assert read(store) == Overall(
        at=at(3), volume=Volume.FIRST, visible_from=NEVER, push=True, quiet=NIGHT, zone="Asia/Tokyo"
    )
    assert sets(store) == {"overall_first": [MEMBER], "asked": [MEMBER]}


def test_what_an_import_says_is_before_all_that_is_said_and_stands_where_nothing_is(store: Store) -> None:
    imported = replace(word(volume=Volume.OFF, push=False), at=ALWAYS)
    store.overalls.write([word(volume=Volume.FIRST), imported, replace(imported, member=NEIGHBOUR)])
    assert read(store) == Overall(at=at(1), volume=Volume.FIRST, push=False)
    assert read(store, NEIGHBOUR) == Overall(at=ALWAYS, volume=Volume.OFF, push=False)
    store.overalls.write([word(member=NEIGHBOUR, push=True)])
    assert sets(store) == {
        "overall_off": [NEIGHBOUR],
        "overall_first": [MEMBER],
        "no_push": [MEMBER],
        "asked": [NEIGHBOUR],
    }


def test_of_one_batch_the_last_word_counts_too(store: Store) -> None:
    store.overalls.write([word(2, volume=Volume.OFF), word(3, volume=Volume.ALL), word(1, volume=Volume.FIRST)])
    assert (read(store).volume, sets(store)) == (Volume.ALL, {})


def test_each_is_in_the_sets_of_what_is_wanted(store: Store) -> None:
    said = [Volume.OFF, Volume.FIRST, Volume.DIGEST, Volume.ALL]
    store.overalls.write([word(member=Member(MEMBER + n), volume=volume) for n, volume in enumerate(said)])
    store.overalls.write([word(member=Member(MEMBER + n), push=False) for n in (1, 4)])
    store.overalls.write([word(member=Member(MEMBER + n), push=True) for n in (2, 6)])
    store.overalls.write([word(member=Member(MEMBER + 5), quiet=NIGHT, zone="Asia/Tokyo")])
    assert sets(store) == {
        "overall_off": [MEMBER],
        "overall_first": [MEMBER + 1],
        "overall_digest": [MEMBER + 2],
        "no_push": [MEMBER + 1, MEMBER + 4],
        "asked": [MEMBER + 2, MEMBER + 6],
    }
    store.overalls.write([word(2, member=Member(MEMBER + 6), push=False)])
    assert sets(store)["asked"] == [MEMBER + 2]
    assert (sets(store, 0), sets(store, 2)) == ({}, {})


def test_each_shard_is_of_its_own_members(store: Store) -> None:
    edges = [Member(SHARD_MEMBERS - 1), Member(SHARD_MEMBERS), Member(2 * SHARD_MEMBERS - 1), Member(2 * SHARD_MEMBERS)]
    store.overalls.write([word(member=member, volume=Volume.OFF) for member in edges])
    found = [sets(store, shard)["overall_off"] for shard in (0, 1, 2)]
    assert found == [edges[:1], edges[1:3], edges[3:]]


def test_it_is_part_of_what_decides_what_the_person_sees(store: Store) -> None:
    ada, nova, orion = UserId("ada"), Subject(Kind.MENTION, UserId("nova")), Subject(Kind.MENTION, UserId("orion"))
    store.directory.enrol([DirectoryEntry(user=ada, member=MEMBER)])
    for subject in (nova, orion):
        store.facts.follow(ada, subject, START - timedelta(days=1))
    store.facts.volume(ada, orion, Volume.ALL)
    store.overalls.write([word(**SAID)])
    viewer = run(store.people.viewer(ada, MEMBER))
    assert viewer.overall == Overall(at=at(1), **SAID)
    assert (viewer.wanted(nova), viewer.wanted(orion)) == (Volume.FIRST, Volume.ALL)
    store.overalls.write([replace(word(2), default_from=START)])
    viewer = run(store.people.viewer(ada, MEMBER))
    assert viewer.follows == {nova: START, orion: SAID["visible_from"]}
