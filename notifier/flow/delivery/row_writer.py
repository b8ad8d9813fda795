"""Delivery: a slice's shards are sealed and their rows written, the same bytes whoever does it and how often."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from notifier.domain.audience.bitmap import count
from notifier.domain.audience.inbox_rows import cut
from notifier.domain.audience.snapshot import PUSHED, Seal, TierSnapshot, seal
from notifier.domain.audience.tiers import Tier, TierRule, by_activity
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import Fact, LedgerEntry
from notifier.domain.delivery.slice import Slice
from notifier.domain.errors import RuleFailed
from notifier.flow.delivery.slice_worker import SliceLease
from notifier.flow.indexing.bitmaps import MendedSets
from notifier.metrics import Metrics
from notifier.ports.coordination import Clock
from notifier.ports.inbox import InboxStore, Seals

SHARDS_AT_ONCE = 64
"""A slice of a large P1 or P2 in one run, of about 160 ms. The store cuts it into short transactions, one a file: the
more shards each holds, the less it costs. Between them the claim is renewed, however slow the store is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    sets: MendedSets
    seals: Seals
    inbox: InboxStore
    clock: Clock
    metrics: Metrics
    rule: TierRule = by_activity
    pushed: Collection[Tier] = PUSHED

    def __call__(self, burst: Burst, piece: Slice, hold: SliceLease) -> LedgerEntry:
        worth_it = self.clock.now() < burst.opened_at + piece.terms.worth
        people = rows = phones = 0
        for parts in self.parts(burst, piece.shards, piece.tier, hold):
            people += sum(count(part.members) for part in parts)
            phones += sum(part.phones for part in parts)
            if worth_it:
                rows += self._write(burst, piece, parts, hold)
                # Behind the write: a crash before this line writes the same rows again. A shard that was only sealed,
                # because the slice was past its worth, isn't reached: another worker's clock may say otherwise.
                hold.reach(max(hold.claim.reached, parts[-1].shard + 1))
        now = self.clock.now()
        if worth_it:
            self.metrics.deliveries.labels(piece.tier).inc(people)
            self.metrics.delivery.labels(piece.tier).observe((now - burst.accepted_at).total_seconds())
        # Even what is left to the pull path was sealed first: the books count people, not shards.
        fact = Fact.DONE if worth_it else Fact.PULLED
        return LedgerEntry(slice=piece, fact=fact, at=now, people=people, rows=rows, phones=phones)

    def parts(
        self, burst: Burst, shards: Sequence[int], tier: Tier, hold: SliceLease
    ) -> Iterator[Sequence[TierSnapshot]]:
        """What the shards' seals say of the tier, a run at a time; missing ones are made from the live sets, once for
        ever."""
        for start in range(0, len(shards), SHARDS_AT_ONCE):
            run = shards[start : start + SHARDS_AT_ONCE]
            hold.keep()
            found = dict(self.seals.parts(burst.key, run, tier))
            if missing := [shard for shard in run if shard not in found]:
                for standing in self.seals.insert(burst.key, self._seals(burst, missing)):
                    found[standing.shard] = standing.part(tier)
            yield [found[shard] for shard in run]

    def _seals(self, burst: Burst, shards: Sequence[int]) -> Sequence[Seal]:
        try:
            live = self.sets.live(burst.key.subject, shards, burst.restricted_to)
            return [seal(burst, shard, sets, self.rule, self.pushed) for shard, sets in zip(shards, live, strict=True)]
        except RuleFailed:
            # No other rule takes its place: the slice is tried again, and dies with the cause. Everybody sees the burst
            # by the pull path meanwhile.
            self.metrics.unruled.inc()
            raise

    def _write(self, burst: Burst, piece: Slice, parts: Sequence[TierSnapshot], hold: SliceLease) -> int:
        """Writes the rows of the shards that no earlier holder has done; counts those of all."""
        rows = [
            cut(
                part.members,
                burst=burst.key,
                opened_at=part.opened_at,
                tier=piece.tier,
                shard=part.shard,
            )
            for part in parts
        ]
        self.inbox.write([one for one in rows if one.shard >= hold.claim.reached], hold.going)
        written = sum(one.written for one in rows)
        self.metrics.rows.labels(piece.tier).inc(written)
        return written
