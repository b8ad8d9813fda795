"""Router: splits each event into one mention per named account and selects its lane."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from notifier import topics
from notifier.codec import pack, unpack
from notifier.config import HYSTERESIS
from notifier.domain.bursts.held_mention import HeldMention
from notifier.domain.bursts.mention import Arrival, Mention
from notifier.domain.bursts.moderation import AUTHOR_LIMIT, MentionRefusal, Verdict
from notifier.domain.errors import CacheUnavailable, Poison
from notifier.domain.ids import Kind, Lane, Subject, UserId
from notifier.domain.token_bucket import BucketLimit
from notifier.flow.intake.moderation import ModerationFacts, ModerationLookup
from notifier.flow.sequencing.erasure import Erasure
from notifier.metrics import Metrics
from notifier.ports.audience import MemberSets
from notifier.ports.bursts import Bursts, Heads, MentionOutcome
from notifier.ports.cache import TokenBuckets
from notifier.ports.coordination import Clock
from notifier.ports.event_log import EventLog, Logged, Record
from notifier.ports.retractions import HeldMentions

COUNTS_TTL = timedelta(minutes=5)
MAX_CACHED_COUNTS = 150_000
"""Cached accounts: as many as 500 mentions a second name in five minutes if all differ. An entry evicted early is read
again."""


@dataclass(slots=True)
class FollowerCountCache:
    """Follower counts and lanes, each read at most every five minutes. The cache is bounded."""

    sets: MemberSets
    heads: Heads
    clock: Clock
    threshold: int
    max_entries: int = MAX_CACHED_COUNTS
    ttl: timedelta = COUNTS_TTL
    _known: dict[Subject, tuple[int, Lane, datetime]] = field(default_factory=dict)

    def __call__(self, subject: Subject) -> tuple[int, Lane]:
        now = self.clock.now()
        before = self._known.get(subject)
        if before is None or now >= before[2]:
            total = self.sets.follower_counts(subject).total
            lane = lane_with_hysteresis(
                self.heads, subject, total, self.threshold, current=before[1] if before else Lane.STANDARD
            )
            before = (total, lane, now + self.ttl)
        # Move to the end: the first entry is always the least recently used.
        self._known.pop(subject, None)
        self._known[subject] = before
        if len(self._known) > self.max_entries:
            del self._known[next(iter(self._known))]
        return before[0], before[1]


def lane_with_hysteresis(
    heads: Heads, subject: Subject, followers: int, threshold: int, *, current: Lane = Lane.STANDARD
) -> Lane:
    """Return the lane for a follower count, with hysteresis.

    Between the two thresholds the lane stays that of the last burst, which all routers can read, also after a restart.
    A lane is only a hint: if two routers disagree for a moment, mentions of both lanes meet at the subject's head.
    """
    if lane_of(followers, threshold, current=Lane.CELEBRITY) is lane_of(followers, threshold, current=Lane.STANDARD):
        return lane_of(followers, threshold, current=current)
    # Fails open: an unreadable head must not block the mention.
    with suppress(Poison):
        last = heads.load([subject])[subject].open
        current = last.lane if last else current
    return lane_of(followers, threshold, current=current)


def lane_of(followers: int, threshold: int, *, current: Lane) -> Lane:
    line = threshold * HYSTERESIS if current is Lane.CELEBRITY else threshold
    return Lane.CELEBRITY if followers >= line else Lane.STANDARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    log: EventLog
    moderation: ModerationLookup
    held_mentions: HeldMentions
    erasure: Erasure
    bursts: Bursts
    token_buckets: TokenBuckets
    follower_counts: FollowerCountCache
    metrics: Metrics
    cap: BucketLimit = AUTHOR_LIMIT

    def __call__(self, records: Sequence[Logged]) -> None:
        """Append all mentions of the records to the log, and store all refusals and held mentions.

        A crash before the commit repeats the records; the coordinator recognizes mentions by event, so this is
        idempotent. A repeated event that is held or decided stays so, even if its author's limit has been lifted:
        a repeat never overrides a decision.
        """
        events = [unpack(Arrival, logged.record.value) for logged in records]
        known = self.moderation(events)
        routed = [(event, list(self._parts(event, known))) for event in events]
        mentions = [part for _, parts in routed for part in parts if isinstance(part, Mention)]
        refused = [part for _, parts in routed for part in parts if isinstance(part, MentionOutcome)]
        new = [(event, parts) for event, parts in routed if event.id not in known.held_mentions]
        if held := [hold for event, parts in new if (hold := _held_mention(event, parts))]:
            self.held_mentions.put(held)
            self.erasure.erase_held(held)
        if refusals := [outcome for outcome in refused if outcome.refusal is not MentionRefusal.HELD]:
            self.bursts.record_refusals(refusals)
        self.log.append([_record(mention) for mention in mentions])
        self._count(mentions, refused)

    def _parts(self, event: Arrival, known: ModerationFacts) -> Iterator[Mention | MentionOutcome]:
        for name in event.mentioned:
            subject = Subject(Kind.MENTION, name)
            within_cap = partial(self._within_cap, event.author, subject)
            reach = known.verdict(event, name, within_cap, released=event.released)
            if isinstance(reach, MentionRefusal):
                yield MentionOutcome(event=event.id, account=name, burst=None, refusal=reach)
            if reach is MentionRefusal.NOT_WANTED or isinstance(reach, Verdict):  # the account itself gets its mention
                own = known.verdict_for_account(event, released=event.released)
                yield Mention.from_event(event, Subject(Kind.SELF, name), own, lane=Lane.STANDARD, followers=1)
            if isinstance(reach, Verdict):
                followers, lane = self.follower_counts(subject)
                yield Mention.from_event(event, subject, reach, lane=lane, followers=followers)

    def _within_cap(self, author: UserId, subject: Subject) -> bool:
        _, lane = self.follower_counts(subject)
        if lane is Lane.STANDARD:
            return True
        try:
            return self.token_buckets.take(f"reach:{author}", self.cap)
        except CacheUnavailable:  # fails open: the subject's fan-out budget still limits the cost of a mention
            return True

    def _count(self, mentions: Collection[Mention], refused: Collection[MentionOutcome]) -> None:
        for mention in mentions:
            self.metrics.mentions.labels(mention.lane, mention.verdict).inc()
        for outcome in refused:
            self.metrics.refusals.labels(outcome.refusal).inc()


def _held_mention(event: Arrival, parts: Collection[Mention | MentionOutcome]) -> HeldMention | None:
    """Return a held mention for all accounts for which the event is held; None if there are none."""
    waiting = [
        part.account for part in parts if isinstance(part, MentionOutcome) and part.refusal is MentionRefusal.HELD
    ]
    return HeldMention.from_event(event.upstream_event, tuple(waiting)) if waiting else None


def _record(mention: Mention) -> Record:
    return Record(stream=topics.LANE_STREAM[mention.lane], key=topics.lane_key(mention.subject), value=pack(mention))
