"""How long deliveries took, read from the ledger: from the acceptance of the opener to the end of the slice's rows."""

from collections.abc import Collection, Iterable

from notifier.devkit.check.finding import weighted_quantile
from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.ledger import BurstProgress, Fact
from notifier.domain.delivery.slice import Step


def waits(
    accounts: Iterable[BurstProgress], tiers: Collection[Tier], *, most_followers: int | None = None
) -> list[tuple[float, int]]:
    """Seconds and rows of every slice that is done; a slice counts with its last row."""
    return [
        ((standing.ended.at - account.plan.accepted_at).total_seconds(), standing.ended.rows)
        for account in accounts
        if most_followers is None or account.plan.followers <= most_followers
        for standing in account.standings.values()
        if standing.slice.step is Step.ROWS and standing.slice.tier in tiers
        if standing.ended and standing.ended.fact is Fact.DONE
    ]


def p95(found: Collection[tuple[float, int]]) -> float:
    """Weighted by rows."""
    return weighted_quantile(found, 0.95)


def last(found: Collection[tuple[float, int]]) -> float:
    return max((seconds for seconds, _ in found), default=float("inf"))


def rows(found: Collection[tuple[float, int]]) -> int:
    return sum(count for _, count in found)
