"""Router: splits events into mentions, and selects the lane of each."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from notifier import topics
from notifier.codec import pack, unpack
from notifier.config import HYSTERESIS
from notifier.domain.bursts.events_and_mentions import LoggedEvent, Mention
from notifier.domain.bursts.held_mention import HeldMention
from notifier.domain.bursts.moderation import AUTHOR_CAP, MentionRefusal, Verdict
from notifier.domain.errors import CacheUnavailable, Poison
from notifier.domain.ids import Kind, Lane, Subject, UserId
from notifier.domain.token_bucket import BucketLimit
from notifier.flow.intake.mention_permission_and_reach import ModerationFacts, ModerationLookup
from notifier.flow.sequencing.erasure import Erasure
from notifier.metrics import Metrics
from notifier.ports.audience import MemberSets
from notifier.ports.bursts import Bursts, Heads, MentionOutcome
from notifier.ports.event_log_and_dead_letters import EventLog, Logged, Record
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.moderation_and_retractions import HeldMentions
from notifier.ports.recent_events_and_load_limits import TokenBuckets

COUNTS_TTL = timedelta(minutes=5)
"""How long a follower count is used before it is read again."""
MAX_CACHED_COUNTS = 150_000
"""Maximum number of cached accounts: 500 mentions a second name 150,000 accounts in five minutes if no account repeats.
An entry that is evicted before it expires is read again."""


class _CachedCount(NamedTuple):
    followers: int
    lane: Lane
    expires_at: datetime


@dataclass(slots=True)
class FollowerCountCache:
    """Bounded cache of follower counts and lanes."""

    sets: MemberSets
    heads: Heads
    clock: Clock
    threshold: int
    """Number of followers from which an account is a celebrity."""
    max_entries: int = MAX_CACHED_COUNTS
    ttl: timedelta = COUNTS_TTL
    _entries: dict[Subject, _CachedCount] = field(default_factory=dict)

    def __call__(self, subject: Subject) -> tuple[int, Lane]:
        now = self.clock.now()
        entry = self._entries.get(subject)
        if entry is None or now >= entry.expires_at:
            followers = self.sets.follower_counts(subject).total
            lane = lane_with_hysteresis(
                self.heads, subject, followers, self.threshold, current=entry.lane if entry else Lane.STANDARD
            )
            entry = _CachedCount(followers, lane, now + self.ttl)
        # Move the entry to the end, so that the first entry is always the least recently used.
        self._entries.pop(subject, None)
        self._entries[subject] = entry
        if len(self._entries) > self.max_entries:
            del self._entries[next(iter(self._entries))]
        return entry.followers, entry.lane


def lane_with_hysteresis(
    heads: Heads, subject: Subject, followers: int, threshold: int, *, current: Lane = Lane.STANDARD
) -> Lane:
    """Return the lane for a follower count, with hysteresis.

    A subject enters the celebrity lane at `threshold` followers, and leaves it below 90 % of `threshold`. Between these
    counts the lane is that of the subject's open burst, which every router can read, also after a restart. Without an
    open burst the lane is `current`. Two routers may choose different lanes for some minutes. That is harmless: the
    subject has only one head, which orders the mentions of both lanes.
    """
    if lane_of(followers, threshold, current=Lane.CELEBRITY) is lane_of(followers, threshold, current=Lane.STANDARD):
        return lane_of(followers, threshold, current=current)
    # Fails open: an unreadable head must not block the mention.
    with suppress(Poison):
        open_burst = heads.load([subject])[subject].open
        current = open_burst.lane if open_burst else current
    return lane_of(followers, threshold, current=current)


def lane_of(followers: int, threshold: int, *, current: Lane) -> Lane:
    min_followers = threshold * HYSTERESIS if current is Lane.CELEBRITY else threshold
    return Lane.CELEBRITY if followers >= min_followers else Lane.STANDARD


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
    author_cap: BucketLimit = AUTHOR_CAP

    def __call__(self, records: Sequence[Logged]) -> None:
        """Append the mentions of the records to the log, and store final refusals and held mentions.

        After a crash before the commit, the records are read again. That is harmless: the coordinator recognizes the
        events of repeated mentions. A repeated held event never replaces an operator's decision, even if the author's
        verdict was lifted since.
        """
        events = [unpack(LoggedEvent, logged.record.value) for logged in records]
        facts = self.moderation(events)
        routed = [(event, list(self._route(event, facts))) for event in events]
        mentions = [result for _, results in routed for result in results if isinstance(result, Mention)]
        refused = [result for _, results in routed for result in results if isinstance(result, MentionOutcome)]
        not_held_before = [(event, results) for event, results in routed if event.id not in facts.held_mentions]
        if held_mentions := [held for event, results in not_held_before if (held := _held_mention(event, results))]:
            self.held_mentions.put(held_mentions)
            self.erasure.erase_held(held_mentions)
        if final_refusals := [outcome for outcome in refused if outcome.refusal is not MentionRefusal.HELD]:
            self.bursts.record_refusals(final_refusals)
        self.log.append([_record(mention) for mention in mentions])
        self._count_in_metrics(mentions, refused)

    def _route(self, event: LoggedEvent, facts: ModerationFacts) -> Iterator[Mention | MentionOutcome]:
        """Yield for each named account a mention for its followers, or a refusal, and a mention for the account itself.

        If `decide` refuses for a reason other than NOT_WANTED, there is no mention for the account itself.
        """
        for account in event.mentioned:
            subject = Subject(Kind.MENTION, account)
            take_author_token = partial(self._take_author_token, event.author, subject)
            decision = facts.decide(event, account, take_author_token, released=event.released)
            if isinstance(decision, MentionRefusal):
                yield MentionOutcome(event=event.id, account=account, burst=None, refusal=decision)
            if decision is MentionRefusal.NOT_WANTED or isinstance(decision, Verdict):
                own_verdict = facts.verdict_for_account(event, released=event.released)
                yield Mention.from_event(
                    event, Subject(Kind.SELF, account), own_verdict, lane=Lane.STANDARD, followers=1
                )
            if isinstance(decision, Verdict):
                followers, lane = self.follower_counts(subject)
                yield Mention.from_event(event, subject, decision, lane=lane, followers=followers)

    def _take_author_token(self, author: UserId, subject: Subject) -> bool:
        """Take a token of the author's cap; return False if none is left. The standard lane needs no token."""
        _, lane = self.follower_counts(subject)
        if lane is Lane.STANDARD:
            return True
        try:
            return self.token_buckets.take(f"reach:{author}", self.author_cap)
        except CacheUnavailable:  # fails open: the subject's fan-out budget still limits the load
            return True

    def _count_in_metrics(self, mentions: Collection[Mention], refused: Collection[MentionOutcome]) -> None:
        for mention in mentions:
            self.metrics.mentions.labels(mention.lane, mention.verdict).inc()
        for outcome in refused:
            self.metrics.refusals.labels(outcome.refusal).inc()


def _held_mention(event: LoggedEvent, results: Collection[Mention | MentionOutcome]) -> HeldMention | None:
    """Return one held mention for all accounts for which the event is held; None if there are none."""
    accounts = [
        result.account
        for result in results
        if isinstance(result, MentionOutcome) and result.refusal is MentionRefusal.HELD
    ]
    return HeldMention.from_event(event.upstream_event, tuple(accounts)) if accounts else None


def _record(mention: Mention) -> Record:
    return Record(stream=topics.LANE_STREAM[mention.lane], key=topics.lane_key(mention.subject), value=pack(mention))
