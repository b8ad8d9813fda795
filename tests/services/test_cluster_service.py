"""The whole service on real engines: a checked storm, and commands of operators."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from notifier.cli import main
from notifier.devkit.check.check_run import CheckPlan, prepared_run
from notifier.devkit.check.delivery_latency import TIMED_FINDINGS
from notifier.devkit.engines.fleet import EngineRecord
from notifier.devkit.fixture.world import World
from tests.services.prepare_data_folder import prepare_folder

pytestmark = pytest.mark.timeout(480)

COLLAPSE = 5.0
"""Seconds. The storm waits until the collapse windows of its warm-up are over."""
ENGINES_FAIL = ("kill-cassandra", "kill-valkey", "cut-kafka", "refuse-cassandra")
SMALL = ("--followers", "100000", "--celebrities", "3", "--threshold", "50000", "--mentions", "60", "--collapse", "5")
DATABASES = range(7, 14)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, fleet: Mapping[str, EngineRecord]) -> Path:
    return prepare_folder(tmp_path_factory.mktemp("clustered"), fleet, DATABASES)


def test_storm_matches_formulas(data: Path) -> None:
    world = World(universe=400_000, followers=200_000, celebrities=3, seed=1)
    script = CheckPlan(
        data=data, world=world, mentions=60, threshold=100_000, collapse=COLLAPSE, seed=1, profile="cluster"
    )
    with prepared_run(script) as prepared:
        findings = prepared.run()
    failed = [finding for finding in findings if not finding.ok and finding.name not in TIMED_FINDINGS]
    assert failed == [], "\n".join(log_tails(data))
    assert len([finding for finding in findings if finding.name not in TIMED_FINDINGS]) > 8
    for role in ("p0-2", "p1-2"):
        assert "succeeded" in (data / "logs" / f"{role}.log").read_text(), "the second process has processed no task"


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_storm_with_engine_faults_loses_nothing(tmp_path: Path) -> None:
    """The demo starts its own engines, as a user would run it. Longer runs with all faults are left to users."""
    arguments = ["demo", "--headless", "--profile", "cluster", "--faults", ",".join(ENGINES_FAIL), *SMALL]
    command = [sys.executable, "-m", "notifier", *arguments, "--json", "--keep", str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    checks = {check["name"]: check for check in json.loads(process.stdout)["checks"]}
    assert (process.returncode, [check for check in checks.values() if not check["ok"]]) == (0, []), "\n".join(
        log_tails(tmp_path)
    )
    assert checks["faults_injected"]["value"] == 2 * len(ENGINES_FAIL)


def log_tails(data: Path) -> Iterator[str]:
    """Yield the last lines of each role's log: the cause of a failure may be visible only there."""
    for file in sorted((data / "logs").iterdir()):
        yield f"{file.name}:"
        yield from file.read_text().splitlines()[-25:]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("ledger", "mention:nova#1"), "mention:nova#1"),
        (("explain", "mention:nova#1", "u1"), "u1"),
        (("inbox", "u1"), "u1: "),
        (("deadletters",), "There are no dead letters."),
        (("migrate",), "steps applied: 0"),
        (("throttle", "list"), ""),
        (("dump", "bursts", "--ndjson"), '"mention:nova#1"'),
        (("settings",), "NOTIFIER_CASSANDRA_KEYSPACE"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_command_works_on_cluster(data: Path, arguments: tuple[str, ...], expected: str) -> None:
    result = CliRunner().invoke(main, [*arguments, "--profile", "cluster", "--data", str(data)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert expected in result.output
