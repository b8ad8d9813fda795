"""Push suppression covers exactly the followers that the predicate excludes from the alert."""

from asyncio import run
from datetime import timedelta
from pathlib import Path

import pytest

from notifier.adapters.sqlite.database_and_query_files import Files, load_statement
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, SHARD_MEMBERS, members
from notifier.domain.audience.follows import BlockFollows
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferencesChange
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import may_push, may_push_after_quiet_hours
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.contracts.memory_and_sqlite_stores import Store, reopened
from tests.contracts.push_suppression_cases import (
    ACTIONS,
    ADA,
    BASE,
    BEFORE,
    BURST,
    IN_QUIET_HOURS,
    JUST_AFTER,
    NOT_FIRST_OF_DAY,
    RESTRICTED_BURST,
    SUPPRESSING,
    enrol_users,
    in_quiet_hours,
    suppressed,
)
from tests.support.contract_examples import NOVA, burst
from tests.support.fakes.clock_and_nonces import START

QUARTER_PAST = START + timedelta(minutes=15)
"""Wake-up time of members who sleep until one minute past noon."""


@pytest.mark.parametrize(
    ("burst_", "also_suppressed"),
    [
        (BURST, set[str]()),
        (
            NOT_FIRST_OF_DAY,
            {"wants the first", "wants the first of each", "wants the first of each, and reset this subject"},
        ),
        (RESTRICTED_BURST, {"unfollowed the author"}),
    ],
    ids=["public", "not the day's first", "restricted"],
)
def test_suppressed_members_are_those_the_predicate_excludes(
    store: Store, burst_: Burst, also_suppressed: set[str]
) -> None:
    people = enrol_users(store)
    for action, (user, member) in people.items():
        ACTIONS[action](store, user, member)
    with reopened(store) as other_process:
        never_alerted, (sleeping, until) = suppressed(other_process, burst_), in_quiet_hours(other_process, burst_)
        viewers = {member: run(other_process.people.viewer(user, member)) for user, member in people.values()}
        deleted = {member for user, member in people.values() if run(other_process.people.member(user)) is None}
    assert {
        action for action, (_, member) in people.items() if member in never_alerted
    } == SUPPRESSING | also_suppressed
    denied = {member for member, viewer in viewers.items() if not may_push_after_quiet_hours(burst_, viewer, now=START)}
    assert never_alerted == sorted(denied | deleted)
    assert {action for action, (_, member) in people.items() if member in sleeping} == IN_QUIET_HOURS
    assert set(sleeping) == {
        member for member, viewer in viewers.items() if not may_push(burst_, viewer, now=START)
    } - set(never_alerted)
    assert until == QUARTER_PAST


def test_no_one_is_suppressed_without_user_actions(store: Store) -> None:
    enrol_users(store)
    assert (suppressed(store, BURST), in_quiet_hours(store, BURST)) == ([], ([], None))


def test_restored_account_is_not_suppressed(store: Store) -> None:
    user, member = enrol_users(store)["nothing"]
    for deleted in (True, False):
        store.directory.enrol([DirectoryEntry(user=user, member=member, deleted=deleted)])
        assert suppressed(store, BURST) == ([member] if deleted else [])


@pytest.mark.thorough
@pytest.mark.parametrize("action", sorted(SUPPRESSING))
def test_each_shard_suppresses_only_its_own_members(store: Store, action: str) -> None:
    edges = [Member(BASE - 1), Member(BASE), Member(BASE + SHARD_MEMBERS - 1), Member(BASE + SHARD_MEMBERS)]
    store.directory.enrol([DirectoryEntry(user=UserId(f"e{member}"), member=member) for member in edges])
    store.directory.enrol(
        [DirectoryEntry(user=ADA, member=Member(1)), DirectoryEntry(user=NOVA.owner, member=Member(2))]
    )
    for member in edges:
        store.facts.follow(UserId(f"e{member}"), NOVA, BEFORE)
        ACTIONS[action](store, UserId(f"e{member}"), member)
    assert [suppressed(store, BURST, shard) for shard in (1, 2, 3)] == [edges[:1], edges[1:3], edges[3:]]
    suppressions = store.push_suppressions.read(BURST, {5, 3, 1}, START)
    assert {shard: members(suppression.suppressed, shard) for shard, suppression in suppressions.items()} == {
        1: edges[:1],
        3: edges[3:],
        5: [],
    }


