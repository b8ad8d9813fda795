"""User actions after an audience snapshot, and whether each suppresses a burst's alerts."""

from asyncio import run
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Any

from notifier.domain.audience.bitmap import SHARD_MEMBERS, members
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferencesChange
from notifier.domain.users.quiet_hours import QuietHours
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Mark
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.contracts.memory_and_sqlite_stores import Store
from tests.support.contract_examples import NOVA, ORION, burst
from tests.support.fakes.clock_and_nonces import START

BEFORE, JUST_AFTER = START - timedelta(hours=1), START + timedelta(milliseconds=1)
MUCH_LATER = START + timedelta(hours=1)
ADA, BOB = UserId("ada"), UserId("bob")
OF_BOB = Subject(Kind.MENTION, BOB)
BURST = burst()
RESTRICTED_BURST = replace(BURST, restricted_to=BOB)
NOT_FIRST_OF_DAY = replace(BURST, first_of_day=False)
BASE = 2 * SHARD_MEMBERS

Action = Callable[[Store, UserId, Member], None]


def see(moment: timedelta, *newer: BurstKey) -> Action:
    return lambda store, _, member: run(store.people.mark_seen(member, START + moment, newer))


def mark(mark: Mark, burst: BurstKey = BURST.key) -> Action:
    return lambda store, _, member: run(store.people.mark(member, [burst], mark))


def volume(volume: Volume, subject: Subject = NOVA) -> Action:
    return lambda store, user, _: store.facts.volume(user, subject, volume)


def block(other_user: UserId) -> Action:
    return lambda store, user, _: store.facts.block(user, other_user)


def unblock(other_user: UserId, at: datetime) -> Action:
    return lambda store, user, _: store.facts.unblock(user, other_user, at)


def blocked_by(other_user: UserId) -> Action:
    return lambda store, user, _: store.facts.block(other_user, user)


def unblocked_by(other_user: UserId, at: datetime) -> Action:
    return lambda store, user, _: store.facts.unblock(other_user, user, at)


def overall(**fields: Any) -> Action:
    """Change an account-wide preference."""
    return lambda store, _, member: store.account_preferences.write(
        [AccountPreferencesChange(member=member, at=START, **fields)]
    )


def sequence_of(*actions: Action) -> Action:
    def do(store: Store, user: UserId, member: Member) -> None:
        for action in actions:
            action(store, user, member)

    return do


NOON_IN_BERLIN = QuietHours(start=time(12, 59), end=time(13, 1))
"""Quiet hours around 13:00 in Berlin, which is 12:00 UTC in winter."""
LUNCH = QuietHours(start=time(11), end=time(14))

