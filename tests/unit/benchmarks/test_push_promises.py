"""Checks of push promises detect missing, repeated and unwanted alerts."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from socket import create_connection

import pytest

from benchmarks.push import kill_workers, quiet_hours_and_late_alerts, vip_latency
from benchmarks.push.dropped_and_kept_devices import is_gone
from benchmarks.push.expected_and_arrived_alerts import ExpectedAlerts
from benchmarks.push.kill_workers import Kill, differences
from benchmarks.push.quiet_hours_and_late_alerts import QUIET_USER, SimulatedEvening
from benchmarks.push.ssrf import Trap, rebound, redirected
from notifier.devkit.check.check_alerts import ArrivedAlert
from notifier.devkit.fixture.world import World
from notifier.domain.ids import Member
from notifier.domain.push.alert import burst_alert
from tests.support.contract_examples import burst
from tests.unit.devkit.test_check_alerts import address_of

SAMPLE = ExpectedAlerts(burst=burst(), due=frozenset(map(Member, range(1, 7))))
EXPECTED = [
    ArrivedAlert(at=SAMPLE.burst.accepted_at, platform="fcm", address=address_of(m), collapse_id=SAMPLE.place)
    for m in sorted(SAMPLE.due)
]
KILL = Kill(role="push.fcm", expected=SAMPLE, before=2)
REPEATED = replace(EXPECTED[0], is_repeat=True)
STRANGER = replace(EXPECTED[0], address=address_of(Member(9)))
ELSEWHERE = replace(EXPECTED[0], collapse_id="elsewhere")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param(EXPECTED, None, id="right"),
        pytest.param([*EXPECTED, REPEATED], None, id="the same once more"),
        pytest.param(EXPECTED[1:], "u1 got no alert", id="missing"),
        pytest.param([*EXPECTED[1:], REPEATED], "u1 got no alert", id="only once more"),
        pytest.param([*EXPECTED, EXPECTED[0]], "u1 got 2 different alerts", id="twice"),
        pytest.param([*EXPECTED, STRANGER], "got an unexpected alert", id="a stranger"),
        pytest.param([*EXPECTED, ELSEWHERE], "which is not a burst", id="another place"),
    ],
)
def test_each_phone_shows_a_burst_once(lines: Sequence[ArrivedAlert], message: str | None) -> None:
    finding = kill_workers.finding([KILL], lines)
    assert finding.ok is (message is None)
    assert message is None or message in finding.detail


def test_kill_after_the_burst_fails() -> None:
    finding = kill_workers.finding([replace(KILL, before=len(EXPECTED))], EXPECTED)
    assert (finding.ok, finding.detail) == (False, "only 0 of 1 kills hit an unfinished burst")
    assert list(differences(SAMPLE, EXPECTED)) == []


def test_quiet_hours_need_exactly_one_alert() -> None:
    assert [*quiet_hours_and_late_alerts.quiet(), *quiet_hours_and_late_alerts.stale()] == []
    evening = SimulatedEvening()
    evening.mentions()
    assert list(evening.differences(QUIET_USER, [quiet_hours_and_late_alerts.BURSTS])) == [
        "alerts of kim cover [1, 1, 1] bursts, expected [3]"
    ]


WORLD = World(universe=300, followers=300, celebrities=1, seed=1)


@pytest.mark.parametrize(("delay_seconds", "ok"), [(1.0, True), (9.0, False), (None, False)])
def test_late_or_missing_vip_alert_is_counted(delay_seconds: float | None, ok: bool) -> None:
    mention_burst = burst()
    due = vip_latency.vips(WORLD, mention_burst)
    lines = [
        ArrivedAlert(
            at=mention_burst.accepted_at + timedelta(seconds=delay_seconds or 0),
            platform="fcm",
            address=address_of(member),
            collapse_id=burst_alert(mention_burst).collapse_id,
        )
        for member in (due if delay_seconds is not None else ())
    ]
    finding = vip_latency.figure(WORLD, [mention_burst], lines).finding
    assert (finding.ok, finding.n) == (ok, len(due))
    assert due


def test_pushes_avoid_own_networks_and_trap_detects_connections() -> None:
    trap = Trap()
    with closing(trap.line):
        assert [*rebound(burst_alert(burst())), *redirected(burst_alert(burst()), trap.port)] == []
        assert trap.caught() == 0
        create_connection(("127.0.0.1", trap.port)).close()
        assert trap.caught() == 1


def test_few_devices_of_the_fixture_are_gone() -> None:
    assert 50 < sum(map(is_gone, range(1_000))) < 200
