"""Preview: what a mention would cause now, computed without side effects."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta

from notifier.domain.audience.snapshot import DEFAULT_PUSHED_TIERS, take_snapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier, TierRule, by_activity
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.events_and_mentions import Event, Mention
from notifier.domain.bursts.moderation import MentionRefusal, Verdict
from notifier.domain.bursts.sequencer import Head, LoggedMention, advance, after_publishing
from notifier.domain.delivery.delivery_cost_forecast import Forecast, TierForecast, speeds_by_tier
from notifier.domain.delivery.throttle_and_backpressure import RAMP, tier_limit
from notifier.domain.ids import Kind, Lane, Subject, UserId
from notifier.flow.intake.mention_permission_and_reach import ModerationFacts, ModerationLookup
from notifier.flow.intake.mention_router import lane_of
from notifier.flow.operations.audience_count import Advance, live_sets_by_shard
from notifier.flow.sequencing.burst_publishing_and_planning import plan_burst
from notifier.flow.sequencing.retracted_burst_updates import current_mentions
from notifier.ports.audience import MemberSets
from notifier.ports.bursts import Heads, RecentBursts
from notifier.ports.leases_queues_throttles_clock import Clock, Throttles
from notifier.ports.ledger_claims_deferred_bursts_scan import Ledger
from notifier.ports.moderation_and_retractions import Retractions

MAX_LISTED_AGE = timedelta(hours=1)
MAX_LISTED_BURSTS = 256
"""Maximum number of newest bursts from which the bursts to measure are chosen."""
MAX_MEASURED_BURSTS = 32
"""Maximum number of bursts from which the delivery speeds are estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPreview:
    """Effect of a mention on one named account."""

    account: UserId
    refusal: MentionRefusal | None
    """Why the account's followers would not get the mention; None if they would."""
    lane: Lane = Lane.STANDARD
    verdict: Verdict = Verdict.ALL
    followers: int = 0
    burst: Burst | None = None
    joins: bool = False
    """Whether the mention would join an open burst, and cause no fan-out of its own."""
    tiers: Mapping[Tier, TierForecast] | None = None
    """Forecast of each tier; None if there would be no fan-out."""
    dormant: int = 0
    """Number of dormant followers."""
    dormant_alerted: int = 0
    """Number of dormant followers who would get an alert."""
    suppressed: Mapping[str, int] | None = None
    """Number of suppressed followers, by the set that would suppress them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    moderation: ModerationLookup
    sets: MemberSets
    heads: Heads
    retractions: Retractions
    ledger: Ledger
    recent_bursts: RecentBursts
    throttles: Throttles
    clock: Clock
    threshold: int
    collapse_window: timedelta | None = None
    """Replaces the collapse window of every policy, if set."""
    budget_refill: timedelta | None = None
    """Replaces the refill time of every policy's fan-out budget, if set."""
    rule: TierRule = by_activity
    pushed_tiers: Collection[Tier] = DEFAULT_PUSHED_TIERS
    count_lock: AbstractContextManager[object] | None = None
    """Lock held while audiences are counted, because a count keeps a core busy. Raises Unavailable if the lock is not
    free in time."""

    def estimate(
        self, event: Event, on_start: Callable[[int], Advance] = lambda _: lambda _: None
    ) -> Sequence[AccountPreview]:
        """Return the effect on each account, in the order in which the event names them.

        For each account whose followers are counted, `on_start` gets the number of shards, and returns the callback for
        the progress. The author's cap is not checked, because a check would take a token. Whether the event is a
        duplicate is not checked either. An unreadable bitmap raises Unavailable.
        """
        facts = self.moderation([event])
        with self.count_lock or nullcontext():
            return [self._preview_account(event, account, facts, on_start) for account in event.mentioned]

    def _preview_account(
        self, event: Event, account: UserId, facts: ModerationFacts, on_start: Callable[[int], Advance]
    ) -> AccountPreview:
        decision = facts.decide(event, account, lambda: True, released=False)
        if isinstance(decision, MentionRefusal):
            return AccountPreview(account=account, refusal=decision)
        subject = Subject(Kind.MENTION, account)
        followers, head = self.sets.follower_counts(subject).total, self.heads.load([subject])[subject]
        lane = lane_of(followers, self.threshold, current=head.open.lane if head.open else Lane.STANDARD)
        [mention] = current_mentions(
            self.retractions, [Mention.from_event(event, subject, decision, lane=lane, followers=followers)]
        )
        if mention.retracted:
            return AccountPreview(account=account, refusal=MentionRefusal.RETRACTED)
        burst, joins = self._next_burst(after_publishing(head, nonce=""), mention)
        preview = AccountPreview(
            account=account, refusal=None, lane=lane, verdict=decision, followers=followers, burst=burst, joins=joins
        )
        return preview if joins or burst.pull_only else self._with_counts(preview, burst, on_start)

    def _next_burst(self, head: Head, mention: Mention) -> tuple[Burst, bool]:
        """Return the burst that the mention would get, and whether the mention would join it."""
        record = LoggedMention(partition="preview", offset=0, mention=mention)
        now = self.clock.now()
        next_head = advance(
            head,
            [record],
            sequenced_events=(),
            now=now,
            nonce="",
            collapse_override=self.collapse_window,
            refill_override=self.budget_refill,
        )
        burst = next_head.outbox[-1]
        return burst, burst.key.seq <= head.seq

    def _with_counts(self, preview: AccountPreview, burst: Burst, on_start: Callable[[int], Advance]) -> AccountPreview:
        forecast, shards = Forecast(burst), list(self._shards(burst))
        for shard, live_sets in live_sets_by_shard(
            self.sets, burst.key.subject, shards, on_start(len(shards)), burst.restricted_to
        ):
            forecast.add(take_snapshot(burst, shard, live_sets, self.rule, self.pushed_tiers))
        return replace(
            preview,
            tiers=self._tier_forecasts(forecast),
            dormant=forecast.dormant,
            dormant_alerted=forecast.dormant_alerted,
            suppressed=dict(forecast.suppressed),
        )

    def _shards(self, burst: Burst) -> Iterator[int]:
        for first, last in plan_burst(self.sets, burst, ()).shard_spans:
            yield from range(first, last + 1)

    def _tier_forecasts(self, forecast: Forecast) -> Mapping[Tier, TierForecast]:
        now = self.clock.now()
        throttles, speeds = self.throttles.ending_after(now - RAMP), self._measured_speeds()
        return {
            tier: forecast.tier_forecast(tier, speeds.get(tier), tier_limit(throttles, tier, now)) for tier in TIERS
        }

    def _measured_speeds(self) -> Mapping[Tier, float]:
        newest = self.recent_bursts.opened_since(self.clock.now() - MAX_LISTED_AGE, None, MAX_LISTED_BURSTS)
        measured = [b.key for b in newest if b.key.subject.kind is Kind.MENTION and b.lane is Lane.CELEBRITY]
        return speeds_by_tier(self.ledger.read(measured[:MAX_MEASURED_BURSTS]).values())
