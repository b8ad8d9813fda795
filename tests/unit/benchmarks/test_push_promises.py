"""The checks of alerts' promises can fail: who is missing, told twice, or told though spared is found."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from socket import create_connection

import pytest

from benchmarks.push import kill_workers as killing
from benchmarks.push import quiet_hours as night
from benchmarks.push import vip_latency as vips
from benchmarks.push.arrivals import ExpectedAlerts
from benchmarks.push.dropped_tokens import is_gone
from benchmarks.push.kill_workers import Kill, differences
from benchmarks.push.quiet_hours import SLEEPER, SimulatedEvening
from benchmarks.push.ssrf import Trap, rebound, redirected
from notifier.devkit.check.check_alerts import ArrivedAlert
from notifier.devkit.fixture.world import World
from notifier.domain.ids import Member
from notifier.domain.push.alert import burst_alert
from tests.support.contract_examples import burst
from tests.unit.devkit.test_check_alerts import address_of

TOLD = ExpectedAlerts(burst=burst(), due=frozenset(map(Member, range(1, 7))))
RIGHT = [
    ArrivedAlert(at=TOLD.burst.accepted_at, platform="fcm", address=address_of(m), collapse_id=TOLD.place)
    for m in sorted(TOLD.due)
]
KILL = Kill(role="push.fcm", expected=TOLD, before=2)
AGAIN = replace(RIGHT[0], is_repeat=True)
STRANGER = replace(RIGHT[0], address=address_of(Member(9)))
ELSEWHERE = replace(RIGHT[0], collapse_id="elsewhere")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        pytest.param(RIGHT, None, id="right"),
        pytest.param([*RIGHT, AGAIN], None, id="the same once more"),
        pytest.param(RIGHT[1:], "u1 was never told", id="missing"),
        pytest.param([*RIGHT[1:], AGAIN], "u1 was never told", id="only once more"),
        pytest.param([*RIGHT, RIGHT[0]], "u1 got 2 different alerts", id="twice"),
        pytest.param([*RIGHT, STRANGER], "rang, and nobody is to be told there", id="a stranger"),
        pytest.param([*RIGHT, ELSEWHERE], "which is no burst's", id="another place"),
    ],
)
def test_each_phone_shows_a_burst_once(lines: Sequence[ArrivedAlert], says: str | None) -> None:
    found = killing.finding([KILL], lines)
    assert found.ok is (says is None)
    assert says is None or says in found.detail


def test_kills_that_hit_nothing_prove_nothing() -> None:
    found = killing.finding([replace(KILL, before=len(RIGHT))], RIGHT)
    assert (found.ok, found.detail) == (False, "only 0 of 1 were killed amid a burst")
    assert list(differences(TOLD, RIGHT)) == []


def test_the_night_is_one_alert_and_without_quiet_hours_it_isn_t() -> None:
    assert [*night.quiet(), *night.stale()] == []
    evening = SimulatedEvening()
    evening.mentions()
    assert list(evening.differences(SLEEPER, [night.BURSTS])) == ["kim was told of [1, 1, 1], and [3] was to be told"]


WORLD = World(universe=300, followers=300, celebrities=1, seed=1)


@pytest.mark.parametrize(("late", "ok"), [(1.0, True), (9.0, False), (None, False)])
def test_a_vip_who_is_told_late_or_never_is_counted(late: float | None, ok: bool) -> None:
    one = burst()
    due = vips.vips(WORLD, one)
    lines = [
        ArrivedAlert(
            at=one.accepted_at + timedelta(seconds=late or 0),
            platform="fcm",
            address=address_of(member),
            collapse_id=burst_alert(one).collapse_id,
        )
        for member in (due if late is not None else ())
    ]
    found = vips.figure(WORLD, [one], lines).finding
    assert (found.ok, found.n) == (ok, len(due))
    assert due


def test_nothing_goes_into_our_own_networks_and_who_comes_there_is_caught() -> None:
    trap = Trap()
    with closing(trap.line):
        assert [*rebound(burst_alert(burst())), *redirected(burst_alert(burst()), trap.port)] == []
        assert trap.caught() == 0
        create_connection(("127.0.0.1", trap.port)).close()
        assert trap.caught() == 1


def test_some_of_the_fixture_s_devices_are_gone_and_most_are_not() -> None:
    assert 50 < sum(map(is_gone, range(1_000))) < 200
