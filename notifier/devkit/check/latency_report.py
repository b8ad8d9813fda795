"""How quick a storm was, by the ledger and by who sent it."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from notifier.devkit.check import latency
from notifier.devkit.check.check_alerts import Alerts, Rang
from notifier.devkit.check.finding import Finding, quantile
from notifier.devkit.check.traffic import SentEvents
from notifier.devkit.fixture.world import World
from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.ledger import BurstProgress

P0_P95_S = 1.0
P0_SHARED_P95_S = 3.0
"""Where Cassandra, Kafka and the storm share the cores with the workers: two of them miss the second."""
P0_LARGE_P95_S = 4.0
P0_COLD_P95_S = 10.0
VIP_PUSH_P95_S = 5.0
"""For at most 1,000 VIPs with a device in a burst; the brief's promise, from the event to the provider."""
TIMED = frozenset({"p0_p95_s", "p0_cold_p95_s", "p0_200m_p95_s", "vip_push_p95_s"})
"""Findings that a busy machine fails although the service is right: it is late, and not wrong."""
LARGE = 10_000_000
"""Followers above which P0 may take longer."""


def times(
    accounts: Sequence[BurstProgress], sent: SentEvents, world: World, *, since: datetime, judged: bool, shared: bool
) -> Iterator[Finding]:
    """Of what was accepted since then; what was before it is told as that of a cold start.

    With faults nothing is judged; `shared` says that the engines run beside it.
    """
    warm = [account for account in accounts if account.plan.accepted_at >= since]
    small = latency.waits(warm, [Tier.P0], most_followers=LARGE)
    within = P0_SHARED_P95_S if shared else P0_P95_S
    yield _time("p0_p95_s", small, within if judged else None)
    if cold := latency.waits((account for account in accounts if account.plan.accepted_at < since), [Tier.P0]):
        yield _time("p0_cold_p95_s", cold, P0_COLD_P95_S if judged else None)
    if world.followers > LARGE:
        yield _time("p0_200m_p95_s", latency.waits(warm, [Tier.P0]), P0_LARGE_P95_S if judged else None)
    for tier in (Tier.P1, Tier.P2):
        found = latency.waits(warm, [tier])
        if latency.rows(found):
            yield _time(f"{tier}_p95_s", found)
    yield Finding(
        name="accept_p99_ms",
        ok=True,
        value=round(quantile(sent.seconds, 0.99) * 1000, 3) if sent.seconds else None,
        unit="ms",
        n=len(sent.seconds),
        detail=f"{sent.retries} requests were sent again",
    )


def vip_push(alerts: Alerts, lines: Collection[Rang], *, since: datetime, judged: bool) -> Finding:
    """Of the alerts that came, of what was accepted since then; that all of them do is another check's."""
    if not any(alerts.vips(since).values()):
        return Finding(name="vip_push_p95_s", ok=True, unit="s", n=0, detail="No VIP was to be alerted.")
    waits = [(wait, 1) for wait in alerts.vip_waits(lines, since)]
    return _time("vip_push_p95_s", waits, VIP_PUSH_P95_S if judged else None)


def _time(name: str, waits: Sequence[tuple[float, int]], limit: float | None = None) -> Finding:
    """The 95th percentile; without a limit it is told and not judged."""
    value, n = latency.p95(waits), latency.rows(waits)
    ok = limit is None or (n > 0 and value <= limit)
    return Finding(name=name, ok=ok, value=round(value, 3) if n else None, limit=limit, unit="s", n=n)
