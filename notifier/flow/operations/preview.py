"""Preview of a mention: apply the decisions of a real one now, without side effects."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta

from notifier.domain.audience.snapshot import PUSHED, seal
from notifier.domain.audience.tiers import TIERS, Tier, TierRule, by_activity
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.mention import Event, Mention
from notifier.domain.bursts.moderation import MentionRefusal, Verdict
from notifier.domain.bursts.sequencer import Head, Numbered, advance, published
from notifier.domain.delivery.forecast import Forecast, TierForecast, speeds
from notifier.domain.delivery.throttle import RAMP, allowance
from notifier.domain.ids import Kind, Lane, Subject, UserId
from notifier.flow.intake.moderation import Known, Reaching
from notifier.flow.intake.router import lane_of
from notifier.flow.operations.audience_count import Advance, lives
from notifier.flow.sequencing.publisher import planned
from notifier.flow.sequencing.retraction_settlement import current
from notifier.ports.audience import MemberSets
from notifier.ports.bursts import Heads, RecentBursts
from notifier.ports.coordination import Clock, Throttles
from notifier.ports.ledger import Ledger
from notifier.ports.retractions import Retractions

LOOKED_BACK = timedelta(hours=1)
LISTED, LARGE = 256, 32
"""Newest bursts that are read, and large ones among them that the speeds are estimated from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewed:
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
    dormant_phones: int = 0
    suppressed: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    reaching: Reaching
    sets: MemberSets
    heads: Heads
    retractions: Retractions
    ledger: Ledger
    recent: RecentBursts
    throttles: Throttles
    clock: Clock
    threshold: int
    collapse: timedelta | None = None
    refill: timedelta | None = None
    rule: TierRule = by_activity
    pushed: Collection[Tier] = PUSHED
    turns: AbstractContextManager[object] | None = None
    """Lock held while audiences are counted, which takes a core. Raises Unavailable if another caller holds it."""

    def estimate(self, event: Event, begun: Callable[[int], Advance] = lambda _: lambda _: None) -> Sequence[Previewed]:
        """Return the effect on each account, in the order in which the event names them.

        For each account, `begun` is called with the number of shards to count, and returns the callback for counted
        shards. The mentioner's cap is not checked, because a check would consume it. Duplicates of the event are not
        looked for either. Raises Unavailable, also if a set cannot be read.
        """
        known = self.reaching([event])
        with self.turns or nullcontext():
            return [self._of(event, name, known, begun) for name in event.mentioned]

    def _of(self, event: Event, name: UserId, known: Known, begun: Callable[[int], Advance]) -> Previewed:
        verdict = known.verdict(event, name, lambda: True, released=False)
        if isinstance(verdict, MentionRefusal):
            return Previewed(account=name, refusal=verdict)
        subject = Subject(Kind.MENTION, name)
        followers, head = self.sets.head(subject).total, self.heads.load([subject])[subject]
        lane = lane_of(followers, self.threshold, was=head.open.lane if head.open else Lane.STANDARD)
        [mention] = current(self.retractions, [Mention.of(event, subject, verdict, lane=lane, followers=followers)])
        if mention.retracted:
            return Previewed(account=name, refusal=MentionRefusal.RETRACTED)
        burst, joins = self._decided(published(head, nonce=""), mention)
        previewed = Previewed(
            account=name, refusal=None, lane=lane, verdict=verdict, followers=followers, burst=burst, joins=joins
        )
        return previewed if joins or burst.pull_only else self._counted(previewed, burst, begun)

    def _decided(self, head: Head, mention: Mention) -> tuple[Burst, bool]:
        record = Numbered(partition="preview", offset=0, mention=mention)
        now = self.clock.now()
        after = advance(head, [record], known=(), now=now, nonce="", collapse=self.collapse, refill=self.refill)
        burst = after.outbox[-1]
        return burst, burst.key.seq <= head.seq

    def _counted(self, found: Previewed, burst: Burst, begun: Callable[[int], Advance]) -> Previewed:
        forecast, shards = Forecast(burst), list(self._shards(burst))
        for shard, live in lives(self.sets, burst.key.subject, shards, begun(len(shards)), burst.restricted_to):
            forecast.add(seal(burst, shard, live, self.rule, self.pushed))
        return replace(
            found,
            tiers=self._reaches(forecast),
            dormant=forecast.dormant,
            dormant_phones=forecast.dormant_phones,
            suppressed=dict(forecast.suppressed),
        )

    def _shards(self, burst: Burst) -> Iterator[int]:
        for first, last in planned(self.sets, burst, ()).ranges:
            yield from range(first, last + 1)

    def _reaches(self, forecast: Forecast) -> Mapping[Tier, TierForecast]:
        now = self.clock.now()
        throttles, speeds_by_tier = self.throttles.since(now - RAMP), self._speeds()
        return {tier: forecast.reach(tier, speeds_by_tier.get(tier), allowance(throttles, tier, now)) for tier in TIERS}

    def _speeds(self) -> Mapping[Tier, float]:
        newest = self.recent.since(self.clock.now() - LOOKED_BACK, None, LISTED)
        large = [b.key for b in newest if b.key.subject.kind is Kind.MENTION and b.lane is Lane.CELEBRITY]
        return speeds(self.ledger.read(large[:LARGE]).values())
