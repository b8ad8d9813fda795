"""Computes from the inputs alone who must see what.

How mentions were grouped and when each burst opened depends on timing. Both are taken as observed, and only checked
for validity.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Self

from tests.support.oracle.observations import InboxMarks, Key, ObservedBurst, ShardTiers
from tests.support.oracle.retractions import RetractionUpdate, State, Tweet, state, text
from tests.support.oracle.user_state import Person

SHARD = 131_072
RETENTION = timedelta(days=90)
NAMES_KEPT = 16
FANOUTS_AT_ONCE = 6
"""Burst capacity of a budget, which regains one an hour; public and restricted bursts have a budget each."""

DIGEST_HOUR = 18
"""UTC; the simulation sets no other digest hour or time zone."""

DORMANT, SUPPRESSED, OUTSIDE = "dormant", "suppressed", "outside"
"""Places of a user who is in no tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    people: Mapping[str, Person]
    tweets: Mapping[str, Tweet]
    bursts: Mapping[Key, ObservedBurst]
    retractions: Collection[RetractionUpdate] = ()
    unsettled: Collection[tuple[str, str]] = ()
    """Pairs of a tweet and a mentioned account whose retractions may not be applied yet."""
    _states: dict[tuple[str, str], State] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Cache: the state is the same for every viewer."""

    def of(self, person: Person) -> Self:
        """Return the oracle with this version of the user."""
        return replace(self, people={**self.people, person.name: person})

    def sequencing_violations(self, accepted: Collection[str]) -> Iterator[str]:
        """Check that each mention is in one burst of each kind. A retracted one may be in none."""
        counts = Counter(
            (kind, owner, tweet) for (kind, owner, _), burst in self.bursts.items() for tweet in burst.tweets
        )
        allowed = {
            (kind, name, id) for id in accepted for name in self._accounts_mentioned(id) for kind in ("mention", "self")
        }
        needed = {(kind, owner, id) for kind, owner, id in allowed if self.state(id, owner) is not State.GONE}
        yield from (f"{tweet} is in no burst of {kind}:{owner}" for kind, owner, tweet in sorted(needed - set(counts)))
        yield from (
            f"{tweet} is in {n} bursts of {kind}:{owner}" for (kind, owner, tweet), n in counts.items() if n > 1
        )
        yield from (f"{tweet} must not be in {kind}:{owner}" for kind, owner, tweet in sorted(set(counts) - allowed))
        yield from self._shared_with_protected()

    def spacing_violations(self, window: timedelta, budgeted: Collection[str]) -> Iterator[str]:
        """Check the collapse window between public bursts of a subject, and the budget of fan-outs."""
        for kind, owner in sorted({key[:2] for key in self.bursts}):
            public = self._public(kind, owner)
            numbered = [b.opened_at for k, b in sorted(self.bursts.items()) if k[:2] == (kind, owner)]
            if any(later <= sooner for sooner, later in pairwise(numbered)):
                yield f"the times of {kind}:{owner} don't rise with the numbers"
            if any(b.opened_at - a.opened_at < window and self.public_tweets(a) for a, b in pairwise(public)):
                yield f"two bursts of {kind}:{owner} are closer than {window}"
            if kind == "mention" and owner in budgeted:
                yield from self._over_budget(owner, [b.opened_at for b in public if not b.pull_only])
                yield from self._over_budget(owner, [b.opened_at for b in self._restricted(owner) if not b.pull_only])

    def pull_only_violations(self, budgeted: Collection[str]) -> Iterator[str]:
        """Check that bursts were left to the pull path only when the budget was spent.

        Each follows at least six bursts that were fanned out. A public one would have joined the one before it,
        unless that was retracted.
        """
        for (kind, owner, n), burst in sorted(self.bursts.items()):
            if not burst.pull_only:
                continue
            same_kind = self._restricted(owner) if self._is_restricted(burst) else self._public(kind, owner)
            before = [b for b in same_kind if b.key[2] < n]
            joins = not self._is_restricted(burst) and (not before or bool(self.public_tweets(before[-1])))
            if kind != "mention" or owner not in budgeted or joins:
                yield f"{burst.key} is not fanned out although nothing prevents it"
            elif sum(not b.pull_only for b in before) < FANOUTS_AT_ONCE:
                yield f"{burst.key} is not fanned out, though the budget isn't spent"

    def list(self, name: str, marked: InboxMarks, now: datetime, *, of: Collection[Key] | None = None) -> list[Key]:
        """Return the visible bursts (of these, or of all) and digests, newest first."""
        keys = self.bursts if of is None else [key for key in of if key in self.bursts]
        visible = [key for key in keys if self.visible(self.people[name], self.bursts[key], marked, now)]
        visible += self.digests(self.people[name], marked, now)
        return sorted(visible, key=lambda k: (self.entry_of(k).opened_at, f"{k[0]}:{k[1]}", k[2]), reverse=True)

    def visible(self, person: Person, burst: ObservedBurst, marked: InboxMarks, now: datetime) -> bool:
        kind, owner, _ = burst.key
        volume = person.effective_volume(owner) if kind == "mention" else "all"
        wanted = volume == "all" or (volume == "first" and self.first_of_day(burst))
        return wanted and self._allowed(person, burst, marked, now)

    def digests(self, person: Person, marked: InboxMarks, now: datetime) -> set[Key]:
        """Return the digests of days whose digest hour has passed and that have content."""
        digested = [
            burst
            for burst in self.bursts.values()
            if burst.key[0] == "mention" and person.effective_volume(burst.key[1]) == "digest"
            if self._allowed(person, burst, marked, now)
        ]
        keys = {("digest", person.name, int(f"{_day_of(burst):%Y%m%d}")) for burst in digested}
        due = {key for key in keys if now - RETENTION < self.entry_of(key).opened_at <= now}
        return {key for key in due if marked.marks.get(key) != "hidden"}

    def entry_of(self, key: Key) -> ObservedBurst:
        """Return the observed burst, or the digest, of this key, whether or not it is visible."""
        if key[0] != "digest":
            return self.bursts[key]
        at = datetime.combine(date.fromisoformat(str(key[2])), time(DIGEST_HOUR), UTC)
        return ObservedBurst(key=key, opened_at=at, tweets=())

    def _allowed(self, person: Person, burst: ObservedBurst, marked: InboxMarks, now: datetime) -> bool:
        """Whether the user would see the burst if the volume were `all`."""
        kind, owner, _ = burst.key
        left = self.visible_tweets(burst)
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
        if not self.public_tweets(burst) and not self._follows(person, self.tweets[left[0]].author):
            return False
        names, more = self._author_names(left)
        return more or not names <= person.blocked

    def unread(self, burst: ObservedBurst, marked: InboxMarks) -> bool:
        if marked.marks.get(burst.key, "none") != "none":
            return marked.marks[burst.key] == "unread"
        return not any(burst.opened_at <= until or burst.key in newer for until, newer in marked.seen)

    def allows_alert(self, person: Person, burst: ObservedBurst, marked: InboxMarks, now: datetime) -> bool:
        """Whether an alert of the burst is allowed now, quiet hours aside."""
        if person.deleted or not person.alerts or self.silent(burst):
            return False
        opener = self.tweets[burst.tweets[0]].author
        touched = burst.key in marked.marks or not self.unread(burst, marked)
        return self.visible(person, burst, marked, now) and not touched and opener not in person.blocked

    def divide(self, burst: ObservedBurst, shard: int) -> ShardTiers:
        """Place every user of the shard, one by one."""
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
        return ShardTiers(tiers=frozen, dormant=dormant, suppressed=suppressed, push=frozenset(push))

    def place(self, person: Person, burst: ObservedBurst) -> tuple[str, bool]:
        """Return the user's tier or other place, and whether an alert may be sent."""
        if not self._may_receive(person, burst):
            return OUTSIDE, False
        if burst.key[0] == "mention" and self._suppressed(person, burst):
            return SUPPRESSED, False
        tier = "p0" if burst.key[0] == "self" else self._tier(person, burst.standard)
        return tier, person.push and person.alerts and (person.asked or tier in ("p0", "p1"))

    def first_of_day(self, burst: ObservedBurst) -> bool:
        """Whether this is the first public burst of its day; a restricted burst never is.

        If the first was retracted, the next burst to open afterwards is first, whatever had opened in between.
        """
        first: ObservedBurst | None = None
        for candidate in self._public(burst.key[0], burst.key[1]):
            today = candidate.opened_at.date() == burst.opened_at.date()
            if today and (
                first is None
                or (first.retracted_version is not None and first.retracted_version < candidate.opened_version)
            ):
                first = candidate
            if candidate.key == burst.key:
                return candidate is first
        return False

    def state(self, id: str, account: str) -> State:
        if (result := self._states.get((id, account))) is None:
            retractions = () if (id, account) in self.unsettled else self.retractions
            result = self._states[id, account] = state(self.tweets[id], account, retractions)
        return result

    def text(self, id: str) -> str:
        return text(self.tweets[id], self.retractions)

    def public_tweets(self, burst: ObservedBurst) -> Sequence[str]:
        """Return the tweets of the burst that are public."""
        return [] if self._is_restricted(burst) else self._with_state(burst, State.PUBLIC)

    def visible_tweets(self, burst: ObservedBurst) -> Sequence[str]:
        """Return the tweets of the burst that at least one user may see."""
        if self._is_restricted(burst):
            return [id for id in burst.tweets if self.state(id, burst.key[1]) is not State.GONE]
        private = self._with_state(burst, State.PRIVATE)
        return self.public_tweets(burst) or [id for id in private if self.tweets[id].author == burst.left_to]

    def silent(self, burst: ObservedBurst) -> bool:
        return burst.tweets[0] not in (
            self.visible_tweets(burst) if self._is_restricted(burst) else self.public_tweets(burst)
        )

    def restriction_violations(self) -> Iterator[str]:
        """Check to whose followers each burst is left.

        A burst whose tweets are all private and by one author is left to the followers of that author.
        """
        for key, burst in sorted(self.bursts.items()):
            hidden = {self.tweets[id].author for id in burst.tweets if id not in self.public_tweets(burst)}
            protected = hidden & {retraction.author for retraction in self.retractions if retraction.kind == "protect"}
            if burst.left_to and (
                self.public_tweets(burst) or self._is_restricted(burst) or burst.left_to not in protected
            ):
                yield f"{key} is left to the followers of {burst.left_to}"
            alone = len(hidden) == 1 and len(self._with_state(burst, State.PRIVATE)) == len(burst.tweets)
            if alone and not self._is_restricted(burst) and not burst.left_to:
                yield f"{key} is lost to the followers of {hidden}"
            if burst.opened_restricted and (len(burst.tweets) > 1 or self._with_state(burst, State.PUBLIC)):
                yield f"{key} opened as restricted, and is public"

    def _with_state(self, burst: ObservedBurst, wanted: State) -> Sequence[str]:
        return [id for id in burst.tweets if self.state(id, burst.key[1]) is wanted]

    def _is_restricted(self, burst: ObservedBurst) -> bool:
        return burst.opened_restricted or self.tweets[burst.tweets[0]].protected

    def _may_receive(self, person: Person, burst: ObservedBurst) -> bool:
        kind, owner, _ = burst.key
        allowed = person.name == owner if kind == "self" else owner in person.follows
        author = self.tweets[burst.tweets[0]].author if self._is_restricted(burst) else burst.left_to
        return allowed and (not author or author in person.follows)

    def _suppressed(self, person: Person, burst: ObservedBurst) -> bool:
        owner = burst.key[1]
        volume = person.effective_volume(owner)
        not_first = volume == "first" and not self.first_of_day(burst)
        return owner in person.muted or volume in ("off", "digest") or not_first

    def _tier(self, person: Person, standard: bool) -> str:
        if person.vip and person.idle < timedelta(days=7):
            return "p0"
        if person.idle < timedelta(days=1):
            return "p1"
        return "p2" if standard or person.idle < timedelta(days=30) else DORMANT

    def _follows(self, person: Person, author: str) -> bool:
        """A muted author is still followed."""
        return author in person.follows

    def _author_names(self, tweets: Sequence[str]) -> tuple[set[str], bool]:
        names = list(dict.fromkeys(self.tweets[id].author for id in tweets))
        return set(names[:NAMES_KEPT]), len(names) > NAMES_KEPT

    def _public(self, kind: str, owner: str) -> Sequence[ObservedBurst]:
        of_subject = [b for key, b in sorted(self.bursts.items()) if key[:2] == (kind, owner)]
        return [b for b in of_subject if not self._is_restricted(b)]

    def _restricted(self, owner: str) -> Sequence[ObservedBurst]:
        of_subject = [b for key, b in sorted(self.bursts.items()) if key[:2] == ("mention", owner)]
        return [b for b in of_subject if self._is_restricted(b)]

    def _accounts_mentioned(self, id: str) -> Iterator[str]:
        tweet = self.tweets[id]
        for name in tweet.mentioned:
            if name in self.people and not self.people[name].deleted and name != tweet.author:
                yield name

    def _shared_with_protected(self) -> Iterator[str]:
        for key, burst in self.bursts.items():
            if len(burst.tweets) > 1 and any(self.tweets[id].protected for id in burst.tweets):
                yield f"a protected author shares the burst {key}"

    def _over_budget(self, owner: str, opened: Sequence[datetime]) -> Iterator[str]:
        # Six at once plus one an hour; one more is allowed for a burst that was moved to a later time.
        for i, sooner in enumerate(opened):
            for n, later in enumerate(opened[i:], start=1):
                if n > 7 + (later - sooner) / timedelta(hours=1):
                    yield f"mention:{owner} had {n} fan-outs within {later - sooner}"
                    return


def _day_of(burst: ObservedBurst) -> date:
    """Return the date of the digest that contains the burst: after the digest hour it is the next day."""
    day = burst.opened_at.date()
    return day if burst.opened_at.hour < DIGEST_HOUR else day + timedelta(days=1)
