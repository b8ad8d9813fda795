"""The whole service on real engines: a storm, looked at from outside, and the verbs that people type beside it."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from notifier.cli import main
from notifier.devkit.check.latency_report import TIMED
from notifier.devkit.check.run import CheckPlan, trial
from notifier.devkit.engines.fleet import EngineRecord
from notifier.devkit.fixture.world import World
from tests.services.own import own

pytestmark = pytest.mark.timeout(480)

COLLAPSE = 5.0
"""Seconds: the storm waits until the windows of its rehearsal are over."""
ENGINES_FAIL = ("kill-cassandra", "kill-valkey", "cut-kafka", "refuse-cassandra")
SMALL = ("--followers", "100000", "--celebrities", "3", "--threshold", "50000", "--mentions", "60", "--collapse", "5")
DATABASES = range(7, 14)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, fleet: Mapping[str, EngineRecord]) -> Path:
    return own(tmp_path_factory.mktemp("clustered"), fleet, DATABASES)


def test_a_storm_reaches_everybody_as_the_formulas_say(data: Path) -> None:
    world = World(universe=400_000, followers=200_000, celebrities=3, seed=1)
    script = CheckPlan(
        data=data, world=world, mentions=60, threshold=100_000, collapse=COLLAPSE, seed=1, profile="cluster"
    )
    with trial(script) as prepared:
        found = prepared.run()
    wrong = [finding for finding in found if not finding.ok and finding.name not in TIMED]
    assert wrong == [], "\n".join(said(data))
    assert len([finding for finding in found if finding.name not in TIMED]) > 8
    for second in ("p0-2", "p1-2"):
        assert "succeeded" in (data / "logs" / f"{second}.log").read_text(), "it had its part"


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_a_storm_in_which_engines_die_are_cut_off_and_refuse_reaches_everybody(tmp_path: Path) -> None:
    """On engines of its own, as people try it; with all the faults there are, and for longer, it is left to them."""
    words = ["demo", "--headless", "--profile", "cluster", "--faults", ",".join(ENGINES_FAIL), *SMALL]
    command = [sys.executable, "-m", "notifier", *words, "--json", "--keep", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    found = {check["name"]: check for check in json.loads(ran.stdout)["checks"]}
    assert (ran.returncode, [each for each in found.values() if not each["ok"]]) == (0, []), "\n".join(said(tmp_path))
    assert found["faults_struck"]["value"] == 2 * len(ENGINES_FAIL)


def said(data: Path) -> Iterator[str]:
    """The last words of each role: what went wrong elsewhere can be found out only there."""
    for file in sorted((data / "logs").iterdir()):
        yield f"{file.name}:"
        yield from file.read_text().splitlines()[-25:]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ledger", "mention:nova#1"), "mention:nova#1"),
        (("explain", "mention:nova#1", "u1"), "u1"),
        (("tab", "u1"), "u1: "),
        (("deadletters",), "There are no dead letters."),
        (("migrate",), "steps taken: 0"),
        (("throttle", "list"), ""),
        (("dump", "bursts", "--ndjson"), '"mention:nova#1"'),
        (("settings",), "NOTIFIER_CASSANDRA_KEYSPACE"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_verb_works_on_it(data: Path, words: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(main, [*words, "--profile", "cluster", "--data", str(data)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert said in done.output
