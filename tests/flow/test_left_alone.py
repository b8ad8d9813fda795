"""Who is left alone, and what waits for a moment to come, is seen by whoever looks; no alert depends on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from notifier.cli.commands.doctor.command import Level
from notifier.cli.commands.doctor.data_folder import left_alone_finding
from notifier.cli.commands.ledger import facts
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Member, Platform
from notifier.domain.push.circuit_breaker import BreakerSettings, LeftAlone
from notifier.domain.push.device import ApnsEnvironment, AppleToken, Device, WebSubscription
from notifier.domain.push.receipt import Accepted, ConfigError, RetryAt
from notifier.flow.push.circuit_breakers import REPORTED_EVERY, CircuitBreakers, line_of
from notifier.metrics import Metrics
from notifier.wiring.delivery import build_load_monitor, build_slice_worker
from notifier.wiring.operations import build_overview
from tests.flow.alert_counts import phone
from tests.flow.test_catch_up import KIM, NIGHT, QUIET
from tests.support.examples import MINUTE
from tests.support.failing_ports import Refusing
from tests.support.fakes.clock import START, ManualClock
from tests.support.fakes.push import MemoryLineReport
from tests.support.in_memory_system import Stage

WRONG, BUSY = ConfigError(reason="InvalidProviderToken"), RetryAt(at=START, reason="503 UNAVAILABLE")
REST = BreakerSettings().rest


class Desk:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.report = MemoryLineReport(self.clock)
        self.breakers = CircuitBreakers(clock=self.clock, report=self.report, metrics=Metrics())


def test_the_line_that_opened_is_told_with_its_reason_until_somebody_may_try() -> None:
    desk = Desk()
    for _ in range(4):
        desk.breakers.record("fcm", BUSY)
    assert desk.report.told() == {}
    desk.breakers.record("fcm", BUSY)
    assert desk.report.told() == {"fcm": LeftAlone(until=START + REST, reason="503 UNAVAILABLE")}
    desk.clock.advance(REST)
    assert desk.breakers.allow("fcm")
    assert desk.breakers.retry_at("fcm") is None
    assert desk.report.told() == {}


def test_who_asks_to_be_asked_later_is_left_alone_for_so_long_with_all_who_are_his() -> None:
    desk, minutes = Desk(), 10 * MINUTE
    for _ in range(5):
        desk.breakers.record("web push.example", RetryAt(at=START + minutes, reason="status 429"))
    assert desk.breakers.retry_at("web push.example") == START + minutes
    assert desk.breakers.retry_at("web other.example") is None


def test_while_some_try_nobody_is_told_to_be_left_alone() -> None:
    desk = Desk()
    desk.breakers.record("apns", WRONG)
    desk.clock.advance(REST)
    assert [desk.breakers.allow("apns") for _ in range(4)] == [True, True, True, False]
    assert desk.breakers.retry_at("apns") == START + 2 * REST
    assert desk.report.told() == {}
    desk.breakers.record("apns", WRONG)
    assert desk.report.told() == {"apns": LeftAlone(until=START + 2 * REST, reason=WRONG.reason)}
    desk.clock.advance(REST)
    for _ in range(3):
        assert desk.breakers.allow("apns")
        desk.breakers.record("apns", Accepted())
    assert desk.breakers.reported == {}


def test_what_is_said_of_one_device_alone_opens_nothing_and_shows_that_the_provider_is_well() -> None:
    desk, own = Desk(), RetryAt(at=START, reason="TooManyRequests", alone=True)
    for _ in range(50):
        desk.breakers.record("apns", own)
    assert desk.breakers.lines == {}
    desk.breakers.record("apns", WRONG)
    desk.clock.advance(REST)
    for _ in range(3):
        assert desk.breakers.allow("apns")
        desk.breakers.record("apns", own)
    assert desk.breakers.lines == {}


def test_a_part_of_a_provider_s_devices_is_told_of_and_the_others_are_sent_to() -> None:
    desk, reason = Desk(), "THIRD_PARTY_AUTH_ERROR"
    partly = ConfigError(reason=reason, part="third-party")
    for _ in range(50):
        desk.breakers.record("fcm", partly)
    assert (desk.breakers.lines, desk.breakers.retry_at("fcm")) == ({}, None)
    assert desk.report.told() == {"fcm third-party": LeftAlone(until=START + REST, reason=reason)}
    assert opened(desk) == 1
    desk.clock.advance(REST)
    assert desk.report.told() == {}
    desk.breakers.record("fcm", partly)
    assert opened(desk) == 2


def opened(desk: Desk) -> float | None:
    return desk.breakers.metrics.registry.get_sample_value("notifier_push_breakers_opened_total", {"platform": "fcm"})


def test_an_emptied_redis_knows_again_within_seconds_and_isn_t_asked_at_each_alert() -> None:
    desk = Desk()
    desk.breakers.record("apns", WRONG)
    desk.report.wipe()
    desk.clock.advance(REPORTED_EVERY - timedelta(seconds=1))
    assert desk.breakers.retry_at("apns") == START + REST
    assert desk.report.told() == {}
    desk.clock.advance(timedelta(seconds=1))
    assert desk.breakers.retry_at("apns") == START + REST
    assert desk.report.told() == {"apns": LeftAlone(until=START + REST, reason=WRONG.reason)}


def test_without_redis_breakers_work_and_say_nothing() -> None:
    desk = Desk()
    away: Any = Refusing(desk.report, CacheUnavailable)
    desk.breakers.report = away
    desk.breakers.record("apns", WRONG)
    assert desk.breakers.retry_at("apns") == START + REST


def test_of_a_browser_s_endpoint_no_more_than_its_host_is_told() -> None:
    stage = Stage()
    address = WebSubscription(endpoint="https://push.example/a-secret", key=b"k", secret=b"s")
    assert line_of(replace(phone(stage, "lee"), address=address)) == "web push.example"


def iphone(stage: Stage, name: str, environment: ApnsEnvironment) -> Device:
    member, now = Member(stage.scene.people[name].member), stage.ground.clock.now()
    address = AppleToken(token=f"{member:064x}", topic="com.example.app", environment=environment)
    device = Device(member=member, address=address, registered_at=now - timedelta(days=1))
    stage.ground.devices.write([device])
    return device


def test_an_environment_of_apple_s_that_refuses_our_key_stops_no_alert_of_the_other() -> None:
    stage = Stage()
    stage.ports = replace(stage.ports, providers={Platform.APNS: stage.ground.phones}, platforms=[Platform.APNS])
    work = build_slice_worker(stage.system())
    refused = iphone(stage, "kim", ApnsEnvironment.SANDBOX)  # who is asked first of all
    others = [iphone(stage, name, ApnsEnvironment.PRODUCTION) for name in ("lee", "roy")]
    stage.ground.phones.says[refused.id] = [ConfigError(reason="BadEnvironmentKeyInToken")] * 99
    stage.mention("nova")
    for _ in range(5):
        stage.dispatch()
        stage.work(by=work)
        stage.pass_time(seconds=1)
    assert {device.id for _, device in stage.ground.phones.arrived} == {device.id for device in others}
    assert [*stage.ground.lines.told()] == ["apns sandbox"]


@contextmanager
def refused(until: datetime) -> Iterator[Stage]:
    stage = Stage()
    for line in ("fcm", "web a.example", "web b.example"):
        stage.ground.lines.tell(line, LeftAlone(until=until, reason="503 UNAVAILABLE"), timedelta(seconds=30))
    yield stage


def test_the_overview_the_doctor_and_a_gauge_tell_of_it() -> None:
    with refused(START + REST) as stage:
        system = stage.system()
        monitor, overview, registry = build_load_monitor(system), build_overview(system), system.metrics.registry
        monitor()
        found = left_alone_finding(stage.ports)
        assert found.level is Level.WARN
        assert found.detail.startswith(f"No alerts by fcm until {START + REST:%H:%M:%S} UTC: 503 UNAVAILABLE; web a.ex")
        assert set(overview.read().cache.left_alone) == {"fcm", "web a.example", "web b.example"}
        alone = {each: registry.get_sample_value("notifier_push_left_alone", {"platform": each}) for each in PLATFORMS}
        assert alone == {"apns": 0, "fcm": 1, "web": 2}
        stage.pass_time(seconds=31)
        monitor()
        assert registry.get_sample_value("notifier_push_left_alone", {"platform": "web"}) == 0
        assert (left_alone_finding(stage.ports).level, overview.read().cache.left_alone) == (Level.OK, {})


PLATFORMS = ("apns", "fcm", "web")


def test_where_nobody_can_say_who_is_left_alone_the_doctor_finds_nothing_wrong() -> None:
    stage = Stage()
    away: Any = Refusing(stage.ports.lines, CacheUnavailable)
    found = left_alone_finding(replace(stage.ports, lines=away))
    assert (found.level, found.value) == (Level.OK, None)
    assert "Nobody says" in found.detail


def test_a_provider_that_refuses_us_is_seen_by_its_reason_while_its_slices_wait() -> None:
    stage = Stage()
    for name in ("kim", "lee", "roy"):
        stage.ground.phones.says[phone(stage, name).id] = [WRONG]
    stage.mention("nova")
    overview, work = build_overview(stage.system()), build_slice_worker(stage.system())
    for _ in range(3):
        stage.dispatch()
        stage.work(by=work)
        stage.pass_time(seconds=1)
    [(line, left)] = stage.ground.lines.told().items()
    assert (line, left.reason) == ("fcm", "InvalidProviderToken")
    snapshot = overview.read()
    assert snapshot.running is not None
    assert snapshot.running.waits_until is not None
    assert snapshot.at < snapshot.running.waits_until <= left.until
    assert snapshot.cache.behind[Pool.FCM].later > 0
    assert snapshot.cache.behind[Pool.FCM].slices == 0


def test_the_ledger_says_until_when_a_slice_waits_for_somebody_to_wake() -> None:
    stage = Stage()
    stage.ground.people.arrange(KIM, QUIET)
    stage.mention("nova")
    stage.deliver_others()
    until = f"{START + NIGHT:%Y-%m-%dT%H:%M:%S}"
    slices: Any = facts(stage.ports, stage.bursts()[0])["slices"]
    [waiting] = [line for line in slices if line["state"] == "waiting"]
    assert (waiting["step"], waiting["until"][:19]) == ("push.fcm", until)
    assert {line["until"] for line in slices if line["state"] != "waiting"} == {None}
