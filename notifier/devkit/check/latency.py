"""Delivery latencies of slices, measured from the acceptance of the burst's first event."""

from collections.abc import Collection, Iterable

from notifier.devkit.check.finding import weighted_quantile
from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.ledger import BurstProgress, Fact
from notifier.domain.delivery.slice import Step


def slice_latencies(
    progress_rows: Iterable[BurstProgress], tiers: Collection[Tier], *, max_followers: int | None = None
) -> list[tuple[float, int]]:
    """Return (seconds until completion, rows) of every completed slice of rows in these tiers."""
    return [
        ((state.final_entry.at - progress.plan.accepted_at).total_seconds(), state.final_entry.rows)
        for progress in progress_rows
        if max_followers is None or progress.plan.followers <= max_followers
        for state in progress.slice_states.values()
        if state.slice.step is Step.ROWS and state.slice.tier in tiers
        if state.final_entry and state.final_entry.fact is Fact.DONE
    ]


def p95(latencies: Collection[tuple[float, int]]) -> float:
    """Return the 95th percentile, weighted by rows. Each row counts with the time at which its slice was completed."""
    return weighted_quantile(latencies, 0.95)


def slowest(latencies: Collection[tuple[float, int]]) -> float:
    """Return the longest latency in seconds, or infinity without any slice."""
    return max((seconds for seconds, _ in latencies), default=float("inf"))


def row_count(latencies: Collection[tuple[float, int]]) -> int:
    return sum(count for _, count in latencies)
