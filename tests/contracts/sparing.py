"""What people do after a seal, by which their phones stay silent or don't; and who is spared by it."""

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
LATER_ON = START + timedelta(hours=1)
ADA, BOB = UserId("ada"), UserId("bob")
OF_BOB = Subject(Kind.MENTION, BOB)
BURST = burst()
SECRET = replace(BURST, restricted_to=BOB)
LATER = replace(BURST, first_of_day=False)
BASE = 2 * SHARD_MEMBERS

Deed = Callable[[Store, UserId, Member], None]


def see(moment: timedelta, *newer: BurstKey) -> Deed:
    return lambda store, _, member: run(store.people.see(member, START + moment, newer))


def mark(mark: Mark, burst: BurstKey = BURST.key) -> Deed:
    return lambda store, _, member: run(store.people.mark(member, [burst], mark))


def volume(volume: Volume, subject: Subject = NOVA) -> Deed:
    return lambda store, user, _: store.facts.volume(user, subject, volume)


def block(other: UserId) -> Deed:
    return lambda store, user, _: store.facts.block(user, other)


def unblock(other: UserId, at: datetime) -> Deed:
    return lambda store, user, _: store.facts.unblock(user, other, at)


def blocked_by(other: UserId) -> Deed:
    return lambda store, user, _: store.facts.block(other, user)


def unblocked_by(other: UserId, at: datetime) -> Deed:
    return lambda store, user, _: store.facts.unblock(other, user, at)


def overall(**said: Any) -> Deed:
    """Of everything."""
    return lambda store, _, member: store.overalls.write([OverallWord(member=member, at=START, **said)])


def both(*deeds: Deed) -> Deed:
    def do(store: Store, user: UserId, member: Member) -> None:
        for deed in deeds:
            deed(store, user, member)

    return do


NOON_IN_BERLIN = Hours(start=time(12, 59), end=time(13, 1))
"""Where it is 13:00 when it is noon by UTC."""
LUNCH = Hours(start=time(11), end=time(14))

DEEDS: Mapping[str, Deed] = {
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
    "blocked the opener and took it back": both(block(ADA), unblock(ADA, LATER_ON)),
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
SILENCING = {
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
    """One for each deed, all followers of nova and of bob since long ago, spread over the shard."""
    people = {deed: (UserId(f"p{n}"), Member(BASE + n * 2_500 + n)) for n, deed in enumerate(DEEDS)}
    store.directory.enrol([DirectoryEntry(user=user, member=member) for user, member in people.values()])
    others = ADA, BOB, UserId("eve"), NOVA.owner
    store.directory.enrol([DirectoryEntry(user=name, member=Member(n)) for n, name in enumerate(others)])
    for user, _ in people.values():
        store.facts.follow(user, NOVA, BEFORE)
        store.facts.follow(user, OF_BOB, BEFORE)
    return people


def spared(store: Store, of: Burst, shard: int = 2, now: datetime = START) -> list[Member]:
    """Who is never alerted."""
    return members(store.spared.read(of, [shard], now)[shard].never, shard)


def asleep(store: Store, of: Burst, shard: int = 2, now: datetime = START) -> tuple[list[Member], datetime | None]:
    found = store.spared.read(of, [shard], now)[shard]
    return members(found.asleep, shard), found.until