ACTIONS: Mapping[str, Action] = {
    "nothing": lambda store, user, member: None,
    "deleted the account": lambda store, user, member: store.directory.enrol(
        [DirectoryEntry(user=user, member=member, deleted=True)]
    ),
    "saw it": see(timedelta()),
    "saw earlier bursts": see(timedelta(milliseconds=-1)),
    "saw it ahead of its time": see(timedelta(hours=-2), BURST.key),
    "saw another burst ahead of its time": see(timedelta(hours=-2), BurstKey(NOVA, 2)),
    "read it": mark(Mark.READ),
    "hid it": mark(Mark.HIDDEN),
    "kept it unread": mark(Mark.UNREAD),
    "hid another burst": mark(Mark.HIDDEN, BurstKey(NOVA, 2)),
    "hid a burst of another subject": mark(Mark.HIDDEN, BurstKey(ORION, 1)),
    "blocked the opener": block(ADA),
    "was blocked by the opener": blocked_by(ADA),
    "blocked another user": block(UserId("eve")),
    "blocked and unblocked the opener": sequence_of(block(ADA), unblock(ADA, MUCH_LATER)),
    "blocked the account": block(NOVA.owner),
    "was blocked by the account": blocked_by(NOVA.owner),
    "unblocked the account later": sequence_of(block(NOVA.owner), unblock(NOVA.owner, JUST_AFTER)),
    "was unblocked by the account later": sequence_of(blocked_by(NOVA.owner), unblocked_by(NOVA.owner, JUST_AFTER)),
    "unblocked the account in time": sequence_of(block(NOVA.owner), unblock(NOVA.owner, START)),
    "unblocked the account, which still blocks": sequence_of(unblock(NOVA.owner, BEFORE), blocked_by(NOVA.owner)),
    "muted": lambda store, user, _: store.facts.mute(user, NOVA),
    "muted another subject": lambda store, user, _: store.facts.mute(user, ORION),
    "unfollowed": lambda store, user, _: store.facts.unfollow(user, NOVA),
    "followed as it opened": lambda store, user, _: store.facts.follow(user, NOVA, START),
    "followed later": lambda store, user, _: store.facts.follow(user, NOVA, JUST_AFTER),
    "wants the first": volume(Volume.FIRST),
    "wants a digest": volume(Volume.DIGEST),
    "wants nothing": volume(Volume.OFF),
    "wants all": volume(Volume.ALL),
    "wants nothing of another subject": volume(Volume.OFF, ORION),
    "wants nothing at all": sequence_of(volume(Volume.ALL), overall(volume=Volume.OFF)),
    "wants digests": overall(volume=Volume.DIGEST),
    "wants digests, but all of this subject": sequence_of(overall(volume=Volume.DIGEST), volume(Volume.ALL)),
    "wants the first of each": overall(volume=Volume.FIRST),
    "wants the first of each, but all of this subject": sequence_of(overall(volume=Volume.FIRST), volume(Volume.ALL)),
    "wants the first of each, and reset this subject": sequence_of(
        overall(volume=Volume.FIRST), volume(Volume.ALL), volume(Volume.DEFAULT)
    ),
    "wants all of each, but nothing of this subject": sequence_of(overall(volume=Volume.ALL), volume(Volume.OFF)),
    "wanted all again later": overall(volume=Volume.ALL, visible_from=JUST_AFTER),
    "wanted all again in time": overall(volume=Volume.ALL, visible_from=START),
    "ended digests later": overall(volume=Volume.ALL, default_from=JUST_AFTER),
    "ended digests later, but wants all of this subject": sequence_of(
        overall(default_from=JUST_AFTER), volume(Volume.ALL)
    ),
    "wants no alerts": overall(push=False),
    "wants alerts again": sequence_of(overall(push=True)),
    "is in quiet hours": overall(quiet=NOON_IN_BERLIN, zone="Europe/Berlin"),
    "has longer quiet hours": overall(quiet=LUNCH, zone="UTC"),
    "is in quiet hours and saw it": sequence_of(overall(quiet=NOON_IN_BERLIN, zone="Europe/Berlin"), see(timedelta())),
    "is in quiet hours and muted": sequence_of(
        overall(quiet=NOON_IN_BERLIN, zone="Europe/Berlin"), lambda store, user, _: store.facts.mute(user, NOVA)
    ),
    "is in quiet hours and wants no alerts": overall(quiet=NOON_IN_BERLIN, zone="Europe/Berlin", push=False),
    "is in quiet hours and wants nothing of this subject": sequence_of(
        overall(quiet=NOON_IN_BERLIN, zone="Europe/Berlin"), volume(Volume.OFF)
    ),
    "is outside quiet hours": overall(quiet=NOON_IN_BERLIN, zone="Asia/Tokyo"),
    "unfollowed the author": lambda store, user, _: store.facts.unfollow(user, OF_BOB),
    "muted the author": lambda store, user, _: store.facts.mute(user, OF_BOB),
    "followed the author later": lambda store, user, _: store.facts.follow(user, OF_BOB, JUST_AFTER),
}
SUPPRESSING = {
    *("saw it", "saw it ahead of its time", "read it", "hid it", "kept it unread", "blocked the opener"),
    *(
        "deleted the account",
        "was blocked by the opener",
        "blocked the account",
        "was blocked by the account",
        "unblocked the account later",
        "was unblocked by the account later",
        "unblocked the account, which still blocks",
        "muted",
        "unfollowed",
        "followed later",
        "wants a digest",
        "wants nothing",
    ),
    *(
        "wants nothing at all",
        "wants digests",
        "wants all of each, but nothing of this subject",
        "wanted all again later",
    ),
    *("ended digests later", "wants no alerts", "is in quiet hours and saw it", "is in quiet hours and muted"),
    *("is in quiet hours and wants no alerts", "is in quiet hours and wants nothing of this subject"),
}
IN_QUIET_HOURS = {"is in quiet hours", "has longer quiet hours"}


def enrol_users(store: Store) -> dict[str, tuple[UserId, Member]]:
    """Enrol one user per action, spread over the shard, who has followed nova and bob for long."""
    users_by_action = {action: (UserId(f"p{n}"), Member(BASE + n * 2_500 + n)) for n, action in enumerate(ACTIONS)}
    store.directory.enrol([DirectoryEntry(user=user, member=member) for user, member in users_by_action.values()])
    accounts = ADA, BOB, UserId("eve"), NOVA.owner
    store.directory.enrol([DirectoryEntry(user=name, member=Member(n)) for n, name in enumerate(accounts)])
    for user, _ in users_by_action.values():
        store.facts.follow(user, NOVA, BEFORE)
        store.facts.follow(user, OF_BOB, BEFORE)
    return users_by_action


def suppressed(store: Store, burst_: Burst, shard: int = 2, now: datetime = START) -> list[Member]:
    """Return the members who are never alerted."""
    return members(store.push_suppressions.read(burst_, [shard], now)[shard].suppressed, shard)


def in_quiet_hours(
    store: Store, burst_: Burst, shard: int = 2, now: datetime = START
) -> tuple[list[Member], datetime | None]:
    suppression = store.push_suppressions.read(burst_, [shard], now)[shard]
    return members(suppression.quiet, shard), suppression.recheck_at
