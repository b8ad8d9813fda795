"""User actions after an audience snapshot, and whether each suppresses a burst's alerts."""

from asyncio import run
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Any

from notifier.domain.audience.bitmap import SHARD_MEMBERS, members
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import OverallWord
from notifier.domain.users.quiet_hours import Hours
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Mark
from notifier.ports.directory import DirectoryEntry
from tests.contracts.flow_stores import Store
from tests.support.contract_examples import NOVA, ORION, burst
from tests.support.fakes.clock import START

BEFORE, SOON = START - timedelta(hours=1), START + timedelta(milliseconds=1)
MUCH_LATER = START + timedelta(hours=1)
ADA, BOB = UserId("ada"), UserId("bob")
OF_BOB = Subject(Kind.MENTION, BOB)
BURST = burst()
SECRET = replace(BURST, restricted_to=BOB)
LATER = replace(BURST, first_of_day=False)
BASE = 2 * SHARD_MEMBERS

Action = Callable[[Store, UserId, Member], None]


def see(moment: timedelta, *newer: BurstKey) -> Action:
    return lambda store, _, member: run(store.people.see(member, START + moment, newer))


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
    return lambda store, _, member: store.overalls.write([OverallWord(member=member, at=START, **fields)])


def both(*actions: Action) -> Action:
    def do(store: Store, user: UserId, member: Member) -> None:
        for action in actions:
            action(store, user, member)

    return do


NOON_IN_BERLIN = Hours(start=time(12, 59), end=time(13, 1))
"""Quiet hours around 13:00 in Berlin, which is 12:00 UTC in winter."""
LUNCH = Hours(start=time(11), end=time(14))

