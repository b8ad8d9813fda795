"""The router: one event becomes one mention for each account it names, in the lane that the account's size asks for."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier import topics
from notifier.codec import pack, unpack
from notifier.config import HYSTERESIS
from notifier.domain.errors import CacheUnavailable, Poison
from notifier.domain.mention import Event, Mention
from notifier.domain.reach import MentionsAllowed, RateCap, Refusal, Verdict, verdict
from notifier.domain.subject import Kind, Lane, Subject, UserId
from notifier.ports.bursts import Bursts, Outcome
from notifier.ports.cache import Buckets
from notifier.ports.clock import Clock
from notifier.ports.directory import Account, Directory
from notifier.ports.heads import Heads
from notifier.ports.log import EventLog, Logged, Record
from notifier.ports.sets import MemberSets
from notifier.telemetry import Metrics

SIZES_KEPT_FOR = timedelta(minutes=5)
SIZES_KEPT = 150_000
"""Accounts: as many as 500 mentions a second name in five minutes, each a different one. What goes before its time is
read again."""


@dataclass(slots=True)
class Sizes:
    """Follower counts and lanes, read at most every five minutes an account; bounded, for a process that never ends."""

    sets: MemberSets
    heads: Heads
    clock: Clock
    threshold: int
    kept: int = SIZES_KEPT
    kept_for: timedelta = SIZES_KEPT_FOR
    _known: dict[Subject, tuple[int, Lane, datetime]] = field(default_factory=dict)

    def __call__(self, subject: Subject) -> tuple[int, Lane]:
        now = self.clock.now()
        before = self._known.get(subject)
        if before is None or now >= before[2]:
            total = self.sets.head(subject).total
            lane = self._lane(subject, total, was=before[1] if before else Lane.STANDARD)
            before = (total, lane, now + self.kept_for)
        # To the end: the first is always the one that was asked for longest ago.
        self._known.pop(subject, None)
        self._known[subject] = before
        if len(self._known) > self.kept:
            del self._known[next(iter(self._known))]
        return before[0], before[1]

    def _lane(self, subject: Subject, total: int, *, was: Lane) -> Lane:
        """Between the two lines of the hysteresis the lane stays what it was, by the last burst that opened: that is
        known to all routers, and to one that has started again. A lane is no promise: where two routers differ for a
        moment both lanes' mentions meet at the subject's head."""
        if lane_of(total, self.threshold, was=Lane.CELEBRITY) is lane_of(total, self.threshold, was=Lane.STANDARD):
            return lane_of(total, self.threshold, was=was)
        # Fails open: a head that can't be read must not keep the mention from its subject.
        with suppress(Poison):
            last = self.heads.load([subject])[subject].open
            was = last.lane if last else was
        return lane_of(total, self.threshold, was=was)


def lane_of(followers: int, threshold: int, *, was: Lane) -> Lane:
    line = threshold * HYSTERESIS if was is Lane.CELEBRITY else threshold
    return Lane.CELEBRITY if followers >= line else Lane.STANDARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    log: EventLog
    directory: Directory
    bursts: Bursts
    buckets: Buckets
    sizes: Sizes
    metrics: Metrics
    cap: RateCap = field(default_factory=RateCap)

    def __call__(self, records: Sequence[Logged]) -> None:
        """All mentions of the records are in the log, and all refusals in the store, when it returns.

        A crash before the commit sends them again; the coordinator knows mentions by their event, so twice is once.
        """
        events = [unpack(Event, logged.record.value) for logged in records]
        names = {name for event in events for name in (event.author, *event.mentioned)}
        accounts = self.directory.accounts(names)
        parts = [part for event in events for part in self._parts(event, accounts)]
        mentions = [part for part in parts if isinstance(part, Mention)]
        refused = [part for part in parts if isinstance(part, Outcome)]
        if refused:
            self.bursts.refuse(refused)
        self.log.append([_record(mention) for mention in mentions])
        self._count(mentions, refused)

    def _parts(self, event: Event, accounts: Mapping[UserId, Account]) -> Iterator[Mention | Outcome]:
        for name in event.mentioned:
            why = refusal(event, accounts.get(name), accounts.get(event.author))
            if why is not None:
                yield Outcome(event=event.id, account=name, burst=None, refusal=why)
            if why not in TOLD_ALL_THE_SAME:
                continue
            yield Mention.of(event, Subject(Kind.SELF, name), Verdict.ALL, lane=Lane.STANDARD, followers=1)
            if why is None:
                followers, lane = self.sizes(Subject(Kind.MENTION, name))
                reach = self._verdict(accounts.get(event.author), event.author, lane)
                yield Mention.of(event, Subject(Kind.MENTION, name), reach, lane=lane, followers=followers)

    def _verdict(self, author: Account | None, name: UserId, lane: Lane) -> Verdict:
        standing = author.standing if author else Verdict.ALL
        if lane is Lane.STANDARD:
            return standing
        try:
            within = self.buckets.take(f"reach:{name}", self.cap.capacity, self.cap.refill)
        except CacheUnavailable:  # fails open: the subject's budget of fan-outs still bounds what one @ can cost
            within = True
        return verdict(standing, within)

    def _count(self, mentions: Collection[Mention], refused: Collection[Outcome]) -> None:
        for mention in mentions:
            self.metrics.mentions.labels(mention.lane, mention.verdict).inc()
        for outcome in refused:
            self.metrics.refusals.labels(outcome.refusal).inc()


TOLD_ALL_THE_SAME = (None, Refusal.NOT_WANTED)
"""The account itself gets its mention."""

BARRED = {Verdict.DENY: Refusal.DENIED, Verdict.HOLD: Refusal.HELD}


def refusal(event: Event, account: Account | None, author: Account | None) -> Refusal | None:
    """Why the account's followers get no mention; after NOT_WANTED the account itself still does."""
    if account is None:
        return Refusal.UNKNOWN_ACCOUNT
    if account.deleted:
        return Refusal.DELETED_ACCOUNT
    if account.user == event.author:
        return Refusal.SELF_MENTION
    if author is not None and author.standing in BARRED:
        return BARRED[author.standing]
    return Refusal.NOT_WANTED if account.mentions is MentionsAllowed.NONE else None


def _record(mention: Mention) -> Record:
    return Record(stream=topics.LANE_STREAM[mention.lane], key=topics.lane_key(mention.subject), value=pack(mention))
