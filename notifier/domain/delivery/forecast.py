"""Forecasts: what a burst would cost now, computed shard by shard without writing."""

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
"""Bytes per row besides subject and members: range, opening time, number, tier. Excludes overhead of the store."""

MANY = 1_000
"""Minimum recipients in a tier for a burst to be used as a speed reference."""
SHORTEST = 0.001
"""Clock resolution in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierForecast:
    """Forecast of one tier."""

    people: int
    phones: int
    rows: int
    bytes: int
    seconds: float | None
    """Time until the last row is written; None if the tier is paused, or no recent delivery provides a speed."""
    held_by: str | None
    """The throttle that limits the tier, if any."""


@dataclass(slots=True)
class Forecast:
    """Accumulates the audience snapshots of all shards."""

    burst: Burst
    dormant: int = 0
    dormant_phones: int = 0
    """Dormant members to alert because they asked for alerts."""
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
        """Return the forecast of a tier at `speed` recipients per second, within the limit of a throttle."""
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
    """Return recipients per second by tier, from the fastest of these bursts with at least MANY recipients.

    Smaller bursts mostly wait. Time counts from the acceptance of the mention, so all waits are included.
    """
    fastest = dict[Tier, float]()
    for account in accounts:
        for tier in filling(account, throttles=(), now=account.plan.opened_at):
            if tier.people >= MANY and tier.seconds is not None:
                fastest[tier.tier] = max(fastest.get(tier.tier, 0.0), tier.people / max(tier.seconds, SHORTEST))
    return fastest


def _seconds(people: int, speed: float | None, allowed: TierLimit) -> float | None:
    if not people:
        return 0.0
    if allowed.rate == 0:
        return None
    rates = [rate for rate in (speed, allowed.rate) if rate]
    return ceil(10 * people / min(rates)) / 10 if rates else None