def test_late_block_follow_is_suppressed_except_earlier_rows(store: Store) -> None:
    people = [(UserId(f"p{slot}"), Member(BASE + slot)) for slot in (4, 9, 1_023)]
    store.directory.enrol([DirectoryEntry(user=user, member=member) for user, member in people])
    bits = bytearray(BLOCK_MEMBERS // 8)
    for slot in (4, 9):
        bits[slot // 8] |= 1 << slot % 8
    block = BASE // BLOCK_MEMBERS
    store.follows.write_blocks([BlockFollows(subject=NOVA, block=block, visible_from=JUST_AFTER, members=bytes(bits))])
    store.facts.follow(people[0][0], NOVA, BEFORE)
    store.facts.block(people[1][0], people[2][0])
    assert BASE + 4 not in suppressed(store, BURST)
    assert BASE + 9 in suppressed(store, BURST)


@pytest.mark.parametrize(
    "name", ["read_push_suppression", "read_block_follows_after_burst", "read_follows_before_burst"]
)
def test_every_sqlite_query_searches_an_index(tmp_path: Path, name: str) -> None:
    files = Files.at(tmp_path)
    files.migrate()
    parameters = dict.fromkeys(("subject", "author", "opener", "owner"), "x") | {"seq": 1, "opened_at": 0}
    parameters |= {"first_of_day": True, "unfollowed": 1, "never": 3, "shard": 2, "first": 1, "last": 2}
    with files.core.read() as c:
        plan = [row[3] for row in c.execute("EXPLAIN QUERY PLAN " + load_statement(name), parameters)]
    files.close()
    steps = [text for text in plan if text.startswith(("SCAN", "SEARCH"))]
    assert len(steps) == (9 if name == "read_push_suppression" else 1)
    assert [text for text in steps if not text.startswith("SEARCH")] == []


def test_quiet_hours_apply_at_time_of_the_alert(store: Store) -> None:
    user, member = enrol_users(store)["nothing"]
    ACTIONS["is in quiet hours"](store, user, member)
    minutes = [timedelta(minutes=n) for n in (-2, -1, 0, 1)]
    sleeping = [member], QUARTER_PAST
    assert [in_quiet_hours(store, BURST, now=START + n) for n in minutes] == [
        ([], None),
        sleeping,
        sleeping,
        ([], None),
    ]
    assert suppressed(store, BURST) == []


def test_each_shard_sleeps_until_its_first_alertable_member_wakes(store: Store) -> None:
    members_ = [Member(BASE + 1), Member(BASE + 2), Member(BASE + 3), Member(BASE + SHARD_MEMBERS)]
    store.directory.enrol([DirectoryEntry(user=UserId(f"s{member}"), member=member) for member in members_])
    for member, action in zip(
        members_,
        ("is in quiet hours and muted", "has longer quiet hours", "has longer quiet hours", "is in quiet hours"),
        strict=True,
    ):
        store.facts.follow(UserId(f"s{member}"), NOVA, BEFORE)
        ACTIONS[action](store, UserId(f"s{member}"), member)
    suppressions = store.push_suppressions.read(BURST, [2, 3, 4], START)
    assert [members(suppressions[shard].quiet, shard) for shard in (2, 3, 4)] == [members_[1:3], members_[3:], []]
    assert [suppressions[shard].recheck_at for shard in (2, 3, 4)] == [
        START + timedelta(hours=2),
        QUARTER_PAST,
        None,
    ]
    assert members(suppressions[2].suppressed, 2) == members_[:1]


def test_personal_burst_respects_alert_setting_but_not_volume(store: Store) -> None:
    personal = burst(Subject(Kind.SELF, UserId("nova")))
    nova = Member(BASE + 5)
    store.directory.enrol([DirectoryEntry(user=UserId("nova"), member=nova)])
    store.account_preferences.write(
        [AccountPreferencesChange(member=nova, at=START, volume=Volume.OFF, visible_from=JUST_AFTER)]
    )
    assert suppressed(store, personal) == []
    store.account_preferences.write([AccountPreferencesChange(member=nova, at=START, push=False)])
    assert suppressed(store, personal) == [nova]


def test_personal_burst_is_suppressed_after_owner_saw_it(store: Store) -> None:
    personal = burst(Subject(Kind.SELF, UserId("nova")))
    store.directory.enrol([DirectoryEntry(user=UserId("nova"), member=Member(BASE + 5))])
    assert suppressed(store, personal) == []
    run(store.people.mark_seen(Member(BASE + 5), START, []))
    assert suppressed(store, personal) == [BASE + 5]
