"""A forecast: what a burst would cost if its audience were sealed now, counted shard by shard and never written."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil

from notifier.domain.audience.bitmap import count
from notifier.domain.audience.inbox_rows import cut
from notifier.domain.audience.snapshot import Seal
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.accounting import filling
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.delivery.throttle import TierLimit

KEY_BYTES = 24
"""Of a row beside its subject's name and its members: range, moment, number, tier. What a store adds of its own isn't
in it."""


MANY = 1_000
"""People of a tier, of a burst that tells how fast others will be."""
SHORTEST = 0.001
"""Seconds: what a clock tells apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierForecast:
    """Of one tier."""

    people: int
    phones: int
    rows: int
    bytes: int
    seconds: float | None
    """Until the last row stands; None where a pause holds it, or nothing was delivered lately to reckon with."""
    held_by: str | None
    """The throttle."""


@dataclass(slots=True)
class Forecast:
    """Add the shards, and ask."""

    burst: Burst
    dormant: int = 0
    dormant_phones: int = 0
    """Of those who get no row, and are alerted all the same, because they asked for it."""
    suppressed: Counter[str] = field(default_factory=Counter)
    _counts: Counter[tuple[Tier, str]] = field(default_factory=Counter)

    def add(self, seal: Seal) -> None:
        self.dormant += seal.dormant
        self.dormant_phones += count(seal.alerted(Tier.DORMANT))
        self.suppressed.update(seal.suppressed)
        for tier in TIERS:
            self._add(seal, tier)

    def _add(self, seal: Seal, tier: Tier) -> None:
        burst, part = self.burst, seal.part(tier)
        rows = cut(part.members, burst=burst.key, opened_at=part.opened_at, tier=tier, shard=seal.shard)
        counts = {"people": rows.deliveries, "rows": rows.written, "bytes": sum(map(len, rows.members))}
        counts["phones"] = count(seal.alerted(tier))
        for name, n in counts.items():
            self._counts[tier, name] += n

    def reach(self, tier: Tier, speed: float | None, allowed: TierLimit) -> TierForecast:
        """At so many people a second, and no more than a throttle allows."""
        people, rows = self._counts[tier, "people"], self._counts[tier, "rows"]
        key = KEY_BYTES + len(str(self.burst.key.subject).encode())
        return TierForecast(
            people=people,
            phones=self._counts[tier, "phones"],
            rows=rows,
            bytes=rows * key + self._counts[tier, "bytes"],
            seconds=_seconds(people, speed, allowed),
            held_by=allowed.by,
        )


def speeds(accounts: Iterable[BurstProgress]) -> Mapping[Tier, float]:
    """People a second, by tier, in the fastest of these bursts that reached many: a small one is all waiting.

    From the acceptance of its mention, with all that a burst waits for.
    """
    found = dict[Tier, float]()
    for account in accounts:
        for one in filling(account, throttles=(), now=account.plan.opened_at):
            if one.people >= MANY and one.seconds is not None:
                found[one.tier] = max(found.get(one.tier, 0.0), one.people / max(one.seconds, SHORTEST))
    return found


def _seconds(people: int, speed: float | None, allowed: TierLimit) -> float | None:
    if not people:
        return 0.0
    if allowed.rate == 0:
        return None
    rates = [rate for rate in (speed, allowed.rate) if rate]
    return ceil(10 * people / min(rates)) / 10 if rates else None
