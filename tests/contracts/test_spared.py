"""The contract of the spared: exactly those followers to whom the predicate doesn't push the burst."""

from asyncio import run
from datetime import timedelta
from pathlib import Path

import pytest

from notifier.adapters.sqlite.files import Files, statement
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, SHARD_MEMBERS, members
from notifier.domain.audience.follows import BlockFollows
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import OverallWord
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import pushable, pushable_awake
from notifier.ports.directory import DirectoryEntry
from tests.contracts.flow_stores import Store, reopened
from tests.contracts.push_suppression_cases import (
    ACTIONS,
    ADA,
    ASLEEP,
    BASE,
    BEFORE,
    BURST,
    LATER,
    SECRET,
    SOON,
    SUPPRESSING,
    asleep,
    enrolled,
    spared,
)
from tests.support.contract_examples import NOVA, burst
from tests.support.fakes.clock import START

QUARTER_PAST = START + timedelta(minutes=15)
"""Who sleeps until one minute past noon is looked for then."""


@pytest.mark.parametrize(
    ("of", "more"),
    [
        (BURST, set[str]()),
        (
            LATER,
            {"wants the first", "wants the first of each", "wants the first of each, and took a word of this back"},
        ),
        (SECRET, {"left the author"}),
    ],
    ids=["public", "not the day's first", "restricted"],
)
def test_spared_are_those_to_whom_it_is_not_pushable(store: Store, of: Burst, more: set[str]) -> None:
    people = enrolled(store)
    for deed, (user, member) in people.items():
        ACTIONS[deed](store, user, member)
    with reopened(store) as again:
        found, (sleepers, until) = spared(again, of), asleep(again, of)
        viewers = {member: run(again.people.viewer(user, member)) for user, member in people.values()}
        gone = {member for user, member in people.values() if run(again.people.member(user)) is None}
    assert {deed for deed, (_, member) in people.items() if member in found} == SUPPRESSING | more
    denied = {m for m, v in viewers.items() if not pushable_awake(of, v, now=START)}
    assert found == sorted(denied | gone)
    assert {deed for deed, (_, member) in people.items() if member in sleepers} == ASLEEP
    assert set(sleepers) == {m for m, v in viewers.items() if not pushable(of, v, now=START)} - set(found)
    assert until == QUARTER_PAST


def test_nobody_is_spared_where_nobody_did_anything(store: Store) -> None:
    enrolled(store)
    assert (spared(store, BURST), asleep(store, BURST)) == ([], ([], None))


def test_who_came_back_after_deleting_the_account_is_not_spared(store: Store) -> None:
    user, member = enrolled(store)["nothing"]
    for deleted in (True, False):
        store.directory.enrol([DirectoryEntry(user=user, member=member, deleted=deleted)])
        assert spared(store, BURST) == ([member] if deleted else [])


@pytest.mark.parametrize("deed", sorted(SUPPRESSING))
def test_each_shard_speaks_of_its_own_members(store: Store, deed: str) -> None:
    edges = [Member(BASE - 1), Member(BASE), Member(BASE + SHARD_MEMBERS - 1), Member(BASE + SHARD_MEMBERS)]
    store.directory.enrol([DirectoryEntry(user=UserId(f"e{m}"), member=m) for m in edges])
    store.directory.enrol(
        [DirectoryEntry(user=ADA, member=Member(1)), DirectoryEntry(user=NOVA.owner, member=Member(2))]
    )
    for member in edges:
        store.facts.follow(UserId(f"e{member}"), NOVA, BEFORE)
        ACTIONS[deed](store, UserId(f"e{member}"), member)
    assert [spared(store, BURST, shard) for shard in (1, 2, 3)] == [edges[:1], edges[1:3], edges[3:]]
    found = store.spared.read(BURST, {5, 3, 1}, START)
    assert {shard: members(spare.never, shard) for shard, spare in found.items()} == {1: edges[:1], 3: edges[3:], 5: []}


