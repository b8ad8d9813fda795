"""`notifier up --insecure-dev`: it says so loudly, lets a curl in without a key, and the doctor says so, too."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Notifier
from tests.cli.running import Running, Shared

OPEN = {"NOTIFIER_INSECURE_DEV": "true"}


@pytest.fixture
def running(folder: Path) -> Iterator[Running]:
    shared = Shared(data=folder, more=("--insecure-dev",))
    yield shared.running()
    shared.end()


@pytest.mark.timeout(400)
def test_a_developer_tries_curl_without_a_token(running: Running, notifier: Notifier) -> None:
    url, data = running.ready.url, str(running.data)
    assert httpx.get(f"{url}/v1/system", timeout=10.0).status_code == 200
    assert httpx.get(f"{url}/v1/inbox", headers={"Authorization": "User ada"}, timeout=10.0).status_code == 404
    assert httpx.get(f"{url}/v1/inbox", timeout=10.0).status_code == 401
    assert httpx.get(f"{url}/readyz", timeout=10.0).json()["insecure_dev"] is True
    assert (running.data / "up.log").read_text().count("INSECURE: ") == 1
    assert "INSECURE: " in (running.data / "logs" / "api.log").read_text()
    done = notifier("doctor", "--json", "--data", data)
    [found] = [check for check in json.loads(done.output)["checks"] if check["name"] == "insecure_dev"]
    assert (done.exit_code, found["ok"], found["detail"].startswith("warning: ")) == (0, True, True)


def test_without_the_flag_the_doctor_has_nothing_to_say_of_it(folder: Path, notifier: Notifier) -> None:
    assert "insecure" not in notifier("doctor", "--data", str(folder)).output
    assert "warn  insecure_dev" in notifier("doctor", "--data", str(folder), env=dict(OPEN)).output


@pytest.mark.parametrize("words", [("up", "--insecure-dev"), ("up",), ("api",)], ids=" ".join)
@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"NOTIFIER_HOST": "0.0.0.0"}, "is for a loopback address alone, and not for 0.0.0.0."),
        ({"NOTIFIER_ISSUER_NAME": "x", "NOTIFIER_ISSUER_KEY": "y"}, "take NOTIFIER_ISSUER_NAME away for it."),
    ],
    ids=["host", "issuer"],
)
def test_it_is_refused_where_others_could_come(
    words: tuple[str, ...], more: dict[str, str], why: str, tmp_path: Path, notifier: Notifier
) -> None:
    env = dict(more) if "--insecure-dev" in words else more | OPEN
    done = notifier(*words, "--port", "0", "--data", str(tmp_path / "data"), env=env)
    assert (done.exit_code, done.stdout, why in done.stderr) == (3, "", True)
    assert not (tmp_path / "data").exists()
