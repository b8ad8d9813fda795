"""`notifier key` adds, lists and removes service keys, and shows each key once."""

import json
from pathlib import Path

import httpx
import pytest

from notifier.api.auth.service_and_installation_keys import SERVICE_KEYS_FILE, Scope
from notifier.cli.commands.key import SCOPES
from notifier.devkit.check.notifier_and_engine_processes import Instance
from tests.cli.conftest import Notifier
from tests.cli.running_service import STARTS_WITHIN, until
from tests.cli.service_caller import ANSWERS_WITHIN


def test_scopes_of_the_command_are_those_of_the_service() -> None:
    assert tuple(Scope) == SCOPES


def test_key_is_printed_only_once(folder: Path, notifier: Notifier) -> None:
    key = notifier("key", "add", "tweets", "--scope", "events", "--data", str(folder)).stdout.strip()
    assert key.startswith("nsk_")
    listing = notifier("key", "list", "--data", str(folder)).stdout
    assert ("tweets" in listing, "events" in listing, key in listing) == (True, True, False)
    assert key not in (folder / SERVICE_KEYS_FILE).read_text()


def test_older_of_two_keys_is_removed_by_id(folder: Path, notifier: Notifier) -> None:
    def run(*arguments: str) -> str:
        return notifier("key", *arguments, "--json", "--data", str(folder)).stdout

    old, new = (json.loads(run("add", "tweets", "--scope", "events", "--scope", "follows")) for _ in range(2))
    assert old["scopes"] == ["events", "follows"]
    ambiguous = notifier("key", "remove", "tweets", "--data", str(folder))
    assert (ambiguous.exit_code, "2 keys are named tweets" in ambiguous.stderr) == (2, True)
    assert json.loads(run("remove", old["id"]))["id"] == old["id"]
    assert [key["id"] for key in json.loads(run("list"))] == [new["id"]]
    run("remove", "tweets")
    assert json.loads(run("list")) == []
    assert notifier("key", "remove", "tweets", "--data", str(folder)).exit_code == 2


@pytest.mark.parametrize("name", ["", "Tweets", "a b", "-a", "x" * 65, "a\nb", "ü"])
def test_invalid_key_name_is_refused(name: str, folder: Path, notifier: Notifier) -> None:
    result = notifier("key", "add", "--scope", "events", "--data", str(folder), "--", name)
    assert (result.exit_code, result.stdout) == (2, "")


def test_key_requires_existing_scope(folder: Path, notifier: Notifier) -> None:
    assert notifier("key", "add", "tweets", "--data", str(folder)).exit_code == 2
    assert notifier("key", "add", "tweets", "--scope", "all", "--data", str(folder)).exit_code == 2


def test_missing_folder_is_not_created(tmp_path: Path, notifier: Notifier) -> None:
    missing = tmp_path / "nowhere"
    for arguments in (("list",), ("add", "a", "--scope", "events"), ("remove", "a")):
        assert notifier("key", *arguments, "--data", str(missing)).exit_code == 3
    assert not missing.exists()


def test_external_key_file_with_secret_needs_no_folder(tmp_path: Path, notifier: Notifier) -> None:
    env: dict[str, str | None] = {"NOTIFIER_SECRET": "s" * 32, "NOTIFIER_SERVICE_KEYS": str(tmp_path / "keys.json")}
    missing = str(tmp_path / "nowhere")
    assert notifier("key", "add", "a", "--scope", "events", "--data", missing, env=env).exit_code == 0
    assert "events" in notifier("key", "list", "--data", missing, env=env).stdout
    (tmp_path / "keys.json").write_text("{")
    assert notifier("key", "list", "--data", missing, env=env).exit_code == 3


def test_unwritable_key_file_is_reported(tmp_path: Path, notifier: Notifier) -> None:
    env: dict[str, str | None] = {
        "NOTIFIER_SECRET": "s" * 32,
        "NOTIFIER_SERVICE_KEYS": str(tmp_path / "no" / "keys.json"),
    }
    result = notifier("key", "add", "a", "--scope", "events", env=env)
    assert (result.exit_code, result.stdout, "No such file" in result.stderr) == (3, "", True)


@pytest.mark.timeout(400)
def test_running_service_accepts_new_and_rejects_removed_keys(folder: Path, notifier: Notifier) -> None:
    def status() -> int:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.get(f"{instance.url}/v1/system", headers=headers, timeout=ANSWERS_WITHIN).status_code

    with Instance(data=folder) as instance:
        key = notifier("key", "add", "board", "--scope", "operate", "--data", str(folder)).stdout.strip()
        until(lambda: status() == 200, STARTS_WITHIN)
        assert notifier("key", "remove", "board", "--data", str(folder)).exit_code == 0
        until(lambda: status() == 401, STARTS_WITHIN)
        logs = "".join(path.read_text() for path in (folder / "logs").iterdir())
    assert key not in logs
