"""Preview of a mention: apply the decisions of a real one now, without side effects."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta

from notifier.domain.audience.snapshot import DEFAULT_PUSHED_TIERS, take_snapshot
from notifier.domain.audience.tiers import TIERS, Tier, TierRule, by_activity
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.mention import Event, Mention
from notifier.domain.bursts.moderation import MentionRefusal, Verdict
from notifier.domain.bursts.sequencer import Head, LoggedMention, advance, after_publishing
from notifier.domain.delivery.forecast import Forecast, TierForecast, speeds_by_tier
from notifier.domain.delivery.throttle import RAMP, tier_limit
from notifier.domain.ids import Kind, Lane, Subject, UserId
from notifier.flow.intake.moderation import ModerationFacts, ModerationLookup
from notifier.flow.intake.router import lane_of
from notifier.flow.operations.audience_count import Advance, live_sets_by_shard
from notifier.flow.sequencing.publisher import plan_burst
from notifier.flow.sequencing.retraction_settlement import current_mentions
from notifier.ports.audience import MemberSets
from notifier.ports.bursts import Heads, RecentBursts
from notifier.ports.coordination import Clock, Throttles
from notifier.ports.ledger import Ledger
from notifier.ports.retractions import Retractions

MAX_BURST_AGE = timedelta(hours=1)
MAX_LISTED_BURSTS, MAX_LARGE_BURSTS = 256, 32
"""Newest bursts that are read, and large ones among them that the speeds are estimated from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPreview:
    """Effect of a mention on one named account."""

    account: UserId
    refusal: MentionRefusal | None
    """Why the account's followers would not be notified."""
    lane: Lane = Lane.STANDARD
    verdict: Verdict = Verdict.ALL
    followers: int = 0
    burst: Burst | None = None
    joins: bool = False
    """The burst is open already: the mention extends its text, and no user is notified again."""
    tiers: Mapping[Tier, TierForecast] | None = None
    """None if nothing would be fanned out."""
    dormant: int = 0
    dormant_alerted: int = 0
    suppressed: Mapping[str, int] | None = None


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
    collapse: timedelta | None = None
    refill: timedelta | None = None
    rule: TierRule = by_activity
    pushed: Collection[Tier] = DEFAULT_PUSHED_TIERS
    count_lock: AbstractContextManager[object] | None = None
    """Lock held while audiences are counted, which takes a core. Raises Unavailable if another caller holds it."""

    def estimate(
        self, event: Event, on_start: Callable[[int], Advance] = lambda _: lambda _: None
    ) -> Sequence[AccountPreview]:
        """Return the effect on each account, in the order in which the event names them.

        For each account, `begun` is called with the number of shards to count, and returns the callback for counted
        shards. The mentioner's cap is not checked, because a check would consume it. Duplicates of the event are not
        looked for either. Raises Unavailable, also if a set cannot be read.
        """
        known = self.moderation([event])
        with self.count_lock or nullcontext():
            return [self._preview_account(event, name, known, on_start) for name in event.mentioned]

    def _preview_account(
        self, event: Event, name: UserId, known: ModerationFacts, on_start: Callable[[int], Advance]
    ) -> AccountPreview:
        verdict = known.decide(event, name, lambda: True, released=False)
        if isinstance(verdict, MentionRefusal):
            return AccountPreview(account=name, refusal=verdict)
        subject = Subject(Kind.MENTION, name)
        followers, head = self.sets.follower_counts(subject).total, self.heads.load([subject])[subject]
        lane = lane_of(followers, self.threshold, current=head.open.lane if head.open else Lane.STANDARD)
        [mention] = current_mentions(
            self.retractions, [Mention.from_event(event, subject, verdict, lane=lane, followers=followers)]
        )
        if mention.retracted:
            return AccountPreview(account=name, refusal=MentionRefusal.RETRACTED)
        burst, joins = self._next_burst(after_publishing(head, nonce=""), mention)
        previewed = AccountPreview(
            account=name, refusal=None, lane=lane, verdict=verdict, followers=followers, burst=burst, joins=joins
        )
        return previewed if joins or burst.pull_only else self._with_counts(previewed, burst, on_start)

    def _next_burst(self, head: Head, mention: Mention) -> tuple[Burst, bool]:
        record = LoggedMention(partition="preview", offset=0, mention=mention)
        now = self.clock.now()
        after = advance(head, [record], known=(), now=now, nonce="", collapse=self.collapse, refill=self.refill)
        burst = after.outbox[-1]
        return burst, burst.key.seq <= head.seq

    def _with_counts(self, preview: AccountPreview, burst: Burst, on_start: Callable[[int], Advance]) -> AccountPreview:
        forecast, shards = Forecast(burst), list(self._shards(burst))
        for shard, live in live_sets_by_shard(
            self.sets, burst.key.subject, shards, on_start(len(shards)), burst.restricted_to
        ):
            forecast.add(take_snapshot(burst, shard, live, self.rule, self.pushed))
        return replace(
            preview,
            tiers=self._tier_forecasts(forecast),
            dormant=forecast.dormant,
            dormant_alerted=forecast.dormant_alerted,
            suppressed=dict(forecast.suppressed),
        )

    def _shards(self, burst: Burst) -> Iterator[int]:
        for first, last in plan_burst(self.sets, burst, ()).ranges:
            yield from range(first, last + 1)

    def _tier_forecasts(self, forecast: Forecast) -> Mapping[Tier, TierForecast]:
        now = self.clock.now()
        throttles, speeds_by_tier = self.throttles.since(now - RAMP), self._speeds()
        return {
            tier: forecast.tier_forecast(tier, speeds_by_tier.get(tier), tier_limit(throttles, tier, now))
            for tier in TIERS
        }

    def _speeds(self) -> Mapping[Tier, float]:
        newest = self.recent_bursts.opened_since(self.clock.now() - MAX_BURST_AGE, None, MAX_LISTED_BURSTS)
        large = [b.key for b in newest if b.key.subject.kind is Kind.MENTION and b.lane is Lane.CELEBRITY]
        return speeds_by_tier(self.ledger.read(large[:MAX_LARGE_BURSTS]).values())
