"""`provider_stalled_rows_unaffected`: while a provider stalls, rows, badges and other alerts are in time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.costs_and_figures import Figure
from benchmarks.fanout.measured_notifier import rows_of, staged
from benchmarks.push.expected_and_arrived_alerts import ArrivedAlerts, ExpectedAlerts
from notifier.devkit.check.delivery_latency import VIP_PUSH_P95_LIMIT_SECONDS
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors, quantile
from notifier.devkit.check.http_client import HttpClient, get_patiently
from notifier.devkit.fixture.sample_users_and_devices import platform
from notifier.devkit.fixture.world import World, user
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.slice_and_pool import Step
from notifier.domain.ids import Member, Platform

NAME = "provider_stalled_rows_unaffected"
STALLED = Platform.FCM
WORLD = World(universe=60_000, followers=60_000, celebrities=1, seed=1)
TIERS = (Tier.P0, Tier.P1)
BURSTS, BURSTS_QUICK = 10, 3
ROWS_S = 5.0
"""Limit for P1's rows, as promised. Alerts of both tiers are judged with the limit for VIPs."""
TIMEOUT_SECONDS = 60.0
CHECKED_INBOXES = 5


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    settings: dict[str, Any] = {
        "push_hourly": 0,
        "push_daily": 0,
        "push_fakes": "on",
        "push_fake_script": f"{STALLED}.stall",
    }
    with staged(folder, WORLD, tell=tell, collapse="PT0S", **settings) as stage:
        arrived, every = ArrivedAlerts(stage=stage, tiers=TIERS), list[ExpectedAlerts]()
        tell(f"sending bursts while {STALLED} gives no response")
        for _ in range(BURSTS_QUICK if quick else BURSTS):
            expected = arrived.mention(WORLD.names[0])
            every.append(expected)
            stage.wait(expected.burst.key, TIERS, TIMEOUT_SECONDS)
            other_members = frozenset(m for m in expected.due if platform(m) is not STALLED)
            arrived.wait(
                lambda t=expected, o=other_members: o <= arrived.people(t),  # type: ignore[misc] # bound now
                TIMEOUT_SECONDS,
                f"alerts of {expected.burst.key}",
            )
        wrong = [*_rows(arrived, every), *_badges(arrived, every), *_stalls(arrived, every)]
        return [Figure(finding=finding(every, arrived, wrong))]


def finding(every: Sequence[ExpectedAlerts], arrived: ArrivedAlerts, wrong: Sequence[str]) -> Finding:
    waits = list(_waits(every, arrived))
    late = quantile(waits, 0.95)
    if late > VIP_PUSH_P95_LIMIT_SECONDS:
        wrong = [*wrong, f"alerts of other providers took {late:.1f} s, limit {VIP_PUSH_P95_LIMIT_SECONDS:g} s"]
    result = no_errors(NAME, wrong, n=len(waits))
    detail = f"{len(waits):,} alerts by the other two providers, {late:.2f} s at the 95th percentile"
    return replace(result, detail=detail) if result.ok else result


def _waits(every: Sequence[ExpectedAlerts], arrived: ArrivedAlerts) -> Iterator[float]:
    """Yield the seconds from the acceptance of each mention, for the providers that answer."""
    accepted = {expected.place: expected.burst.accepted_at for expected in every}
    for line in arrived.lines():
        if line.platform != STALLED and line.collapse_id in accepted:
            yield (line.at - accepted[line.collapse_id]).total_seconds()


def _rows(arrived: ArrivedAlerts, every: Sequence[ExpectedAlerts]) -> Iterator[str]:
    for expected in every:
        progress = arrived.stage.progress(expected.burst.key)
        assert progress is not None
        ended: list[datetime] = [
            slice_state.final_entry.at for slice_state in rows_of(progress, TIERS) if slice_state.final_entry
        ]
        took = (max(ended) - expected.burst.accepted_at).total_seconds()
        if took > ROWS_S:
            yield f"rows of {expected.burst.key} took {took:.1f} s, limit {ROWS_S:g} s"


def _badges(arrived: ArrivedAlerts, every: Sequence[ExpectedAlerts]) -> Iterator[str]:
    """Check users whose provider stalls: they get no alerts, but their badges count all bursts."""
    members: list[Member] = [m for m in sorted(every[0].due) if platform(m) is STALLED][:CHECKED_INBOXES]
    for member in members:
        wire = HttpClient(url=arrived.stage.instance.url, bearer=arrived.stage.token(user(member)))
        badge = get_patiently(wire, "/v1/inbox/unread").body
        wire.close()
        if badge["count"] != len(every):
            yield f"u{member} has {badge['count']} unread of {len(every)}"
    if not members:
        yield "no user has the stalled provider"


def _stalls(arrived: ArrivedAlerts, every: Sequence[ExpectedAlerts]) -> Iterator[str]:
    """Check that alerts really wait for the stalled provider. Otherwise nothing is proved."""
    for expected in every:
        progress = arrived.stage.progress(expected.burst.key)
        slices = progress.slice_states.items() if progress else ()
        if not any(
            slice_.step is Step.for_platform(STALLED) and not slice_state.final_entry for slice_, slice_state in slices
        ):
            yield f"{expected.burst.key} waits for no response of {STALLED}"
