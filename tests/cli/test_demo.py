"""The demo as an outsider runs it: real processes, a small world, and exit codes that tell the truth."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from notifier.devkit.check.latency_report import TIMED
from tests.cli.conftest import Notifier

WORLD = ["--followers", "2000", "--universe", "4000", "--celebrities", "3", "--threshold", "1000"]
ENDS_WITHIN = 380
"""Seconds, which only end a trial that hangs; a machine with a load of 20 needs more than 150."""
ALWAYS = {
    "nothing_lost",
    "shown_once",
    "rows_equal_oracle",
    "alerts_equal_oracle",
    "dormant_by_pull",
    "badge_equals_list",
    "books_balance",
    "restart_remembers",
    "celebrity_lane_used",
}


def trial(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "notifier", "demo", "--headless", *arguments, "--json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NOTIFIER_")}
    return subprocess.run(command, capture_output=True, text=True, timeout=ENDS_WITHIN, env=environment, check=False)


def checks(ran: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    report = json.loads(ran.stdout)
    assert report["schema"] == "notifier.check/1"
    return {check["name"]: check for check in report["checks"]}


@pytest.mark.timeout(400)
def test_a_storm_in_which_processes_are_killed_loses_nothing_and_gives_each_mention_its_row(tmp_path: Path) -> None:
    """Without collapsing: then what was done twice is a row too many."""
    faults = "kill-worker,kill-pump,kill-api,flush-valkey"
    ran = trial(*WORLD, "--mentions", "40", "--collapse", "0", "--faults", faults, "--keep", str(tmp_path))
    found = checks(ran)
    assert ran.returncode == 0, ran.stdout
    assert {name for name in ALWAYS | {"collapse_off_distinct_rows"} if not found[name]["ok"]} == set(), ran.stderr
    assert found["nothing_lost"]["n"] == 40
    assert found["faults_struck"]["value"] == 8


def test_the_fixture_loads_twice_to_the_same_effect_and_says_what_it_loaded(tmp_path: Path, notifier: Notifier) -> None:
    arguments = ["fixture", "--followers", "1000", "--universe", "4000", "--celebrities", "3"]
    once, twice = (notifier(*arguments, "--data", str(tmp_path), "--json") for _ in range(2))
    assert once.exit_code == twice.exit_code == 0, twice.stderr
    assert json.loads(twice.stdout)["celebrities"] == {"nova": 1000, "orion": 250, "lyra": 62}


@pytest.mark.parametrize(
    "wrong",
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
def test_numbers_that_make_no_sense_are_wrong_usage(wrong: tuple[str, ...], tmp_path: Path, notifier: Notifier) -> None:
    where = ("--data", str(tmp_path)) if wrong[0] == "fixture" else ()
    ran = notifier(*wrong, *where)
    assert ran.exit_code == 2
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("cut_off", [False, True])
def test_a_fixture_is_refused_by_a_folder_with_people_of_whom_there_is_no_note(
    cut_off: bool, tmp_path: Path, notifier: Notifier
) -> None:
    words = ["--followers", "1000", "--universe", "4000", "--celebrities", "2", "--data", str(tmp_path)]
    assert notifier("fixture", *words).exit_code == 0
    (tmp_path / "fixture.json").unlink()
    with sqlite3.connect(tmp_path / "core.db") as core:
        for table in ("users", "members", "user_ranges") if cut_off else ():  # their names are loaded last
            core.execute(f"DELETE FROM {table}")
    for again in (words, ["--followers", "2000", *words[2:]]):
        ran = notifier("fixture", *again)
        assert (ran.exit_code, ran.stdout, ran.stderr.count("\n")) == (3, "", 1)
        assert ran.stderr.startswith("The data folder holds another world")
        assert "has people, and no fixture.json" in ran.stderr
    assert not (tmp_path / "fixture.json").exists()


@pytest.mark.timeout(400)
def test_a_world_of_one_person_passes_though_nobody_is_dormant(tmp_path: Path) -> None:
    few = ("--followers", "1", "--universe", "1", "--celebrities", "1", "--mentions", "3")
    ran = trial(*few, "--keep", str(tmp_path / "made"))
    found = checks(ran)
    dormant, wrong = found["dormant_by_pull"], {name for name, check in found.items() if not check["ok"]}
    assert wrong <= TIMED, ran.stdout
    assert (ran.returncode, dormant["ok"], dormant["n"]) == (1 if wrong else 0, True, 0), ran.stdout
    assert dormant["detail"] == "Nobody is dormant in this world."


def test_a_folder_that_was_used_is_not_judged_as_if_it_were_new(tmp_path: Path, notifier: Notifier) -> None:
    (tmp_path / "core.db").touch()
    ran = notifier("demo", "--headless", *WORLD, "--keep", str(tmp_path), "--json")
    assert (ran.exit_code, ran.stdout, ran.stderr.count("\n")) == (3, "", 1)
    assert ran.stderr.startswith("The folder isn't empty")
    assert [path.name for path in tmp_path.iterdir()] == ["core.db"]


def test_a_folder_that_cannot_be_made_is_one_sentence(notifier: Notifier) -> None:
    ran = notifier("demo", "--headless", *WORLD, "--keep", "/proc/notifier-demo")
    assert (ran.exit_code, ran.stderr.count("\n")) == (3, 1)
    assert ran.stderr.startswith("The data folder can't be written to.")


def test_a_fixture_is_refused_by_a_folder_that_holds_another(tmp_path: Path, notifier: Notifier) -> None:
    arguments = ["fixture", "--universe", "4000", "--celebrities", "2", "--data", str(tmp_path)]
    assert notifier(*arguments, "--followers", "1000").exit_code == 0
    ran = notifier(*arguments, "--followers", "2000")
    assert (ran.exit_code, ran.stdout, ran.stderr.count("\n")) == (3, "", 1)
    assert ran.stderr.startswith("The data folder holds another world")
    assert "--universe 4000 --followers 1000 --celebrities 2 --seed 1" in ran.stderr
    assert notifier(*arguments, "--followers", "1000").exit_code == 0
