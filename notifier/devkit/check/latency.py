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
        ((state.final_entry.at - account.plan.accepted_at).total_seconds(), state.final_entry.rows)
        for account in accounts
        if most_followers is None or account.plan.followers <= most_followers
        for state in account.slice_states.values()
        if state.slice.step is Step.ROWS and state.slice.tier in tiers
        if state.final_entry and state.final_entry.fact is Fact.DONE
    ]


def p95(latencies: Collection[tuple[float, int]]) -> float:
    """Return the 95th percentile, weighted by rows."""
    return weighted_quantile(latencies, 0.95)


def last(latencies: Collection[tuple[float, int]]) -> float:
    return max((seconds for seconds, _ in latencies), default=float("inf"))


def rows(latencies: Collection[tuple[float, int]]) -> int:
    return sum(count for _, count in latencies)
