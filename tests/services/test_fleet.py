"""The real engines, as `notifier services` runs them: they outlive the command, a kill, and each other."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from notifier.cli import main
from notifier.devkit.engines.engine import SCRATCH
from notifier.devkit.engines.maven import missing

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        bool(missing()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing())}"
    ),
]


def services(*words: str, data: Path) -> str:
    """As a command of its own, which ends: the engines go on without it."""
    command = [sys.executable, "-m", "notifier", "services", *words, "--data", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def pids(data: Path) -> dict[str, int]:
    return {
        name: one["pid"] for name, one in json.loads(services("status", "--json", data=data)).items() if one["runs"]
    }


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    found = tmp_path_factory.mktemp("fleet")
    try:
        services("up", data=found)
        yield found
    finally:
        services("down", data=found)


def test_all_of_them_run_and_who_starts_them_again_changes_nothing(data: Path) -> None:
    before = pids(data)
    assert set(before) == {"kafka", "cassandra", "valkey"}
    assert services("up", data=data).startswith("All of them run already.")
    assert "stop it first" in services("up", "--periodic", data=data)
    assert pids(data) == before


def test_who_was_killed_is_told_of_and_comes_back_at_its_address_while_the_others_go_on(data: Path) -> None:
    """Its password is the same, too: who goes on has no other."""
    before, addresses = pids(data), status(data)
    settings = (data / "services" / "settings.toml").read_text()
    for name in ("kafka", "valkey"):
        os.kill(before[name], signal.SIGKILL)
    assert set(pids(data)) == {"cassandra"}
    services("up", data=data)
    after = pids(data)
    assert {name for name in after if after[name] != before[name]} == {"kafka", "valkey"}
    assert status(data) == addresses
    assert (data / "services" / "settings.toml").read_text() == settings


def test_what_its_libraries_unpack_is_below_the_engines_folder(data: Path) -> None:
    assert [*(data / "services" / "cassandra" / SCRATCH).iterdir()]


def test_passwords_are_for_their_owner_alone(data: Path) -> None:
    for name in ("services.json", "valkey/valkey.conf"):
        assert (data / "services" / name).stat().st_mode & 0o077 == 0
    assert "redis://" not in services("status", "--json", data=data)


def test_stopped_they_are_gone_and_what_was_stored_is_there(tmp_path: Path, data: Path) -> None:
    services("down", data=data)
    assert pids(data) == {}
    assert "not running" in services("status", data=data)
    assert (data / "services" / "cassandra" / "commitlog").exists()


def test_without_java_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = CliRunner().invoke(main, ["services", "up", "--data", str(tmp_path / "data")])
    assert (done.exit_code, shutil.which("java")) == (3, None)
    assert "There is no java here. Install Java 17 and Maven" in done.output


def status(data: Path) -> Sequence[str]:
    return [one["address"] for one in json.loads(services("status", "--json", data=data)).values()]