def test_a_whole_block_that_follows_later_is_spared_but_for_those_with_an_earlier_row(store: Store) -> None:
    people = [(UserId(f"p{slot}"), Member(BASE + slot)) for slot in (4, 9, 1_023)]
    store.directory.enrol([DirectoryEntry(user=user, member=member) for user, member in people])
    bits = bytearray(BLOCK_MEMBERS // 8)
    for slot in (4, 9):
        bits[slot // 8] |= 1 << slot % 8
    block = BASE // BLOCK_MEMBERS
    store.follows.write_blocks([BlockFollows(subject=NOVA, block=block, visible_from=SOON, members=bytes(bits))])
    store.facts.follow(people[0][0], NOVA, BEFORE)
    store.facts.block(people[1][0], people[2][0])
    assert BASE + 4 not in spared(store, BURST)
    assert BASE + 9 in spared(store, BURST)


@pytest.mark.parametrize("name", ["spared", "late_blocks", "earlier_follows"])
def test_in_sqlite_every_question_is_a_range_of_an_index(tmp_path: Path, name: str) -> None:
    files = Files.at(tmp_path)
    files.migrate()
    given = dict.fromkeys(("subject", "author", "opener", "owner"), "x") | {"seq": 1, "opened_at": 0}
    given |= {"first_of_day": True, "left": 1, "never": 3, "shard": 2, "first": 1, "last": 2}
    with files.core.read() as c:
        plan = [row[3] for row in c.execute("EXPLAIN QUERY PLAN " + statement(name), given)]
    files.close()
    steps = [text for text in plan if text.startswith(("SCAN", "SEARCH"))]
    assert len(steps) == (9 if name == "spared" else 1)
    assert [text for text in steps if not text.startswith("SEARCH")] == []


def test_quiet_hours_count_at_the_moment_of_the_alert(store: Store) -> None:
    user, member = enrolled(store)["nothing"]
    ACTIONS["is asleep"](store, user, member)
    minutes = [timedelta(minutes=n) for n in (-2, -1, 0, 1)]
    sleeps = [member], QUARTER_PAST
    assert [asleep(store, BURST, now=START + n) for n in minutes] == [([], None), sleeps, sleeps, ([], None)]
    assert spared(store, BURST) == []


def test_each_shard_is_asleep_until_the_first_of_its_people_wakes_who_may_be_alerted(store: Store) -> None:
    here = [Member(BASE + 1), Member(BASE + 2), Member(BASE + 3), Member(BASE + SHARD_MEMBERS)]
    store.directory.enrol([DirectoryEntry(user=UserId(f"s{m}"), member=m) for m in here])
    for member, deed in zip(here, ("is asleep and muted", "sleeps longer", "sleeps longer", "is asleep"), strict=True):
        store.facts.follow(UserId(f"s{member}"), NOVA, BEFORE)
        ACTIONS[deed](store, UserId(f"s{member}"), member)
    found = store.spared.read(BURST, [2, 3, 4], START)
    assert [members(found[shard].asleep, shard) for shard in (2, 3, 4)] == [here[1:3], here[3:], []]
    assert [found[shard].until for shard in (2, 3, 4)] == [
        START + timedelta(hours=2),
        QUARTER_PAST,
        None,
    ]
    assert members(found[2].never, 2) == here[:1]


def test_a_personal_burst_is_spared_by_who_wants_no_alerts_and_by_nobody_who_wants_nothing_of_others(
    store: Store,
) -> None:
    own = burst(Subject(Kind.SELF, UserId("nova")))
    nova = Member(BASE + 5)
    store.directory.enrol([DirectoryEntry(user=UserId("nova"), member=nova)])
    store.overalls.write([OverallWord(member=nova, at=START, volume=Volume.OFF, visible_from=SOON)])
    assert spared(store, own) == []
    store.overalls.write([OverallWord(member=nova, at=START, push=False)])
    assert spared(store, own) == [nova]


def test_a_personal_burst_spares_its_owner_who_has_seen_it(store: Store) -> None:
    own = burst(Subject(Kind.SELF, UserId("nova")))
    store.directory.enrol([DirectoryEntry(user=UserId("nova"), member=Member(BASE + 5))])
    assert spared(store, own) == []
    run(store.people.see(Member(BASE + 5), START, []))
    assert spared(store, own) == [BASE + 5]
