"""The demo as a user runs it: real processes, a small world, and exit codes."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from notifier.devkit.check.delivery_latency import TIMED_FINDINGS
from tests.cli.conftest import Notifier

WORLD = ["--followers", "2000", "--universe", "4000", "--celebrities", "3", "--threshold", "1000"]
ENDS_WITHIN = 380
"""Seconds. Only a hanging run takes this long; a machine with a load of 20 needs more than 150."""
REQUIRED_CHECKS = {
    "nothing_lost",
    "shown_once",
    "rows_equal_oracle",
    "alerts_equal_oracle",
    "dormant_by_pull",
    "badge_equals_list",
    "totals_balance",
    "restart_remembers",
    "celebrity_lane_used",
}


def run_demo(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "notifier", "demo", "--headless", *arguments, "--json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NOTIFIER_")}
    return subprocess.run(command, capture_output=True, text=True, timeout=ENDS_WITHIN, env=environment, check=False)


def checks(process: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert process.stdout, process.stderr
    report = json.loads(process.stdout)
    assert report["schema"] == "notifier.check/1"
    return {check["name"]: check for check in report["checks"]}


@pytest.mark.timeout(400)
def test_storm_with_killed_processes_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Collapsing is off, so that work that was done twice leaves an extra row."""
    faults = "kill-worker,kill-pump,kill-api,flush-valkey"
    process = run_demo(*WORLD, "--mentions", "40", "--collapse", "0", "--faults", faults, "--keep", str(tmp_path))
    report = checks(process)
    assert process.returncode == 0, process.stdout
    assert {name for name in REQUIRED_CHECKS | {"collapse_off_distinct_rows"} if not report[name]["ok"]} == set(), (
        process.stderr
    )
    assert report["nothing_lost"]["n"] == 40
    assert report["faults_injected"]["value"] == 8


def test_fixture_load_is_idempotent_and_reports_counts(tmp_path: Path, notifier: Notifier) -> None:
    arguments = ["fixture", "--followers", "1000", "--universe", "4000", "--celebrities", "3"]
    first, second = (notifier(*arguments, "--data", str(tmp_path), "--json") for _ in range(2))
    assert first.exit_code == second.exit_code == 0, second.stderr
    assert json.loads(second.stdout)["celebrities"] == {"nova": 1000, "orion": 250, "lyra": 62}


@pytest.mark.parametrize(
    "arguments",
    [
        ("fixture", "--followers", "5", "--universe", "4"),
        ("fixture", "--followers", "0"),
        ("fixture", "--followers", "-1"),
        ("fixture", "--celebrities", "0"),
        ("demo", "--headless", "--followers", "5", "--universe", "4"),
        ("demo", "--headless", "--faults", "kill-everything"),
        ("demo", "--headless", "--mentions", "0"),
        ("demo", "--headless", "--collapse", "100000"),
        ("demo", "--headless", "--celebrities", "10001"),
        ("fixture", "--celebrities", "10001"),
    ],
)
def test_invalid_numbers_are_usage_errors(arguments: tuple[str, ...], tmp_path: Path, notifier: Notifier) -> None:
    data_option = ("--data", str(tmp_path)) if arguments[0] == "fixture" else ()
    result = notifier(*arguments, *data_option)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("without_names", [False, True])
def test_fixture_is_refused_by_folder_without_fixture_file(
    without_names: bool, tmp_path: Path, notifier: Notifier
) -> None:
    options = ["--followers", "1000", "--universe", "4000", "--celebrities", "2", "--data", str(tmp_path)]
    assert notifier("fixture", *options).exit_code == 0
    (tmp_path / "fixture.json").unlink()
    with sqlite3.connect(tmp_path / "core.db") as core:
        for table in ("users", "members", "user_ranges") if without_names else ():  # user names are loaded last
            core.execute(f"DELETE FROM {table}")
    for arguments in (options, ["--followers", "2000", *options[2:]]):
        result = notifier("fixture", *arguments)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (3, "", 1)
        assert result.stderr.startswith("The data folder holds another world")
        assert "has users, but no fixture.json" in result.stderr
    assert not (tmp_path / "fixture.json").exists()


@pytest.mark.prove
@pytest.mark.timeout(400)
def test_world_of_one_user_passes_without_dormant_users(tmp_path: Path) -> None:
    options = ("--followers", "1", "--universe", "1", "--celebrities", "1", "--mentions", "3")
    process = run_demo(*options, "--keep", str(tmp_path / "made"))
    report = checks(process)
    dormant, failed = report["dormant_by_pull"], {name for name, check in report.items() if not check["ok"]}
    assert failed <= TIMED_FINDINGS, process.stdout
    assert (process.returncode, dormant["ok"], dormant["n"]) == (1 if failed else 0, True, 0), process.stdout
    assert dormant["detail"] == "The first celebrity has no dormant follower."


def test_headless_demo_refuses_used_folder(tmp_path: Path, notifier: Notifier) -> None:
    (tmp_path / "core.db").touch()
    result = notifier("demo", "--headless", *WORLD, "--keep", str(tmp_path), "--json")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (3, "", 1)
    assert result.stderr.startswith("The folder isn't empty")
    assert [path.name for path in tmp_path.iterdir()] == ["core.db"]


def test_uncreatable_folder_is_reported_in_one_sentence(notifier: Notifier) -> None:
    result = notifier("demo", "--headless", *WORLD, "--keep", "/proc/notifier-demo")
    assert (result.exit_code, result.stderr.count("\n")) == (3, 1)
    assert result.stderr.startswith("The data folder can't be written to.")


def test_fixture_is_refused_by_folder_with_another_fixture(tmp_path: Path, notifier: Notifier) -> None:
    arguments = ["fixture", "--universe", "4000", "--celebrities", "2", "--data", str(tmp_path)]
    assert notifier(*arguments, "--followers", "1000").exit_code == 0
    result = notifier(*arguments, "--followers", "2000")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (3, "", 1)
    assert result.stderr.startswith("The data folder holds another world")
    assert "--universe 4000 --followers 1000 --celebrities 2 --seed 1" in result.stderr
    assert notifier(*arguments, "--followers", "1000").exit_code == 0
