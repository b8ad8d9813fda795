"""Delivery latencies from the ledger, from acceptance of the opening event to slice completion."""

from collections.abc import Collection, Iterable

from notifier.devkit.check.finding import weighted_quantile
from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.ledger import BurstProgress, Fact
from notifier.domain.delivery.slice import Step


def waits(
    accounts: Iterable[BurstProgress], tiers: Collection[Tier], *, most_followers: int | None = None
) -> list[tuple[float, int]]:
    """Return (seconds, rows) of every completed slice. All rows of a slice count with the time of its last row."""
    return [
        ((state.ended.at - account.plan.accepted_at).total_seconds(), state.ended.rows)
        for account in accounts
        if most_followers is None or account.plan.followers <= most_followers
        for state in account.standings.values()
        if state.slice.step is Step.ROWS and state.slice.tier in tiers
        if state.ended and state.ended.fact is Fact.DONE
    ]


def p95(found: Collection[tuple[float, int]]) -> float:
    """Return the 95th percentile, weighted by rows."""
    return weighted_quantile(found, 0.95)


def last(found: Collection[tuple[float, int]]) -> float:
    return max((seconds for seconds, _ in found), default=float("inf"))


def rows(found: Collection[tuple[float, int]]) -> int:
    return sum(count for _, count in found)