ACTIONS: Mapping[str, Action] = {
    "nothing": lambda store, user, member: None,
    "deleted the account": lambda store, user, member: store.directory.enrol(
        [DirectoryEntry(user=user, member=member, deleted=True)]
    ),
    "saw it": see(timedelta()),
    "saw what was before it": see(timedelta(milliseconds=-1)),
    "saw it ahead": see(timedelta(hours=-2), BURST.key),
    "saw another ahead": see(timedelta(hours=-2), BurstKey(NOVA, 2)),
    "read it": mark(Mark.READ),
    "hid it": mark(Mark.HIDDEN),
    "kept it unread": mark(Mark.UNREAD),
    "hid another": mark(Mark.HIDDEN, BurstKey(NOVA, 2)),
    "hid another's": mark(Mark.HIDDEN, BurstKey(ORION, 1)),
    "blocked the opener": block(ADA),
    "was blocked by the opener": blocked_by(ADA),
    "blocked somebody else": block(UserId("eve")),
    "blocked the opener and took it back": both(block(ADA), unblock(ADA, MUCH_LATER)),
    "blocked the account": block(NOVA.owner),
    "was blocked by the account": blocked_by(NOVA.owner),
    "unblocked the account later": both(block(NOVA.owner), unblock(NOVA.owner, SOON)),
    "was unblocked by the account later": both(blocked_by(NOVA.owner), unblocked_by(NOVA.owner, SOON)),
    "unblocked the account in time": both(block(NOVA.owner), unblock(NOVA.owner, START)),
    "unblocked the account, who blocks": both(unblock(NOVA.owner, BEFORE), blocked_by(NOVA.owner)),
    "muted": lambda store, user, _: store.facts.mute(user, NOVA),
    "muted another": lambda store, user, _: store.facts.mute(user, ORION),
    "left": lambda store, user, _: store.facts.unfollow(user, NOVA),
    "followed as it opened": lambda store, user, _: store.facts.follow(user, NOVA, START),
    "followed later": lambda store, user, _: store.facts.follow(user, NOVA, SOON),
    "wants the first": volume(Volume.FIRST),
    "wants a digest": volume(Volume.DIGEST),
    "wants nothing": volume(Volume.OFF),
    "wants all": volume(Volume.ALL),
    "wants nothing of another": volume(Volume.OFF, ORION),
    "wants nothing at all": both(volume(Volume.ALL), overall(volume=Volume.OFF)),
    "wants digests": overall(volume=Volume.DIGEST),
    "wants digests, and all of this": both(overall(volume=Volume.DIGEST), volume(Volume.ALL)),
    "wants the first of each": overall(volume=Volume.FIRST),
    "wants the first of each, and all of this": both(overall(volume=Volume.FIRST), volume(Volume.ALL)),
    "wants the first of each, and took a word of this back": both(
        overall(volume=Volume.FIRST), volume(Volume.ALL), volume(Volume.DEFAULT)
    ),
    "wants all of each, and nothing of this": both(overall(volume=Volume.ALL), volume(Volume.OFF)),
    "left off later": overall(volume=Volume.ALL, visible_from=SOON),
    "left off in time": overall(volume=Volume.ALL, visible_from=START),
    "left digests later": overall(volume=Volume.ALL, default_from=SOON),
    "left digests later, with a word of this": both(overall(default_from=SOON), volume(Volume.ALL)),
    "wants no alerts": overall(push=False),
    "wants alerts again": both(overall(push=True)),
    "is asleep": overall(quiet=NOON_IN_BERLIN, zone="Europe/Berlin"),
    "sleeps longer": overall(quiet=LUNCH, zone="UTC"),
    "is asleep and saw it": both(overall(quiet=NOON_IN_BERLIN, zone="Europe/Berlin"), see(timedelta())),
    "is asleep and muted": both(
        overall(quiet=NOON_IN_BERLIN, zone="Europe/Berlin"), lambda store, user, _: store.facts.mute(user, NOVA)
    ),
    "is asleep and wants no alerts": overall(quiet=NOON_IN_BERLIN, zone="Europe/Berlin", push=False),
    "is asleep and wants nothing of this": both(
        overall(quiet=NOON_IN_BERLIN, zone="Europe/Berlin"), volume(Volume.OFF)
    ),
    "is awake": overall(quiet=NOON_IN_BERLIN, zone="Asia/Tokyo"),
    "left the author": lambda store, user, _: store.facts.unfollow(user, OF_BOB),
    "muted the author": lambda store, user, _: store.facts.mute(user, OF_BOB),
    "followed the author later": lambda store, user, _: store.facts.follow(user, OF_BOB, SOON),
}
SUPPRESSING = {
    *("saw it", "saw it ahead", "read it", "hid it", "kept it unread", "blocked the opener"),
    *(
        "deleted the account",
        "was blocked by the opener",
        "blocked the account",
        "was blocked by the account",
        "unblocked the account later",
        "was unblocked by the account later",
        "unblocked the account, who blocks",
        "muted",
        "left",
        "followed later",
        "wants a digest",
        "wants nothing",
    ),
    *("wants nothing at all", "wants digests", "wants all of each, and nothing of this", "left off later"),
    *("left digests later", "wants no alerts", "is asleep and saw it", "is asleep and muted"),
    *("is asleep and wants no alerts", "is asleep and wants nothing of this"),
}
ASLEEP = {"is asleep", "sleeps longer"}


def enrolled(store: Store) -> dict[str, tuple[UserId, Member]]:
    """Enrol one user per action, spread over the shard, who has followed nova and bob for long."""
    people = {action: (UserId(f"p{n}"), Member(BASE + n * 2_500 + n)) for n, action in enumerate(ACTIONS)}
    store.directory.enrol([DirectoryEntry(user=user, member=member) for user, member in people.values()])
    accounts = ADA, BOB, UserId("eve"), NOVA.owner
    store.directory.enrol([DirectoryEntry(user=name, member=Member(n)) for n, name in enumerate(accounts)])
    for user, _ in people.values():
        store.facts.follow(user, NOVA, BEFORE)
        store.facts.follow(user, OF_BOB, BEFORE)
    return people


def spared(store: Store, of: Burst, shard: int = 2, now: datetime = START) -> list[Member]:
    """Return the members who are never alerted."""
    return members(store.spared.read(of, [shard], now)[shard].never, shard)


def asleep(store: Store, of: Burst, shard: int = 2, now: datetime = START) -> tuple[list[Member], datetime | None]:
    suppression = store.spared.read(of, [shard], now)[shard]
    return members(suppression.asleep, shard), suppression.until
