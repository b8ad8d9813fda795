"""Forecasts: what a burst would cost now, computed shard by shard without writing."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil

from notifier.domain.audience.bitmap import count
from notifier.domain.audience.inbox_rows import cut_inbox_rows
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.delivery.recipient_totals_and_progress import tier_progress
from notifier.domain.delivery.throttle_and_backpressure import TierLimit

ROW_KEY_BYTES = 24
"""Bytes of the range, opening time, number and tier in a row's key. The subject's bytes come on top."""

MIN_REFERENCE_RECIPIENTS = 1_000
"""Minimum recipients in a tier for a burst to be used as a speed reference."""
CLOCK_RESOLUTION_SECONDS = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class TierForecast:
    people: int
    """Number of members who get a row."""
    alert_count: int
    """Number of members who get an alert."""
    row_count: int
    byte_count: int
    """Size of the rows and their keys, without the overhead of the store."""
    seconds: float | None
    """Time until the last row is written; None if it is not known, for example during a pause."""
    held_by: str | None
    """Id of the throttle that limits the tier, if any."""


@dataclass(slots=True)
class Forecast:
    """Forecast of one burst. Add the audience snapshot of each shard, then ask for the forecast of each tier."""

    burst: Burst
    dormant: int = 0
    dormant_alerted: int = 0
    """Number of dormant members to alert: those who asked for alerts."""
    suppressed: Counter[str] = field(default_factory=Counter)
    _counts: Counter[tuple[Tier, str]] = field(default_factory=Counter)

    def add(self, snapshot: AudienceSnapshot) -> None:
        self.dormant += snapshot.dormant_count
        self.dormant_alerted += count(snapshot.members_to_alert(Tier.DORMANT))
        self.suppressed.update(snapshot.suppressed_counts)
        for tier in TIERS:
            self._add(snapshot, tier)

    def _add(self, snapshot: AudienceSnapshot, tier: Tier) -> None:
        tier_snapshot = snapshot.for_tier(tier)
        rows = cut_inbox_rows(
            tier_snapshot.members,
            burst=self.burst.key,
            opened_at=tier_snapshot.opened_at,
            tier=tier,
            shard=snapshot.shard,
        )
        counts = {"people": rows.delivery_count, "rows": rows.row_count, "bytes": sum(map(len, rows.members))}
        counts["alerted"] = count(snapshot.members_to_alert(tier))
        for name, n in counts.items():
            self._counts[tier, name] += n

    def tier_forecast(self, tier: Tier, speed: float | None, limit: TierLimit) -> TierForecast:
        """Return the forecast of a tier at `speed` recipients per second, within the limit of a throttle."""
        people, row_count = self._counts[tier, "people"], self._counts[tier, "rows"]
        key_bytes = ROW_KEY_BYTES + len(str(self.burst.key.subject).encode())
        return TierForecast(
            people=people,
            alert_count=self._counts[tier, "alerted"],
            row_count=row_count,
            byte_count=row_count * key_bytes + self._counts[tier, "bytes"],
            seconds=_seconds(people, speed, limit),
            held_by=limit.throttle_id,
        )


def speeds_by_tier(all_progress: Iterable[BurstProgress]) -> Mapping[Tier, float]:
    """Return recipients per second by tier, from the fastest burst with at least MIN_REFERENCE_RECIPIENTS.

    Smaller bursts spend most of their time waiting. Time counts from the acceptance of the mention, waits included.
    """
    fastest = dict[Tier, float]()
    for progress in all_progress:
        for tier in tier_progress(progress, throttle_ids=(), now=progress.plan.opened_at):
            if tier.people >= MIN_REFERENCE_RECIPIENTS and tier.seconds is not None:
                speed = tier.people / max(tier.seconds, CLOCK_RESOLUTION_SECONDS)
                fastest[tier.tier] = max(fastest.get(tier.tier, 0.0), speed)
    return fastest


def _seconds(people: int, speed: float | None, limit: TierLimit) -> float | None:
    if not people:
        return 0.0
    if limit.rate == 0:
        return None
    rates = [rate for rate in (speed, limit.rate) if rate]
    return ceil(10 * people / min(rates)) / 10 if rates else None
