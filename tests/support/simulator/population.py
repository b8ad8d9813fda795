"""The simulated users: a dozen in two shards, known to system and oracle."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from notifier.domain.audience.activity import FOREVER
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, from_offsets, shard_of
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.delivery.plan import FollowerCounts
from notifier.domain.ids import Kind, Member, Platform, Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferencesPatch
from notifier.domain.users.subject_preferences import Volume
from notifier.ports.audience import ActiveSetEntry, ShardBitmap
from notifier.ports.event_log_and_dead_letters import Record
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.support.fakes.clock_and_nonces import START
from tests.support.oracle import FOR_EVER, Person
from tests.support.simulator.durable_state import DurableState
from tests.support.simulator.in_flight_changes import InFlightChanges
from tests.support.simulator.script import ONE, Changed, devices_of, platforms_of
from tests.support.simulator.user_changes import DIRECT_CHANGES, quiet_of

SINCE = START - timedelta(days=30)
THRESHOLD = 1_000
SIZES = {"nova": 100_000_000, "lyra": 50_000}
"""Claimed sizes. nova's slices are one shard wide and she has a budget; lyra's are wide; all other subjects are
standard."""
BUDGETED = ("nova",)
CELEBRITIES = ("nova", "lyra")
SHARDS = 2
AUTHORS = ("ada", "bob", "eve")
VIEWERS = ("kim", "lee", "max", "pat", "quinn", "roy", "nova", "eve")
BLOCKERS_OF_BOB = ("max", "roy")
"""max gets rows only; roy also gets alerts."""
ASKED = ("max", "quinn")
"""Asked for alerts: max gets rows late, quinn gets none. Neither has a device until a later change."""
CROWD_AT = 3 * 1024


def initial_people(crowd: int, *, phones: bool = True) -> dict[str, Person]:
    """Return everyone: celebrities, authors, viewers of every tier, a deleted account and the crowd.

    Some have phones, unless phones are registered during the run.
    """
    hours = {"kim": 1, "lee": 2, "max": 100, "pat": 20 * 24, "quinn": 60 * 24, "roy": 100, "eve": 1}
    members = {"ada": 10, "bob": 11, "kim": 12, "lee": 13, "pat": 14, "gone": 15, "orion": 7, "roy": 1_040}
    members |= {"lyra": 131_077, "eve": 131_090, "quinn": 131_100, "max": 140_000, "nova": 200_000}
    follows = {
        "nova": ("kim", "lee", "max", "pat", "quinn", "roy", "eve"),
        "lyra": ("lee", "quinn", "roy"),
        "orion": ("kim", "max", "pat"),
        "eve": ("kim", "max", "nova"),
    }
    people = {
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
    return {**people, "bob": replace(people["bob"], apart=of_bob), **_crowded(crowd)}


def _crowded(crowd: int) -> dict[str, Person]:
    return {
        f"c{i}": Person(name=f"c{i}", member=CROWD_AT + i, follows={"nova": SINCE}, idle=timedelta(hours=3))
        for i in range(crowd)
    }


def _with_restarted_follows(before: Person, after: Person, now: datetime) -> Person:
    """Restart the follow where the change ends a silence or begins a digest.

    Bursts from before the end of a silence do not come back. A digest never repeats what was listed individually.
    """
    ended_silences = {owner for owner in after.follows if _silent(before, owner) and not _silent(after, owner)}
    new_digests = {
        owner for owner in after.follows if before.effective_volume(owner) != after.effective_volume(owner) == "digest"
    }
    restarted = ended_silences | new_digests
    return replace(
        after, follows={owner: now if owner in restarted else since for owner, since in after.follows.items()}
    )


def _silent(person: Person, owner: str) -> bool:
    return person.effective_volume(owner) in ("off", "digest")


class Population:
    def __init__(
        self,
        state: DurableState,
        crowd: int,
        platforms: Collection[Platform] = ONE,
        *,
        graph: bool = False,
        phones: bool = True,
    ) -> None:
        self.base = initial_people(crowd, phones=phones)
        """State without the updates that are carried by the log."""
        self.people = self.base
        self.history = [self.people]
        """The population at each moment so far."""
        self.changes: Counter[str] = Counter()
        self.sizes = dict(SIZES)
        self.claimed = {owner: [n] for owner, n in SIZES.items()}
        """Every size that was ever claimed for an account."""
        self.in_flight_changes = InFlightChanges(state)
        self._state = state
        self._graph, self._phones, self._platforms = graph, phones, platforms
        state.directory.enrol(
            [
                DirectoryEntry(user=UserId(p.name), member=Member(p.member), deleted=p.deleted)
                for p in self.people.values()
            ]
        )
        self._write_sets()
        self._write_subjects()
        for person in self.people.values():
            self._write_person(person)
        state.log.on_change = self._note_record

    def change(self, changed: Changed) -> None:
        self._set(self._changed(self.base[changed.person], changed))
        is_block = changed.what in ("block", "unblock")
        if is_block:
            self._block(changed.person, changed.whom, blocks=changed.what == "block")
        self._write_sets()
        if not self._graph:
            self._write_subjects()
        self._update_people(changed.person, *([changed.whom] if is_block else ()))

    def resize(self, account: str, followers: int) -> None:
        """Change the claimed size. The subject may change its lane; its followers stay as they are."""
        self.sizes[account] = followers
        self.claimed.setdefault(account, []).append(followers)
        self._write_follower_counts(account)

    def note_visit(self, name: str) -> None:
        """Note that the user opened the inbox.

        The roll-up, not this class, writes the user into the active sets.
        """
        if self.base[name].idle:
            self.in_flight_changes.note_visit(self.base[name])
            self.base = {**self.base, name: replace(self.base[name], idle=timedelta(0))}
            self._update_people(name)

    def possible_states(self) -> Mapping[str, Sequence[Person]]:
        """Return every state that rows and sets may have now, with changes in flight applied or not."""
        return {name: self.possible_states_of(name) for name in self.base}

    def possible_states_of(self, name: str) -> Sequence[Person]:
        return self.in_flight_changes.possible_states(self.base[name])

    def _note_record(self, partition: str, offset: int, record: Record) -> None:
        for person in self.in_flight_changes.note(partition, offset, record):
            self.changes[person] += 1
            self._update_people(person)

    def _update_people(self, *names: str) -> None:
        """Update these users only.

        All others stay the same objects, so each is checked once; unknown names are skipped.
        """
        current = {name: self.in_flight_changes.current(self.base[name]) for name in names if name in self.base}
        self.people = {**self.people, **current}
        self.history.append(self.people)

    def all_states(self) -> Sequence[Person]:
        """Return each state that any user ever had, once."""
        return list({id(person): person for people in self.history for person in people.values()}.values())

    def _changed(self, person: Person, changed: Changed) -> Person:
        kind, _, value = changed.what.partition(":")
        owner, now = changed.whom, self._state.clock.now()
        match kind:
            case "follow" if owner not in person.follows:
                return replace(person, follows={**person.follows, owner: now})
            case "unfollow":
                remaining = {account: since for account, since in person.follows.items() if account != owner}
                return replace(person, follows=remaining)
            case "mute" if owner in person.follows:
                return replace(person, muted=person.muted | {owner})
            case "unmute" if owner in person.muted:
                return replace(person, muted=person.muted - {owner}, follows={**person.follows, owner: now})
            case "volume":
                return _with_restarted_follows(person, replace(person, volume={**person.volume, owner: value}), now)
            case "overall":
                return _with_restarted_follows(person, replace(person, overall=value), now)
            case "alerts":
                return replace(person, alerts=value == "on", asked=value == "on")
        return DIRECT_CHANGES[kind](person, changed) if kind in DIRECT_CHANGES else person

    def _block(self, blocker: str, blocked: str, *, blocks: bool) -> None:
        """Set both sides of the block at once, as without an indexer."""
        until = FOR_EVER if blocks else self._state.clock.now()
        for name, peer, peer_blocks in ((blocker, blocked, False), (blocked, blocker, True)):
            person = self.base[name]
            self._set(replace(person, apart={**person.apart, (peer, peer_blocks): until}))

    def _set(self, person: Person) -> None:
        self.base = {**self.base, person.name: person}
        self.changes[person.name] += 1
        if not self._graph:
            self._write_person(person)

    def _write_person(self, person: Person) -> None:
        people, user = self._state.people, UserId(person.name)
        for owner in {*person.follows, *self._ever_followed(person.name)}:
            subject = Subject(Kind.MENTION, UserId(owner))
            if owner in person.follows:
                people.follow(user, subject, person.follows[owner])
            else:
                people.unfollow(user, subject)
            if owner in person.muted:
                people.mute(user, subject)
            else:
                people.unmute(user, subject, self._state.clock.now())
        for owner, volume in person.volume.items():
            people.volume(user, Subject(Kind.MENTION, UserId(owner)), Volume(volume))
        push = True if person.asked else None if person.alerts else False
        quiet = quiet_of(f"{person.quiet[0]}-{person.quiet[1]}")
        people.patch_account(user, AccountPreferencesPatch(volume=Volume(person.overall), push=push, quiet=quiet))
        for (peer, peer_blocks), until in person.apart.items():
            if not peer_blocks:
                people.unblock(user, UserId(peer), until)

    def _ever_followed(self, name: str) -> set[str]:
        return {owner for people in (*self.history, self.base) for owner in people[name].follows}

    def _write_sets(self) -> None:
        living = [p for p in self.base.values() if not p.deleted]
        idle = {SetKind.ACTIVE_24H: 1, SetKind.ACTIVE_7D: 7, SetKind.ACTIVE_30D: 30}
        for kind, days in idle.items():
            active = [p for p in living if p.idle < timedelta(days=days)]
            self._put(kind, None, active)
            self._state.active_sets.put(
                ActiveSetEntry(kind=kind, last_hour=FOREVER, shard=shard, bits=bits)
                for shard, bits in _by_shard(active)
            )
        self._put(SetKind.VIP, None, [p for p in living if p.vip])
        self._put(SetKind.WITH_DEVICE, None, [p for p in living if p.push])
        if self._phones:
            now, people = self._state.clock.now(), self.base.values()
            self._state.devices.write([device for p in people for device in devices_of(p, self._platforms, now)])

    def members_with(self, platform: Platform) -> frozenset[int]:
        """Members who would have a device of this platform."""
        return frozenset(p.member for p in self.base.values() if platform in platforms_of(p.name, self._platforms))

    def _write_subjects(self) -> None:
        living, known = [p for p in self.base.values() if not p.deleted], (*self.history, self.base)
        self._put(SetKind.NO_PUSH, None, [p for p in living if not p.alerts])
        self._put(SetKind.PUSH_OPT_IN, None, [p for p in living if p.asked])
        for volume in ("off", "first", "digest"):
            self._put(SetKind(f"overall_{volume}"), None, [p for p in living if p.overall == volume])
        for owner in sorted({owner for people in known for p in people.values() for owner in p.follows}):
            self._write_follower_counts(owner)
            followers = self._followers(owner)
            subject = Subject(Kind.MENTION, UserId(owner))
            self._put(SetKind.FOLLOWERS, subject, followers)
            self._put(SetKind.MUTED, subject, [p for p in followers if owner in p.muted])
            for kind in (SetKind.OFF, SetKind.FIRST, SetKind.DIGEST, SetKind.ALL):
                self._put(kind, subject, [p for p in followers if p.volume.get(owner) == str(kind)])

    def _write_follower_counts(self, owner: str) -> None:
        """Write the size of a subject.

        With an indexer, the claimed followers are added as a shard without members; it counts the real ones itself.
        """
        followers = self._followers(owner)
        total = self.sizes.get(owner, len(followers))
        counts = [max(1, total // SHARDS)] * SHARDS
        if self._graph:
            counts = [sum(shard_of(Member(p.member)) == shard for p in followers) for shard in range(SHARDS)]
            counts += [self.sizes[owner]] if owner in self.sizes else []
            total = sum(counts)
        self._state.sets.put_follower_counts(
            {Subject(Kind.MENTION, UserId(owner)): FollowerCounts(total=total, by_shard=counts)}
        )

    def _followers(self, owner: str) -> list[Person]:
        return [p for p in self.base.values() if not p.deleted and owner in p.follows]

    def _put(self, kind: SetKind, owner: Subject | None, people: list[Person]) -> None:
        for shard, bits in _by_shard(people):
            self._state.sets.put([ShardBitmap(kind=kind, owner=owner, shard=shard, bits=bits)])


def _by_shard(people: list[Person]) -> Iterator[tuple[int, Bits]]:
    for shard in range(SHARDS):
        yield shard, from_offsets([p.member % SHARD_MEMBERS for p in people if shard_of(Member(p.member)) == shard])
