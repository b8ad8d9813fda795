"""Open circuits are reported in Redis, overview, doctor and gauge; alerts need no report."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from notifier.cli.commands.doctor.command_machine_and_credential_checks import Level
from notifier.cli.commands.doctor.stores_and_processes import open_circuits_finding
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Member, Platform
from notifier.domain.push.circuit_breaker import BreakerSettings, OpenCircuit
from notifier.domain.push.device import ApnsEnvironment, AppleToken, Device, WebSubscription
from notifier.domain.push.receipt import Accepted, ConfigError, RetryAt
from notifier.flow.push.circuit_breakers import REPORT_INTERVAL, CircuitBreakers, line_of
from notifier.metrics import Metrics
from notifier.wiring.delivery import build_load_monitor, build_slice_worker
from notifier.wiring.operations import build_overview
from tests.flow.alert_counts_and_outcomes import phone
from tests.support.domain_examples import MINUTE
from tests.support.failing_and_corrupt_ports import FailingPort
from tests.support.fakes.clock_and_nonces import START, ManualClock
from tests.support.fakes.push import MemoryCircuitReport
from tests.support.in_memory_system import Stage

WRONG, BUSY = ConfigError(reason="InvalidProviderToken"), RetryAt(at=START, reason="503 UNAVAILABLE")
WAIT = BreakerSettings().open_for


class ProviderLines:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.report = MemoryCircuitReport(self.clock)
        self.breakers = CircuitBreakers(clock=self.clock, circuit_report=self.report, metrics=Metrics())


def test_open_circuit_is_reported_with_its_reason_until_the_probe() -> None:
    lines = ProviderLines()
    for _ in range(4):
        lines.breakers.record("fcm", BUSY)
    assert lines.report.read() == {}
    lines.breakers.record("fcm", BUSY)
    assert lines.report.read() == {"fcm": OpenCircuit(until=START + WAIT, reason="503 UNAVAILABLE")}
    lines.clock.advance(WAIT)
    assert lines.breakers.allow("fcm")
    assert lines.breakers.retry_at("fcm") is None
    assert lines.report.read() == {}


def test_retry_after_sets_the_wait_of_its_line_only() -> None:
    lines, minutes = ProviderLines(), 10 * MINUTE
    for _ in range(5):
        lines.breakers.record("web push.example", RetryAt(at=START + minutes, reason="status 429"))
    assert lines.breakers.retry_at("web push.example") == START + minutes
    assert lines.breakers.retry_at("web other.example") is None


def test_circuit_is_not_reported_as_open_during_probes() -> None:
    lines = ProviderLines()
    lines.breakers.record("apns", WRONG)
    lines.clock.advance(WAIT)
    assert [lines.breakers.allow("apns") for _ in range(4)] == [True, True, True, False]
    assert lines.breakers.retry_at("apns") == START + 2 * WAIT
    assert lines.report.read() == {}
    lines.breakers.record("apns", WRONG)
    assert lines.report.read() == {"apns": OpenCircuit(until=START + 2 * WAIT, reason=WRONG.reason)}
    lines.clock.advance(WAIT)
    for _ in range(3):
        assert lines.breakers.allow("apns")
        lines.breakers.record("apns", Accepted())
    assert lines.breakers.reported_at == {}


def test_device_error_closes_the_circuit_like_a_success() -> None:
    lines, device_error = ProviderLines(), RetryAt(at=START, reason="TooManyRequests", is_device_only=True)
    for _ in range(50):
        lines.breakers.record("apns", device_error)
    assert lines.breakers.breakers_by_line == {}
    lines.breakers.record("apns", WRONG)
    lines.clock.advance(WAIT)
    for _ in range(3):
        assert lines.breakers.allow("apns")
        lines.breakers.record("apns", device_error)
    assert lines.breakers.breakers_by_line == {}


def test_partial_config_error_is_reported_without_opening_the_circuit() -> None:
    lines, reason = ProviderLines(), "THIRD_PARTY_AUTH_ERROR"
    partial_error = ConfigError(reason=reason, device_group="third-party")
    for _ in range(50):
        lines.breakers.record("fcm", partial_error)
    assert (lines.breakers.breakers_by_line, lines.breakers.retry_at("fcm")) == ({}, None)
    assert lines.report.read() == {"fcm third-party": OpenCircuit(until=START + WAIT, reason=reason)}
    assert times_opened(lines) == 1
    lines.clock.advance(WAIT)
    assert lines.report.read() == {}
    lines.breakers.record("fcm", partial_error)
    assert times_opened(lines) == 2


def times_opened(lines: ProviderLines) -> float | None:
    return lines.breakers.metrics.registry.get_sample_value("notifier_push_breakers_opened_total", {"platform": "fcm"})


def test_open_circuit_is_reported_again_after_redis_wipe() -> None:
    lines = ProviderLines()
    lines.breakers.record("apns", WRONG)
    lines.report.wipe()
    lines.clock.advance(REPORT_INTERVAL - timedelta(seconds=1))
    assert lines.breakers.retry_at("apns") == START + WAIT
    assert lines.report.read() == {}
    lines.clock.advance(timedelta(seconds=1))
    assert lines.breakers.retry_at("apns") == START + WAIT
    assert lines.report.read() == {"apns": OpenCircuit(until=START + WAIT, reason=WRONG.reason)}


def test_breakers_work_without_redis() -> None:
    lines = ProviderLines()
    unavailable: Any = FailingPort(lines.report, CacheUnavailable)
    lines.breakers.circuit_report = unavailable
    lines.breakers.record("apns", WRONG)
    assert lines.breakers.retry_at("apns") == START + WAIT


def test_line_of_a_browser_contains_only_the_host() -> None:
    stage = Stage()
    address = WebSubscription(endpoint="https://push.example/a-secret", key=b"k", secret=b"s")
    assert line_of(replace(phone(stage, "lee"), address=address)) == "web push.example"


def iphone(stage: Stage, name: str, environment: ApnsEnvironment) -> Device:
    member, now = Member(stage.population.people[name].member), stage.state.clock.now()
    address = AppleToken(token=f"{member:064x}", topic="com.example.app", environment=environment)
    device = Device(member=member, address=address, registered_at=now - timedelta(days=1))
    stage.state.devices.write([device])
    return device


def test_apns_environments_have_separate_circuits() -> None:
    stage = Stage()
    stage.ports = replace(stage.ports, providers={Platform.APNS: stage.state.phones}, platforms=[Platform.APNS])
    work = build_slice_worker(stage.system())
    refused = iphone(stage, "kim", ApnsEnvironment.SANDBOX)  # the first device of the batch
    production_devices = [iphone(stage, name, ApnsEnvironment.PRODUCTION) for name in ("lee", "roy")]
    stage.state.phones.answers[refused.id] = [ConfigError(reason="BadEnvironmentKeyInToken")] * 99
    stage.mention("nova")
    for _ in range(5):
        stage.dispatch()
        stage.work(by=work)
        stage.pass_time(seconds=1)
    assert {device.id for _, device in stage.state.phones.arrived} == {device.id for device in production_devices}
    assert [*stage.state.circuit_report.read()] == ["apns sandbox"]


def stage_with_open_circuits(until: datetime) -> Stage:
    stage = Stage()
    for line in ("fcm", "web a.example", "web b.example"):
        stage.state.circuit_report.publish(
            line, OpenCircuit(until=until, reason="503 UNAVAILABLE"), timedelta(seconds=30)
        )
    return stage


def test_open_circuit_is_in_overview_doctor_and_gauge() -> None:
    stage = stage_with_open_circuits(START + WAIT)
    system = stage.system()
    monitor, overview, registry = build_load_monitor(system), build_overview(system), system.metrics.registry
    monitor()
    finding = open_circuits_finding(stage.ports)
    assert finding.level is Level.WARN
    assert finding.detail.startswith(
        f"Circuit breaker open: fcm until {START + WAIT:%H:%M:%S} UTC: 503 UNAVAILABLE; web a.ex"
    )
    assert set(overview.read().cache.open_circuits) == {"fcm", "web a.example", "web b.example"}
    open_circuits = {
        platform: registry.get_sample_value("notifier_push_open_circuits", {"platform": platform})
        for platform in PLATFORMS
    }
    assert open_circuits == {"apns": 0, "fcm": 1, "web": 2}
    stage.pass_time(seconds=31)
    monitor()
    assert registry.get_sample_value("notifier_push_open_circuits", {"platform": "web"}) == 0
    assert (open_circuits_finding(stage.ports).level, overview.read().cache.open_circuits) == (Level.OK, {})


PLATFORMS = ("apns", "fcm", "web")


def test_doctor_is_ok_when_circuit_reports_are_unavailable() -> None:
    stage = Stage()
    unavailable: Any = FailingPort(stage.ports.circuit_report, CacheUnavailable)
    finding = open_circuits_finding(replace(stage.ports, circuit_report=unavailable))
    assert (finding.level, finding.value) == (Level.OK, None)
    assert "Unknown while Redis" in finding.detail


def test_refusing_provider_is_reported_while_its_slices_wait() -> None:
    stage = Stage()
    for name in ("kim", "lee", "roy"):
        stage.state.phones.answers[phone(stage, name).id] = [WRONG]
    stage.mention("nova")
    overview, work = build_overview(stage.system()), build_slice_worker(stage.system())
    for _ in range(3):
        stage.dispatch()
        stage.work(by=work)
        stage.pass_time(seconds=1)
    [(line, circuit)] = stage.state.circuit_report.read().items()
    assert (line, circuit.reason) == ("fcm", "InvalidProviderToken")
    snapshot = overview.read()
    assert snapshot.shown_burst is not None
    assert snapshot.shown_burst.deferred_until is not None
    assert snapshot.at < snapshot.shown_burst.deferred_until <= circuit.until
    assert snapshot.cache.backlogs[Pool.FCM].deferred > 0
    assert snapshot.cache.backlogs[Pool.FCM].slices == 0
