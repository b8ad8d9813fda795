"""`notifier doctor`: each finding with its remedy, and the exit code."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from notifier.adapters.clock_and_nonces import SystemClock
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.stores.dead_letters import SqliteDeadLetters
from notifier.cli.commands.doctor.command_machine_and_credential_checks import (
    DoctorFinding,
    Level,
    disk_finding,
    push_findings,
    python_finding,
    sqlite_finding,
)
from notifier.cli.commands.doctor.stores_and_processes import activity_finding, bursts_finding
from notifier.config import PushSettings
from notifier.config.push import ApnsSettings, WebPushSettings
from notifier.devkit.fake_providers.hosting import host_fake
from notifier.domain.delivery.dispatch_backlog import DeferredBurst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Platform
from notifier.ports.event_log_and_dead_letters import DeadLetter
from tests.cli.conftest import Notifier
from tests.cli.in_process_delivery import deliver_mention
from tests.support.failing_and_corrupt_ports import FailingPort
from tests.support.in_memory_system import Stage
from tests.support.push_credentials import APPLE_KEY_ID, APPLE_TEAM_ID, apple_key, pem

MINUTE = timedelta(minutes=1)


def test_good_folder_passes(folder: Path, notifier: Notifier) -> None:
    result = notifier("doctor", "--data", str(folder), "--json")
    report = json.loads(result.output)
    assert result.exit_code == 0
    assert report["ok"]
    names = {check["name"] for check in report["checks"]}
    assert names >= {
        "python",
        "sqlite",
        "valkey",
        "folder",
        "disk",
        "push apns",
        "push fcm",
        "push web",
        "schema",
        "cache",
        "activity",
        "heads",
        "bursts",
        "open_circuits",
        "dead_letters",
        "tier_rule",
    }


def test_failing_rule_of_tiers_is_reported_with_cause(folder: Path, notifier: Notifier) -> None:
    options = ("--followers", "900", "--universe", "1800", "--celebrities", "1")
    assert notifier("fixture", *options, "--data", str(folder)).exit_code == 0
    deliver_mention(folder, "nova")
    result = notifier(
        "doctor",
        "--data",
        str(folder),
        env={"NOTIFIER_TIER_RULE": "tests.flow.test_custom_tier_rule:fails_with_followers"},
    )
    assert result.exit_code == 1
    [line] = [line for line in result.output.splitlines() if "tier_rule" in line]
    assert line.startswith("fail  tier_rule")
    assert "tests.flow.test_custom_tier_rule:fails_with_followers: KeyError" in line
    passing = notifier("doctor", "--data", str(folder), env={"NOTIFIER_TIER_RULE": "examples.tier_rule:generous"})
    assert (passing.exit_code, "examples.tier_rule:generous, tried on" in passing.output) == (0, True)


def test_newest_dead_letter_is_reported_with_cause(folder: Path, notifier: Notifier) -> None:
    files = Files.at(folder)
    letter = DeadLetter(id="x", stage="p1", cause="RuleFailed: it is tired", body=b"", at=SystemClock().now())
    SqliteDeadLetters(files.core).put(letter)
    files.close()
    output = notifier("doctor", "--data", str(folder)).output
    assert "1. Newest, from p1: RuleFailed: it is tired" in output


def test_stopped_service_is_a_warning_with_remedy(folder: Path, notifier: Notifier) -> None:
    result = notifier("doctor", "--data", str(folder))
    assert result.exit_code == 0
    assert "warn  running" in result.output
    assert "Start one with `notifier up`." in result.output
    assert "\x1b" not in result.output


def test_missing_folder_fails_and_is_not_created(tmp_path: Path, notifier: Notifier) -> None:
    missing = tmp_path / "nowhere"
    result = notifier("doctor", "--data", str(missing))
    assert result.exit_code == 1
    assert "fail  folder" in result.output
    assert not missing.exists()


def test_folder_without_tables_fails_and_stays_empty(tmp_path: Path, notifier: Notifier) -> None:
    result = notifier("doctor", "--data", str(tmp_path), "--json")
    schema = next(check for check in json.loads(result.output)["checks"] if check["name"] == "schema")
    assert result.exit_code == 1
    assert not schema["ok"]
    assert "notifier migrate" in schema["detail"]


def test_newer_schema_is_reported_in_one_sentence(folder: Path, notifier: Notifier) -> None:
    with sqlite3.connect(folder / "core.db") as core:
        core.execute("INSERT INTO migrations VALUES (9999, '9999_from_the_future', 'x', 0)")
    core.close()
    assert notifier("doctor", "--data", str(folder)).exit_code == 1
    for arguments in (("dump", "bursts"), ("migrate",), ("up", "--port", "0")):
        result = notifier(*arguments, "--data", str(folder))
        assert result.exit_code == 3
        assert result.stderr.startswith("The store was written by a newer version")


@pytest.mark.parametrize(
    ("finding", "level"),
    [
        (python_finding((3, 10)), Level.FAIL),
        (python_finding((3, 11)), Level.OK),
        (sqlite_finding((3, 37, 2)), Level.FAIL),
        (sqlite_finding((3, 45, 0)), Level.OK),
        (disk_finding(1 << 20), Level.FAIL),
        (disk_finding(1 << 30), Level.WARN),
        (disk_finding(1 << 40), Level.OK),
    ],
    ids=str,
)
def test_machine_findings_follow_requirements(finding: object, level: Level) -> None:
    assert getattr(finding, "level", None) is level


@pytest.mark.parametrize(
    ("ago", "every", "level", "detail"),
    [
        (timedelta(minutes=1), MINUTE, Level.OK, "Last roll-up at 12:00:00 UTC."),
        (timedelta(minutes=4), MINUTE, Level.WARN, "the last activity snapshot: rolled up at 2026-01-05 12:00:00 UTC."),
        (None, MINUTE, Level.WARN, "the last activity snapshot: no roll-up is recorded."),
        (None, timedelta(0), Level.OK, "tiers stay as loaded"),
    ],
)
def test_activity_finding_depends_on_age_of_roll_up(
    ago: timedelta | None, every: timedelta, level: Level, detail: str
) -> None:
    stage = Stage()
    if ago is not None:
        stage.ports.active_hours.record_roll_up(stage.state.clock.now(), timedelta(days=1))
        stage.state.clock.advance(ago)
    finding = activity_finding(stage.ports, every)
    assert finding.level is level
    assert detail in finding.detail


def test_tiers_come_from_snapshot_without_redis() -> None:
    stage = Stage()
    unavailable: Any = FailingPort(stage.ports.active_hours, CacheUnavailable)
    finding = activity_finding(replace(stage.ports, active_hours=unavailable), MINUTE)
    assert (finding.level, finding.value) == (Level.WARN, "snapshot")


def test_deferred_bursts_are_counted_apart_from_pending_ones() -> None:
    stage = Stage()
    stage.mention("nova")
    now = stage.state.clock.now()
    assert bursts_finding(stage.ports).detail == "2 unfinished."
    [key] = stage.bursts()
    stage.state.deferred_bursts.defer([DeferredBurst(burst=key, opened_at=now, until=now + 9 * MINUTE)], now)
    finding = bursts_finding(stage.ports)
    assert (finding.detail, finding.value) == ("1 unfinished, and 1 deferred to a later time.", 1)


def test_configured_fake_that_is_down_is_a_warning_with_remedy() -> None:
    with host_fake(Platform.WEB) as fake:
        finding = _push_findings(web=WebPushSettings(fake=fake.origin))["push web"]
        assert (finding.level, fake.origin in finding.detail) == (Level.OK, True)
    finding = _push_findings(web=WebPushSettings(fake=fake.origin))["push web"]
    assert (finding.level, finding.detail) == (Level.WARN, f"No fake listens at {fake.origin}.")
    assert finding.remedy == "Start it (`notifier fake webpush`), or unset NOTIFIER_PUSH_WEB_FAKE."


def test_invalid_credentials_fail_only_their_platform(tmp_path: Path) -> None:
    key = tmp_path / "AuthKey.p8"
    key.write_text("no key")
    findings = _push_findings(apns=ApnsSettings(key=str(key), key_id=APPLE_KEY_ID, team_id=APPLE_TEAM_ID))
    assert [finding.level for finding in findings.values()] == [Level.FAIL, Level.OK, Level.OK]
    assert "is not PEM" in findings["push apns"].detail
    key.write_bytes(pem(apple_key()))
    [apns, *_] = _push_findings(
        apns=ApnsSettings(key=str(key), key_id=APPLE_KEY_ID, team_id=APPLE_TEAM_ID, topics="com.example.app")
    ).values()
    assert apns.detail == f"With key {APPLE_KEY_ID} of team {APPLE_TEAM_ID}."
    assert apns.level is Level.OK


def test_apple_key_without_app_topics_is_a_warning(tmp_path: Path) -> None:
    key = tmp_path / "AuthKey.p8"
    key.write_bytes(pem(apple_key()))
    finding = _push_findings(apns=ApnsSettings(key=str(key), key_id=APPLE_KEY_ID, team_id=APPLE_TEAM_ID))["push apns"]
    assert (finding.level, finding.remedy) == (Level.WARN, "List your apps in NOTIFIER_PUSH_APNS_TOPICS.")
    assert finding.detail.startswith(f"With key {APPLE_KEY_ID} of team {APPLE_TEAM_ID}. Devices of any app")


def _push_findings(**sections: Any) -> Mapping[str, DoctorFinding]:
    return {finding.name: finding for finding in push_findings(PushSettings(**sections))}
