"""`notifier doctor`: each finding with its remedy, and an exit code that a script can go by."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from notifier.adapters.sqlite.files import Files
from notifier.adapters.sqlite.stores.dead_letters import SqliteDeadLetters
from notifier.adapters.system_clock import SystemClock
from notifier.cli.commands.doctor.command import (
    DoctorFinding,
    Level,
    push_findings,
    python_finding,
    room_finding,
    sqlite_finding,
)
from notifier.cli.commands.doctor.data_folder import activity_finding, bursts_finding
from notifier.config import PushSettings
from notifier.config.push import ApnsSettings, WebPushSettings
from notifier.devkit.fake_providers.hosting import hosted
from notifier.domain.delivery.backlog import Sleeper
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Platform
from notifier.ports.event_log import DeadLetter
from tests.cli.conftest import Notifier
from tests.cli.delivered import deliver
from tests.support.failing_ports import Refusing
from tests.support.in_memory_system import Stage
from tests.support.push_credentials import KEY_ID, TEAM_ID, apple_key, pem

MINUTE = timedelta(minutes=1)


def test_a_good_folder_passes(folder: Path, notifier: Notifier) -> None:
    done = notifier("doctor", "--data", str(folder), "--json")
    found = json.loads(done.output)
    assert done.exit_code == 0
    assert found["ok"]
    names = {check["name"] for check in found["checks"]}
    assert names >= {
        "python",
        "sqlite",
        "valkey",
        "folder",
        "room",
        "push apns",
        "push fcm",
        "push web",
        "schema",
        "cache",
        "activity",
        "heads",
        "bursts",
        "left_alone",
        "dead_letters",
        "tier_rule",
    }


def test_a_rule_of_tiers_that_fails_for_what_stands_is_told_with_its_cause(folder: Path, notifier: Notifier) -> None:
    words = ("--followers", "900", "--universe", "1800", "--celebrities", "1")
    assert notifier("fixture", *words, "--data", str(folder)).exit_code == 0
    deliver(folder, "nova")
    done = notifier("doctor", "--data", str(folder), env={"NOTIFIER_TIER_RULE": "tests.flow.test_tiering:later"})
    assert done.exit_code == 1
    [line] = [line for line in done.output.splitlines() if "tier_rule" in line]
    assert line.startswith("fail  tier_rule")
    assert "tests.flow.test_tiering:later: KeyError" in line
    well = notifier("doctor", "--data", str(folder), env={"NOTIFIER_TIER_RULE": "examples.tier_rule:generous"})
    assert (well.exit_code, "examples.tier_rule:generous, asked of" in well.output) == (0, True)


def test_the_newest_dead_letter_s_cause_is_told(folder: Path, notifier: Notifier) -> None:
    files = Files.at(folder)
    letter = DeadLetter(id="x", stage="p1", cause="RuleFailed: it is tired", body=b"", at=SystemClock().now())
    SqliteDeadLetters(files.core).put(letter)
    files.close()
    output = notifier("doctor", "--data", str(folder)).output
    assert "1. The newest, of p1: RuleFailed: it is tired" in output


def test_nothing_running_is_a_warning_with_a_remedy(folder: Path, notifier: Notifier) -> None:
    done = notifier("doctor", "--data", str(folder))
    assert done.exit_code == 0
    assert "warn  running" in done.output
    assert "`notifier up` starts it." in done.output
    assert "\x1b" not in done.output


def test_a_folder_that_is_not_there_fails_and_is_not_made(tmp_path: Path, notifier: Notifier) -> None:
    nowhere = tmp_path / "nowhere"
    done = notifier("doctor", "--data", str(nowhere))
    assert done.exit_code == 1
    assert "fail  folder" in done.output
    assert not nowhere.exists()


def test_a_folder_without_tables_fails_and_gets_none(tmp_path: Path, notifier: Notifier) -> None:
    done = notifier("doctor", "--data", str(tmp_path), "--json")
    schema = next(check for check in json.loads(done.output)["checks"] if check["name"] == "schema")
    assert done.exit_code == 1
    assert not schema["ok"]
    assert "notifier migrate" in schema["detail"]


def test_a_newer_schema_is_one_sentence_wherever_it_is_met(folder: Path, notifier: Notifier) -> None:
    with sqlite3.connect(folder / "core.db") as core:
        core.execute("INSERT INTO migrations VALUES (9999, '9999_from_the_future', 'x', 0)")
    core.close()
    assert notifier("doctor", "--data", str(folder)).exit_code == 1
    for words in (("dump", "bursts"), ("migrate",), ("up", "--port", "0")):
        done = notifier(*words, "--data", str(folder))
        assert done.exit_code == 3
        assert done.stderr.startswith("The store was written by a newer version")


@pytest.mark.parametrize(
    ("found", "level"),
    [
        (python_finding((3, 10)), Level.FAIL),
        (python_finding((3, 11)), Level.OK),
        (sqlite_finding((3, 37, 2)), Level.FAIL),
        (sqlite_finding((3, 45, 0)), Level.OK),
        (room_finding(1 << 20), Level.FAIL),
        (room_finding(1 << 30), Level.WARN),
        (room_finding(1 << 40), Level.OK),
    ],
    ids=str,
)
def test_a_machine_is_judged_by_what_is_needed(found: object, level: Level) -> None:
    assert getattr(found, "level", None) is level


@pytest.mark.parametrize(
    ("ago", "every", "level", "words"),
    [
        (timedelta(minutes=1), MINUTE, Level.OK, "Rolled up at 12:00:00 UTC."),
        (timedelta(minutes=4), MINUTE, Level.WARN, "the last snapshot: of 2026-01-05 12:00:00 UTC."),
        (None, MINUTE, Level.WARN, "the last snapshot: no roll-up is known of."),
        (None, timedelta(0), Level.OK, "as they were loaded"),
    ],
)
def test_tiers_that_are_made_of_a_snapshot_are_a_warning(
    ago: timedelta | None, every: timedelta, level: Level, words: str
) -> None:
    stage = Stage()
    if ago is not None:
        stage.ports.active_hours.rolled_up(stage.ground.clock.now(), timedelta(days=1))
        stage.ground.clock.advance(ago)
    found = activity_finding(stage.ports, every)
    assert found.level is level
    assert words in found.detail


def test_without_redis_tiers_are_made_of_a_snapshot() -> None:
    stage = Stage()
    away: Any = Refusing(stage.ports.active_hours, CacheUnavailable)
    found = activity_finding(replace(stage.ports, active_hours=away), MINUTE)
    assert (found.level, found.value) == (Level.WARN, "snapshot")


def test_bursts_of_sleepers_are_told_apart_from_those_with_work_left() -> None:
    stage = Stage()
    stage.mention("nova")
    now = stage.ground.clock.now()
    assert bursts_finding(stage.ports).detail == "2 with work left."
    [key] = stage.bursts()
    stage.ground.sleepers.lay([Sleeper(burst=key, opened_at=now, until=now + 9 * MINUTE)], now)
    found = bursts_finding(stage.ports)
    assert (found.detail, found.value) == ("1 with work left, and 1 that sleep until somebody of theirs wakes.", 1)


def test_a_fake_that_is_sent_to_and_doesn_t_listen_is_a_warning_with_the_way_to_run_it() -> None:
    with hosted(Platform.WEB) as one:
        found = _of_push(web=WebPushSettings(fake=one.origin))["push web"]
        assert (found.level, one.origin in found.detail) == (Level.OK, True)
    found = _of_push(web=WebPushSettings(fake=one.origin))["push web"]
    assert (found.level, found.detail) == (Level.WARN, f"No fake listens at {one.origin}.")
    assert found.remedy == "Run it (`notifier fake webpush`), or take NOTIFIER_PUSH_WEB_FAKE away."


def test_credentials_that_can_t_be_used_fail_for_their_platform_alone(tmp_path: Path) -> None:
    key = tmp_path / "AuthKey.p8"
    key.write_text("no key")
    found = _of_push(apns=ApnsSettings(key=str(key), key_id=KEY_ID, team_id=TEAM_ID))
    assert [each.level for each in found.values()] == [Level.FAIL, Level.OK, Level.OK]
    assert "is not PEM" in found["push apns"].detail
    key.write_bytes(pem(apple_key()))
    [apns, *_] = _of_push(
        apns=ApnsSettings(key=str(key), key_id=KEY_ID, team_id=TEAM_ID, topics="com.example.app")
    ).values()
    assert apns.detail == f"With the key {KEY_ID} of the team {TEAM_ID}."
    assert apns.level is Level.OK


def test_a_key_of_apple_s_without_the_names_of_our_apps_is_a_warning(tmp_path: Path) -> None:
    key = tmp_path / "AuthKey.p8"
    key.write_bytes(pem(apple_key()))
    found = _of_push(apns=ApnsSettings(key=str(key), key_id=KEY_ID, team_id=TEAM_ID))["push apns"]
    assert (found.level, found.remedy) == (Level.WARN, "Name your apps: NOTIFIER_PUSH_APNS_TOPICS.")
    assert found.detail.startswith(f"With the key {KEY_ID} of the team {TEAM_ID}. Devices of any app")


def _of_push(**sections: Any) -> Mapping[str, DoctorFinding]:
    return {each.name: each for each in push_findings(PushSettings(**sections))}
