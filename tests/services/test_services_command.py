"""`notifier services`: engines outlive the command, and are restarted after a kill."""

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
from notifier.devkit.engines.engine_process import SCRATCH_FOLDER
from notifier.devkit.engines.maven import missing_tools

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        bool(missing_tools()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing_tools())}"
    ),
]


def services(*arguments: str, data: Path) -> str:
    """Run the command in its own process. The engines go on after it ends."""
    command = [sys.executable, "-m", "notifier", "services", *arguments, "--data", str(data)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


def pids(data: Path) -> dict[str, int]:
    return {
        name: facts["pid"]
        for name, facts in json.loads(services("status", "--json", data=data)).items()
        if facts["running"]
    }


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("fleet")
    try:
        services("up", data=folder)
        yield folder
    finally:
        services("down", data=folder)


@pytest.mark.prove
def test_starting_running_engines_changes_nothing(data: Path) -> None:
    before = pids(data)
    assert set(before) == {"kafka", "cassandra", "valkey"}
    assert services("up", data=data).startswith("All services are already running.")
    assert "stop it first" in services("up", "--periodic", data=data)
    assert pids(data) == before


def test_only_killed_engines_are_restarted_at_their_addresses(data: Path) -> None:
    """The password stays the same, because running processes have no other."""
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


def test_libraries_unpack_below_the_engines_folder(data: Path) -> None:
    assert [*(data / "services" / "cassandra" / SCRATCH_FOLDER).iterdir()]


def test_passwords_are_readable_by_owner_only(data: Path) -> None:
    for name in ("services.json", "valkey/valkey.conf"):
        assert (data / "services" / name).stat().st_mode & 0o077 == 0
    assert "redis://" not in services("status", "--json", data=data)


def test_stopped_engines_keep_their_data(data: Path) -> None:
    services("down", data=data)
    assert pids(data) == {}
    assert "not running" in services("status", data=data)
    assert (data / "services" / "cassandra" / "commitlog").exists()


def test_missing_java_is_reported_with_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(main, ["services", "up", "--data", str(tmp_path / "data")])
    assert (result.exit_code, shutil.which("java")) == (3, None)
    assert "java is not installed. Install Java 17 and Maven" in result.output


def status(data: Path) -> Sequence[str]:
    return [facts["address"] for facts in json.loads(services("status", "--json", data=data)).values()]
