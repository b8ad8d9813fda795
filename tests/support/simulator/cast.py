"""The scene: a dozen people in two shards, told to the system and to the oracle in the same breath."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from notifier.domain.audience.activity import FOREVER
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, from_offsets, shard_of
from notifier.domain.audience.tiers import SetKind
from notifier.domain.delivery.plan import SetHead
from notifier.domain.ids import Kind, Member, Platform, Subject, UserId
from notifier.domain.users.account_preferences import OverallWish
from notifier.domain.users.subject_preferences import Volume
from notifier.ports.audience import ShardBlob, Stay
from notifier.ports.directory import DirectoryEntry
from notifier.ports.event_log import Record
from tests.support.fakes.clock import START
from tests.support.oracle import FOR_EVER, Person
from tests.support.simulator.durable_state import Ground
from tests.support.simulator.in_flight_changes import Rumours
from tests.support.simulator.preference_changes import AT_ONCE, quiet_of
from tests.support.simulator.script import ONE, Changed, handsets, kept

SINCE = START - timedelta(days=30)
THRESHOLD = 1_000
SIZES = {"nova": 100_000_000, "lyra": 50_000}
"""As claimed: nova's slices are one shard wide and she has a budget; lyra's are wide; the others are standard."""
BUDGETED = ("nova",)
CELEBRITIES = ("nova", "lyra")
SHARDS = 2
AUTHORS = ("ada", "bob", "eve")
VIEWERS = ("kim", "lee", "max", "pat", "quinn", "roy", "nova", "eve")
BLOCKERS_OF_BOB = ("max", "roy")
"""One who gets rows alone, and one whose phone would ring."""
ASKED = ("max", "quinn")
"""For alerts: one who gets rows late, and one who gets none. They have no device until they change their mind."""
CROWD_AT = 3 * 1024


def cast(crowd: int, *, phones: bool = True) -> dict[str, Person]:
    """Everybody: celebrities, authors, viewers of every tier, one who has left, and the crowd. Some have
    phones, unless they are to get them by and by."""
    hours = {"kim": 1, "lee": 2, "max": 100, "pat": 20 * 24, "quinn": 60 * 24, "roy": 100, "eve": 1}
    members = {"ada": 10, "bob": 11, "kim": 12, "lee": 13, "pat": 14, "gone": 15, "orion": 7, "roy": 1_040}
    members |= {"lyra": 131_077, "eve": 131_090, "quinn": 131_100, "max": 140_000, "nova": 200_000}
    follows = {
        "nova": ("kim", "lee", "max", "pat", "quinn", "roy", "eve"),
        "lyra": ("lee", "quinn", "roy"),
        "orion": ("kim", "max", "pat"),
        "eve": ("kim", "max", "nova"),
    }
    found = {
        name: Person(
            name=name,
            member=member,
            deleted=name == "gone",
            follows={owner: SINCE for owner, names in follows.items() if name in names},
            vip=name in ("kim", "roy"),
            push=phones and name in ("kim", "lee", "roy", "nova"),
            asked=name in ASKED,
            idle=timedelta(hours=hours.get(name, 9_000)),
            muted=frozenset({"lyra"} if name == "quinn" else ()),
            volume={"nova": "first"} if name == "lee" else {},
            apart={("bob", False): FOR_EVER} if name in BLOCKERS_OF_BOB else {},
        )
        for name, member in members.items()
    }
    of_bob = {(name, True): FOR_EVER for name in BLOCKERS_OF_BOB}
    return {**found, "bob": replace(found["bob"], apart=of_bob), **_crowded(crowd)}


def _crowded(crowd: int) -> dict[str, Person]:
    return {
        f"c{i}": Person(name=f"c{i}", member=CROWD_AT + i, follows={"nova": SINCE}, idle=timedelta(hours=3))
        for i in range(crowd)
    }


def _heard_again(before: Person, after: Person, now: datetime) -> Person:
    """Whoever was silent and isn't any more is followed from now on, as it were: nothing of before comes back. Nor does
    a digest tell what was shown before it was wanted."""
    back = {owner for owner in after.follows if _silent(before, owner) and not _silent(after, owner)}
    begun = {owner for owner in after.follows if before.wanted_of(owner) != after.wanted_of(owner) == "digest"}
    anew = back | begun
    return replace(after, follows={owner: now if owner in anew else since for owner, since in after.follows.items()})


def _silent(person: Person, owner: str) -> bool:
    return person.wanted_of(owner) in ("off", "digest")


class Scene:
    def __init__(
        self,
        ground: Ground,
        crowd: int,
        platforms: Collection[Platform] = ONE,
        *,
        graph: bool = False,
        phones: bool = True,
    ) -> None:
        self.base = cast(crowd, phones=phones)
        """Without what the log has carried."""
        self.people = self.base
        self.history = [self.people]
        """What was true at one moment after another."""
        self.changes: Counter[str] = Counter()
        self.sizes = dict(SIZES)
        self.claimed = {owner: [n] for owner, n in SIZES.items()}
        """All sizes that each was ever said to have."""
        self.rumours = Rumours(ground)
        self._ground = ground
        self._graph, self._phones, self._platforms = graph, phones, platforms
        ground.directory.enrol(
            [
                DirectoryEntry(user=UserId(p.name), member=Member(p.member), deleted=p.deleted)
                for p in self.people.values()
            ]
        )
        self._tell_sets()
        self._tell_subjects()
        for person in self.people.values():
            self._tell_person(person)
        ground.log.hears = self._hears

    def change(self, changed: Changed) -> None:
        self._set(self._changed(self.base[changed.person], changed))
        parts = changed.what in ("block", "unblock")
        if parts:
            self._part(changed.person, changed.whom, blocks=changed.what == "block")
        self._tell_sets()
        if not self._graph:
            self._tell_subjects()
        self._became(changed.person, *([changed.whom] if parts else ()))

    def resize(self, account: str, followers: int) -> None:
        """By another size the subject may take the other lane; what is written of its followers stays."""
        self.sizes[account] = followers
        self.claimed.setdefault(account, []).append(followers)
        self._tell_head(account)

    def looked(self, name: str) -> None:
        """Who opened the tab is active from some moment on, which the roll-up says: it tells the sets, and not we."""
        if self.base[name].idle:
            self.rumours.looked(self.base[name])
            self.base = {**self.base, name: replace(self.base[name], idle=timedelta(0))}
            self._became(name)

    def possible(self) -> Mapping[str, Sequence[Person]]:
        """Everybody as rows and sets may say by now: what is on its way has come or hasn't."""
        return {name: self.possibly(name) for name in self.base}

    def possibly(self, name: str) -> Sequence[Person]:
        return self.rumours.possible(self.base[name])

    def _hears(self, partition: str, offset: int, record: Record) -> None:
        for person in self.rumours.hear(partition, offset, record):
            self.changes[person] += 1
            self._became(person)

    def _became(self, *names: str) -> None:
        """Nobody else did: they stay the same objects, of which each is judged once. Strangers aren't looked at."""
        told = {name: self.rumours.told(self.base[name]) for name in names if name in self.base}
        self.people = {**self.people, **told}
        self.history.append(self.people)

    def lives(self) -> Sequence[Person]:
        """What everybody was at one moment or another, once each."""
        return list({id(person): person for people in self.history for person in people.values()}.values())

    def _changed(self, person: Person, changed: Changed) -> Person:
        what, _, value = changed.what.partition(":")
        owner, now = changed.whom, self._ground.clock.now()
        match what:
            case "follow" if owner not in person.follows:
                return replace(person, follows={**person.follows, owner: now})
            case "unfollow":
                rest = {other: since for other, since in person.follows.items() if other != owner}
                return replace(person, follows=rest)
            case "mute" if owner in person.follows:
                return replace(person, muted=person.muted | {owner})
            case "unmute" if owner in person.muted:
                return replace(person, muted=person.muted - {owner}, follows={**person.follows, owner: now})
            case "volume":
                return _heard_again(person, replace(person, volume={**person.volume, owner: value}), now)
            case "overall":
                return _heard_again(person, replace(person, overall=value), now)
            case "alerts":
                return replace(person, alerts=value == "on", asked=value == "on")
        return AT_ONCE[what](person, changed) if what in AT_ONCE else person

    def _part(self, blocker: str, blocked: str, *, blocks: bool) -> None:
        """Where no indexer hears of it: both at once."""
        until = FOR_EVER if blocks else self._ground.clock.now()
        for name, other, theirs in ((blocker, blocked, False), (blocked, blocker, True)):
            person = self.base[name]
            self._set(replace(person, apart={**person.apart, (other, theirs): until}))

    def _set(self, person: Person) -> None:
        self.base = {**self.base, person.name: person}
        self.changes[person.name] += 1
        if not self._graph:
            self._tell_person(person)

    def _tell_person(self, person: Person) -> None:
        people, user = self._ground.people, UserId(person.name)
        for owner in {*person.follows, *self._followed_once(person.name)}:
            subject = Subject(Kind.MENTION, UserId(owner))
            if owner in person.follows:
                people.follow(user, subject, person.follows[owner])
            else:
                people.unfollow(user, subject)
            if owner in person.muted:
                people.mute(user, subject)
            else:
                people.unmute(user, subject, self._ground.clock.now())
        for owner, volume in person.volume.items():
            people.volume(user, Subject(Kind.MENTION, UserId(owner)), Volume(volume))
        push = True if person.asked else None if person.alerts else False
        quiet = quiet_of(f"{person.quiet[0]}-{person.quiet[1]}")
        people.arrange(user, OverallWish(volume=Volume(person.overall), push=push, quiet=quiet))
        for (other, theirs), until in person.apart.items():
            if not theirs:
                people.unblock(user, UserId(other), until)

    def _followed_once(self, name: str) -> set[str]:
        return {owner for people in (*self.history, self.base) for owner in people[name].follows}

    def _tell_sets(self) -> None:
        living = [p for p in self.base.values() if not p.deleted]
        idle = {SetKind.ACTIVE_24H: 1, SetKind.ACTIVE_7D: 7, SetKind.ACTIVE_30D: 30}
        for kind, days in idle.items():
            active = [p for p in living if p.idle < timedelta(days=days)]
            self._put(kind, None, active)
            self._ground.stays.put(
                Stay(kind=kind, until=FOREVER, shard=shard, bits=bits) for shard, bits in _by_shard(active)
            )
        self._put(SetKind.VIP, None, [p for p in living if p.vip])
        self._put(SetKind.PUSH, None, [p for p in living if p.push])
        if self._phones:
            now, people = self._ground.clock.now(), self.base.values()
            self._ground.devices.write([one for p in people for one in handsets(p, self._platforms, now)])

    def reached_by(self, platform: Platform) -> frozenset[int]:
        """Whose phone rings by it, if they have one."""
        return frozenset(p.member for p in self.base.values() if platform in kept(p.name, self._platforms))

    def _tell_subjects(self) -> None:
        living, known = [p for p in self.base.values() if not p.deleted], (*self.history, self.base)
        self._put(SetKind.NO_PUSH, None, [p for p in living if not p.alerts])
        self._put(SetKind.ASKED, None, [p for p in living if p.asked])
        for volume in ("off", "first", "digest"):
            self._put(SetKind(f"overall_{volume}"), None, [p for p in living if p.overall == volume])
        for owner in sorted({owner for people in known for p in people.values() for owner in p.follows}):
            self._tell_head(owner)
            followers = self._followers(owner)
            subject = Subject(Kind.MENTION, UserId(owner))
            self._put(SetKind.FOLLOWERS, subject, followers)
            self._put(SetKind.MUTED, subject, [p for p in followers if owner in p.muted])
            for kind in (SetKind.OFF, SetKind.FIRST, SetKind.DIGEST, SetKind.ALL):
                self._put(kind, subject, [p for p in followers if p.volume.get(owner) == str(kind)])

    def _tell_head(self, owner: str) -> None:
        """Where an indexer counts, who is claimed is in a shard of nobody: it counts those of the others."""
        followers = self._followers(owner)
        total = self.sizes.get(owner, len(followers))
        counts = [max(1, total // SHARDS)] * SHARDS
        if self._graph:
            counts = [sum(shard_of(Member(p.member)) == shard for p in followers) for shard in range(SHARDS)]
            counts += [self.sizes[owner]] if owner in self.sizes else []
            total = sum(counts)
        self._ground.sets.put_heads({Subject(Kind.MENTION, UserId(owner)): SetHead(total=total, counts=counts)})

    def _followers(self, owner: str) -> list[Person]:
        return [p for p in self.base.values() if not p.deleted and owner in p.follows]

    def _put(self, kind: SetKind, owner: Subject | None, people: list[Person]) -> None:
        for shard, bits in _by_shard(people):
            self._ground.sets.put([ShardBlob(kind=kind, owner=owner, shard=shard, bits=bits)])


def _by_shard(people: list[Person]) -> Iterator[tuple[int, Bits]]:
    for shard in range(SHARDS):
        yield shard, from_offsets([p.member % SHARD_MEMBERS for p in people if shard_of(Member(p.member)) == shard])
