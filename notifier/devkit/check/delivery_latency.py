"""Latencies of delivery, measured from the acceptance of a burst's first event."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from notifier.devkit.check.check_alerts import ArrivedAlert, ExpectedAlerts
from notifier.devkit.check.finding_and_quantiles import Finding, quantile, weighted_quantile
from notifier.devkit.check.mention_storm import SentEvents
from notifier.devkit.fixture.world import World
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.ledger import BurstProgress, Fact
from notifier.domain.delivery.slice_and_pool import Step

P0_P95_LIMIT_SECONDS = 1.0
P0_LOCAL_ENGINES_P95_LIMIT_SECONDS = 3.0
"""Limit if Cassandra, Kafka and the storm share the cores with the workers: on two cores P0 takes over a second."""
P0_LARGE_P95_LIMIT_SECONDS = 4.0
P0_COLD_P95_LIMIT_SECONDS = 10.0
VIP_PUSH_P95_LIMIT_SECONDS = 5.0
"""Product requirement from event to provider, for bursts to at most 1,000 VIPs with a device."""
TIMED_FINDINGS = frozenset({"p0_p95_s", "p0_cold_p95_s", "p0_200m_p95_s", "vip_push_p95_s"})
"""Names of results that may fail on a busy machine although the service is correct."""
LARGE_FOLLOWERS = 10_000_000
"""Bursts to more followers do not count for `p0_p95_s`, because P0 may take longer with them."""


def slice_latencies(
    progress_rows: Iterable[BurstProgress], tiers: Collection[Tier], *, max_followers: int | None = None
) -> list[tuple[float, int]]:
    """Return (seconds until completion, rows) of every completed slice of rows in these tiers."""
    return [
        ((state.final_entry.at - progress.plan.accepted_at).total_seconds(), state.final_entry.row_count)
        for progress in progress_rows
        if max_followers is None or progress.plan.followers <= max_followers
        for state in progress.slice_states.values()
        if state.slice.step is Step.ROWS and state.slice.tier in tiers
        if state.final_entry and state.final_entry.fact is Fact.DONE
    ]


def p95(latencies: Collection[tuple[float, int]]) -> float:
    """Return the 95th percentile, weighted by rows."""
    return weighted_quantile(latencies, 0.95)


def slowest(latencies: Collection[tuple[float, int]]) -> float:
    return max((seconds for seconds, _ in latencies), default=float("inf"))


def row_count(latencies: Collection[tuple[float, int]]) -> int:
    return sum(count for _, count in latencies)


def latency_findings(
    progress_rows: Sequence[BurstProgress],
    sent: SentEvents,
    world: World,
    *,
    since: datetime,
    has_limits: bool,
    engines_on_this_machine: bool,
) -> Iterator[Finding]:
    """Yield latencies: of the bursts accepted from `since` on, of P0 in earlier bursts, and of accepted requests.

    Without `has_limits` the results are informational.
    """
    warm = [progress for progress in progress_rows if progress.plan.accepted_at >= since]
    small = slice_latencies(warm, [Tier.P0], max_followers=LARGE_FOLLOWERS)
    p0_limit = P0_LOCAL_ENGINES_P95_LIMIT_SECONDS if engines_on_this_machine else P0_P95_LIMIT_SECONDS
    yield _latency_finding("p0_p95_s", small, p0_limit if has_limits else None)
    if cold := slice_latencies(
        (progress for progress in progress_rows if progress.plan.accepted_at < since), [Tier.P0]
    ):
        yield _latency_finding("p0_cold_p95_s", cold, P0_COLD_P95_LIMIT_SECONDS if has_limits else None)
    if world.followers > LARGE_FOLLOWERS:
        yield _latency_finding(
            "p0_200m_p95_s",
            slice_latencies(warm, [Tier.P0]),
            P0_LARGE_P95_LIMIT_SECONDS if has_limits else None,
        )
    for tier in (Tier.P1, Tier.P2):
        tier_latencies = slice_latencies(warm, [tier])
        if row_count(tier_latencies):
            yield _latency_finding(f"{tier}_p95_s", tier_latencies)
    yield Finding(
        name="accept_p99_ms",
        ok=True,
        value=round(quantile(sent.latencies, 0.99) * 1000, 3) if sent.latencies else None,
        unit="ms",
        n=len(sent.latencies),
        detail=f"{sent.retry_count} requests were retried",
    )


def vip_push_finding(
    alerts: ExpectedAlerts, arrived: Collection[ArrivedAlert], *, since: datetime, has_limit: bool
) -> Finding:
    """Return the latency of the VIP alerts that arrived, for bursts accepted from `since` on."""
    if not any(alerts.vip_members(since).values()):
        return Finding(name="vip_push_p95_s", ok=True, unit="s", n=0, detail="No VIP alert was expected.")
    latencies = [(seconds, 1) for seconds in alerts.vip_latencies(arrived, since)]
    return _latency_finding("vip_push_p95_s", latencies, VIP_PUSH_P95_LIMIT_SECONDS if has_limit else None)


def _latency_finding(name: str, latencies: Sequence[tuple[float, int]], limit: float | None = None) -> Finding:
    """Return the 95th percentile as a result. Without a limit it is informational."""
    value, n = p95(latencies), row_count(latencies)
    ok = limit is None or (n > 0 and value <= limit)
    return Finding(name=name, ok=ok, value=round(value, 3) if n else None, limit=limit, unit="s", n=n)
