"""Who must see what, from the inputs alone, by loops over people.

How mentions were grouped, and when each group opened, depends on when they were sequenced: that much is taken as
observed, and checked for what it may be.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Self

from tests.support.oracle.observations import Division, Key, Marked, Seen
from tests.support.oracle.person import Person
from tests.support.oracle.retractions import State, Tweet, Withdrawn, state, text

SHARD = 131_072
RETENTION = timedelta(days=90)
NAMES_KEPT = 16
FANOUTS_AT_ONCE = 6
"""Of a large subject; and one more an hour. Public ones and restricted ones each."""

DIGEST_HOUR = 18
"""By UTC: here nobody says another hour, or a zone."""

DORMANT, SUPPRESSED, OUTSIDE = "dormant", "suppressed", "outside"
"""Where somebody is who is in no tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    people: Mapping[str, Person]
    tweets: Mapping[str, Tweet]
    bursts: Mapping[Key, Seen]
    words: Collection[Withdrawn] = ()
    unsettled: Collection[tuple[str, str]] = ()
    """Tweets and whom they mention, where it goes on as if nothing was said."""
    _states: dict[tuple[str, str], State] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Asked for of everybody, and the same for all."""

    def of(self, person: Person) -> Self:
        """The same with another person of the name."""
        return replace(self, people={**self.people, person.name: person})

    def sequencing(self, accepted: Collection[str]) -> Iterator[str]:
        """What is wrong with the grouping: every accepted tweet's every account in exactly one burst of each kind."""
        found = Counter((kind, owner, tweet) for (kind, owner, _), b in self.bursts.items() for tweet in b.tweets)
        wanted = {(kind, name, id) for id in accepted for name in self._reached(id) for kind in ("mention", "self")}
        needed = {(kind, owner, id) for kind, owner, id in wanted if self.state(id, owner) is not State.GONE}
        yield from (f"{tweet} is in no burst of {kind}:{owner}" for kind, owner, tweet in sorted(needed - set(found)))
        yield from (f"{tweet} is in {n} bursts of {kind}:{owner}" for (kind, owner, tweet), n in found.items() if n > 1)
        yield from (f"{tweet} has no business in {kind}:{owner}" for kind, owner, tweet in sorted(set(found) - wanted))
        yield from self._lonely()

    def spacing(self, window: timedelta, budgeted: Collection[str]) -> Iterator[str]:
        """Public bursts of a subject closer than the collapse window, or more fan-outs than one of its budgets has."""
        for kind, owner in sorted({key[:2] for key in self.bursts}):
            public = self._public(kind, owner)
            numbered = [b.opened_at for k, b in sorted(self.bursts.items()) if k[:2] == (kind, owner)]
            if any(later <= sooner for sooner, later in pairwise(numbered)):
                yield f"the times of {kind}:{owner} don't rise with the numbers"
            if any(b.opened_at - a.opened_at < window and self.shared(a) for a, b in pairwise(public)):
                yield f"two bursts of {kind}:{owner} are closer than {window}"
            if kind == "mention" and owner in budgeted:
                yield from self._overspent(owner, [b.opened_at for b in public if not b.spared])
                yield from self._overspent(owner, [b.opened_at for b in self._restricted(owner) if not b.spared])

    def sparing(self, budgeted: Collection[str]) -> Iterator[str]:
        """Bursts that were kept from being fanned out without need: each follows six that were, at the least. A public
        one would have joined the one before it, unless that was taken back."""
        for (kind, owner, n), burst in sorted(self.bursts.items()):
            if not burst.spared:
                continue
            of_its_kind = self._restricted(owner) if self._secret(burst) else self._public(kind, owner)
            before = [b for b in of_its_kind if b.key[2] < n]
            joins = not self._secret(burst) and (not before or bool(self.shared(before[-1])))
            if kind != "mention" or owner not in budgeted or joins:
                yield f"{burst.key} is not fanned out, and has every right to be"
            elif sum(not b.spared for b in before) < FANOUTS_AT_ONCE:
                yield f"{burst.key} is not fanned out, though the budget isn't spent"

    def list(self, name: str, marked: Marked, now: datetime, *, of: Collection[Key] | None = None) -> list[Key]:
        """What the person sees of these bursts, or of all, and of digests; newest first."""
        keys = self.bursts if of is None else [key for key in of if key in self.bursts]
        visible = [key for key in keys if self.visible(self.people[name], self.bursts[key], marked, now)]
        visible += self.digests(self.people[name], marked, now)
        return sorted(visible, key=lambda k: (self.placed(k).opened_at, f"{k[0]}:{k[1]}", k[2]), reverse=True)

    def visible(self, person: Person, burst: Seen, marked: Marked, now: datetime) -> bool:
        kind, owner, _ = burst.key
        volume = person.wanted_of(owner) if kind == "mention" else "all"
        wanted = volume == "all" or (volume == "first" and self.first_of_day(burst))
        return wanted and self._allowed(person, burst, marked, now)

    def digests(self, person: Person, marked: Marked, now: datetime) -> set[Key]:
        """A day's is there from its hour on, while it tells of anything."""
        told = [
            burst
            for burst in self.bursts.values()
            if burst.key[0] == "mention" and person.wanted_of(burst.key[1]) == "digest"
            if self._allowed(person, burst, marked, now)
        ]
        keys = {("digest", person.name, int(f"{_day_of(burst):%Y%m%d}")) for burst in told}
        due = {key for key in keys if now - RETENTION < self.placed(key).opened_at <= now}
        return {key for key in due if marked.marks.get(key) != "hidden"}

    def placed(self, key: Key) -> Seen:
        """What stands in a list under this key, whether or not somebody sees it."""
        if key[0] != "digest":
            return self.bursts[key]
        at = datetime.combine(date.fromisoformat(str(key[2])), time(DIGEST_HOUR), UTC)
        return Seen(key=key, opened_at=at, tweets=())

    def _allowed(self, person: Person, burst: Seen, marked: Marked, now: datetime) -> bool:
        """Whether the person would see it, if all of its account were wanted."""
        kind, owner, _ = burst.key
        left = self.left(burst)
        if not left or burst.opened_at + RETENTION <= now or marked.marks.get(burst.key) == "hidden":
            return False
        if kind == "self" and owner != person.name:
            return False
        if kind == "mention" and (owner not in person.follows or owner in person.muted):
            return False
        if kind == "mention" and owner in person.blocked:
            return False
        if kind == "mention" and burst.opened_at < person.wants_since(owner):
            return False
        if not self.shared(burst) and not self._follows(person, self.tweets[left[0]].author):
            return False
        names, more = self._names(left)
        return more or not names <= person.blocked

    def unread(self, burst: Seen, marked: Marked) -> bool:
        if marked.marks.get(burst.key, "none") != "none":
            return marked.marks[burst.key] == "unread"
        return not any(burst.opened_at <= until or burst.key in newer for until, newer in marked.seen)

    def rings(self, person: Person, burst: Seen, marked: Marked, now: datetime) -> bool:
        """Whether the phone may ring: it is in a list, nothing was done with it, its opener isn't blocked, and the
        tweet that it opened with stands as it was."""
        if person.deleted or not person.alerts or self.silent(burst):
            return False
        opener = self.tweets[burst.tweets[0]].author
        touched = burst.key in marked.marks or not self.unread(burst, marked)
        return self.visible(person, burst, marked, now) and not touched and opener not in person.blocked

    def divide(self, burst: Seen, shard: int) -> Division:
        """Everybody of the shard, one after another."""
        tiers: dict[str, set[int]] = {"p0": set(), "p1": set(), "p2": set()}
        dormant = suppressed = 0
        push: set[int] = set()
        for person in self.people.values():
            if person.member // SHARD != shard:
                continue
            place, alerted = self.place(person, burst)
            dormant += place == DORMANT
            suppressed += place == SUPPRESSED
            if place in tiers:
                tiers[place].add(person.member)
            if alerted:
                push.add(person.member)
        frozen = {tier: frozenset(members) for tier, members in tiers.items()}
        return Division(tiers=frozen, dormant=dormant, suppressed=suppressed, push=frozenset(push))

    def place(self, person: Person, burst: Seen) -> tuple[str, bool]:
        """Where the burst finds the person, and whether the phone is one of those that may ring."""
        if not self._entitled(person, burst):
            return OUTSIDE, False
        if burst.key[0] == "mention" and self._suppressed(person, burst):
            return SUPPRESSED, False
        tier = "p0" if burst.key[0] == "self" else self._tier(person, burst.standard)
        return tier, person.push and person.alerts and (person.asked or tier in ("p0", "p1"))

    def first_of_day(self, burst: Seen) -> bool:
        """The first public one of its day; a protected author's is never it.

        Where the first was taken back, it is the next one to open, whatever else had opened before.
        """
        first: Seen | None = None
        for one in self._public(burst.key[0], burst.key[1]):
            today = one.opened_at.date() == burst.opened_at.date()
            if today and (first is None or (first.gone is not None and first.gone < one.opened)):
                first = one
            if one.key == burst.key:
                return one is first
        return False

    def state(self, id: str, account: str) -> State:
        if (found := self._states.get((id, account))) is None:
            words = () if (id, account) in self.unsettled else self.words
            found = self._states[id, account] = state(self.tweets[id], account, words)
        return found

    def text(self, id: str) -> str:
        return text(self.tweets[id], self.words)

    def shared(self, burst: Seen) -> Sequence[str]:
        """The tweets in it that everybody may see."""
        return [] if self._secret(burst) else self._that(burst, State.PUBLIC)

    def left(self, burst: Seen) -> Sequence[str]:
        """The tweets in it that somebody may see."""
        if self._secret(burst):
            return [id for id in burst.tweets if self.state(id, burst.key[1]) is not State.GONE]
        private = self._that(burst, State.PRIVATE)
        return self.shared(burst) or [id for id in private if self.tweets[id].author == burst.left_to]

    def silent(self, burst: Seen) -> bool:
        return burst.tweets[0] not in (self.left(burst) if self._secret(burst) else self.shared(burst))

    def leaving(self) -> Iterator[str]:
        """What is wrong with whom the bursts are left to. Who was protected before the last public mention was taken
        back may have left already; what one author alone has said, and nobody took back, is kept for the followers."""
        for key, burst in sorted(self.bursts.items()):
            hidden = {self.tweets[id].author for id in burst.tweets if id not in self.shared(burst)}
            protected = hidden & {word.author for word in self.words if word.what == "protect"}
            if burst.left_to and (self.shared(burst) or self._secret(burst) or burst.left_to not in protected):
                yield f"{key} is left to the followers of {burst.left_to}"
            alone = len(hidden) == 1 and len(self._that(burst, State.PRIVATE)) == len(burst.tweets)
            if alone and not self._secret(burst) and not burst.left_to:
                yield f"{key} is lost to the followers of {hidden}"
            if burst.secret and (len(burst.tweets) > 1 or self._that(burst, State.PUBLIC)):
                yield f"{key} opened for a few, and is for all"

    def _that(self, burst: Seen, wanted: State) -> Sequence[str]:
        return [id for id in burst.tweets if self.state(id, burst.key[1]) is wanted]

    def _secret(self, burst: Seen) -> bool:
        return burst.secret or self.tweets[burst.tweets[0]].protected

    def _entitled(self, person: Person, burst: Seen) -> bool:
        kind, owner, _ = burst.key
        allowed = person.name == owner if kind == "self" else owner in person.follows
        author = self.tweets[burst.tweets[0]].author if self._secret(burst) else burst.left_to
        return allowed and (not author or author in person.follows)

    def _suppressed(self, person: Person, burst: Seen) -> bool:
        owner = burst.key[1]
        volume = person.wanted_of(owner)
        not_first = volume == "first" and not self.first_of_day(burst)
        return owner in person.muted or volume in ("off", "digest") or not_first

    def _tier(self, person: Person, standard: bool) -> str:
        if person.vip and person.idle < timedelta(days=7):
            return "p0"
        if person.idle < timedelta(days=1):
            return "p1"
        return "p2" if standard or person.idle < timedelta(days=30) else DORMANT

    def _follows(self, person: Person, author: str) -> bool:
        """Who muted the author has not left him."""
        return author in person.follows

    def _names(self, tweets: Sequence[str]) -> tuple[set[str], bool]:
        names = list(dict.fromkeys(self.tweets[id].author for id in tweets))
        return set(names[:NAMES_KEPT]), len(names) > NAMES_KEPT

    def _public(self, kind: str, owner: str) -> Sequence[Seen]:
        found = [b for key, b in sorted(self.bursts.items()) if key[:2] == (kind, owner)]
        return [b for b in found if not self._secret(b)]

    def _restricted(self, owner: str) -> Sequence[Seen]:
        found = [b for key, b in sorted(self.bursts.items()) if key[:2] == ("mention", owner)]
        return [b for b in found if self._secret(b)]

    def _reached(self, id: str) -> Iterator[str]:
        tweet = self.tweets[id]
        for name in tweet.mentioned:
            if name in self.people and not self.people[name].deleted and name != tweet.author:
                yield name

    def _lonely(self) -> Iterator[str]:
        for key, burst in self.bursts.items():
            if len(burst.tweets) > 1 and any(self.tweets[id].protected for id in burst.tweets):
                yield f"a protected author shares the burst {key}"

    def _overspent(self, owner: str, opened: Sequence[datetime]) -> Iterator[str]:
        # Six at once and one more an hour; one beyond for a burst that was moved to a later time.
        for i, sooner in enumerate(opened):
            for n, later in enumerate(opened[i:], start=1):
                if n > 7 + (later - sooner) / timedelta(hours=1):
                    yield f"mention:{owner} had {n} fan-outs within {later - sooner}"
                    return


def _day_of(burst: Seen) -> date:
    """The date whose digest tells of it: what opens at the hour is the next one's."""
    day = burst.opened_at.date()
    return day if burst.opened_at.hour < DIGEST_HOUR else day + timedelta(days=1)
