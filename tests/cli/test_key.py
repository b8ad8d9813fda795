"""`notifier key`: keys are made, listed and removed, and shown once."""

import json
from pathlib import Path

import httpx
import pytest

from notifier.api.auth.scopes import Scope
from notifier.api.auth.service_keys import FILE
from notifier.cli.commands.key import SCOPES
from notifier.devkit.check.instance import Instance
from tests.cli.conftest import Notifier
from tests.cli.running import until


def test_the_scopes_of_the_help_are_those_of_the_service() -> None:
    assert tuple(Scope) == SCOPES


def test_a_key_is_printed_once_and_never_again(folder: Path, notifier: Notifier) -> None:
    key = notifier("key", "add", "tweets", "--scope", "events", "--data", str(folder)).stdout.strip()
    assert key.startswith("nsk_")
    listed = notifier("key", "list", "--data", str(folder)).stdout
    assert ("tweets" in listed, "events" in listed, key in listed) == (True, True, False)
    assert key not in (folder / FILE).read_text()


def test_a_service_may_have_two_and_the_older_goes_by_its_id(folder: Path, notifier: Notifier) -> None:
    def run(*words: str) -> str:
        return notifier("key", *words, "--json", "--data", str(folder)).stdout

    old, new = (json.loads(run("add", "tweets", "--scope", "events", "--scope", "follows")) for _ in range(2))
    assert old["scopes"] == ["events", "follows"]
    several = notifier("key", "remove", "tweets", "--data", str(folder))
    assert (several.exit_code, "2 keys are named tweets" in several.stderr) == (2, True)
    assert json.loads(run("remove", old["id"]))["id"] == old["id"]
    assert [each["id"] for each in json.loads(run("list"))] == [new["id"]]
    run("remove", "tweets")
    assert json.loads(run("list")) == []
    assert notifier("key", "remove", "tweets", "--data", str(folder)).exit_code == 2


@pytest.mark.parametrize("name", ["", "Tweets", "a b", "-a", "x" * 65, "a\nb", "ü"])
def test_a_name_is_a_word_that_a_log_can_hold(name: str, folder: Path, notifier: Notifier) -> None:
    done = notifier("key", "add", "--scope", "events", "--data", str(folder), "--", name)
    assert (done.exit_code, done.stdout) == (2, "")


def test_a_key_has_a_scope_that_exists(folder: Path, notifier: Notifier) -> None:
    assert notifier("key", "add", "tweets", "--data", str(folder)).exit_code == 2
    assert notifier("key", "add", "tweets", "--scope", "all", "--data", str(folder)).exit_code == 2


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path, notifier: Notifier) -> None:
    nowhere = tmp_path / "nowhere"
    for words in (("list",), ("add", "a", "--scope", "events"), ("remove", "a")):
        assert notifier("key", *words, "--data", str(nowhere)).exit_code == 3
    assert not nowhere.exists()


def test_a_book_elsewhere_needs_no_folder_where_the_secret_is_given(tmp_path: Path, notifier: Notifier) -> None:
    env: dict[str, str | None] = {"NOTIFIER_SECRET": "s" * 32, "NOTIFIER_SERVICE_KEYS": str(tmp_path / "keys.json")}
    nowhere = str(tmp_path / "nowhere")
    assert notifier("key", "add", "a", "--scope", "events", "--data", nowhere, env=env).exit_code == 0
    assert "events" in notifier("key", "list", "--data", nowhere, env=env).stdout
    (tmp_path / "keys.json").write_text("{")
    assert notifier("key", "list", "--data", nowhere, env=env).exit_code == 3


def test_where_nothing_can_be_written_it_says_so(tmp_path: Path, notifier: Notifier) -> None:
    env: dict[str, str | None] = {
        "NOTIFIER_SECRET": "s" * 32,
        "NOTIFIER_SERVICE_KEYS": str(tmp_path / "no" / "keys.json"),
    }
    done = notifier("key", "add", "a", "--scope", "events", env=env)
    assert (done.exit_code, done.stdout, "No such file" in done.stderr) == (3, "", True)


def test_a_service_that_runs_knows_of_a_key_and_of_its_end_without_a_start(folder: Path, notifier: Notifier) -> None:
    def status() -> int:
        return httpx.get(f"{instance.url}/v1/system", headers={"Authorization": f"Bearer {key}"}).status_code

    with Instance(data=folder) as instance:
        key = notifier("key", "add", "board", "--scope", "operate", "--data", str(folder)).stdout.strip()
        until(lambda: status() == 200, 10.0)
        assert notifier("key", "remove", "board", "--data", str(folder)).exit_code == 0
        until(lambda: status() == 401, 10.0)
        logs = "".join(path.read_text() for path in (folder / "logs").iterdir())
    assert key not in logs
