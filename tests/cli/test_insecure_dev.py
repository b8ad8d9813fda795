"""`notifier up --insecure-dev` warns, accepts requests without a key, and the doctor warns too."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Notifier
from tests.cli.running_service import Running, SharedService

INSECURE_DEV = {"NOTIFIER_INSECURE_DEV": "true"}


@pytest.fixture
def running(folder: Path) -> Iterator[Running]:
    shared = SharedService(data=folder, options=("--insecure-dev",))
    yield shared.running()
    shared.end()


@pytest.mark.timeout(400)
def test_insecure_dev_accepts_requests_without_token(running: Running, notifier: Notifier) -> None:
    url, data = running.ready.url, str(running.data)
    assert httpx.get(f"{url}/v1/system", timeout=10.0).status_code == 200
    assert httpx.get(f"{url}/v1/inbox", headers={"Authorization": "User ada"}, timeout=10.0).status_code == 404
    assert httpx.get(f"{url}/v1/inbox", timeout=10.0).status_code == 401
    assert httpx.get(f"{url}/readyz", timeout=10.0).json()["insecure_dev"] is True
    assert (running.data / "up.log").read_text().count("INSECURE: ") == 1
    assert "INSECURE: " in (running.data / "logs" / "api.log").read_text()
    result = notifier("doctor", "--json", "--data", data)
    [check] = [check for check in json.loads(result.output)["checks"] if check["name"] == "insecure_dev"]
    assert (result.exit_code, check["ok"], check["detail"].startswith("warning: ")) == (0, True, True)


def test_doctor_is_silent_without_the_flag(folder: Path, notifier: Notifier) -> None:
    assert "insecure" not in notifier("doctor", "--data", str(folder)).output
    assert "warn  insecure_dev" in notifier("doctor", "--data", str(folder), env=dict(INSECURE_DEV)).output


@pytest.mark.parametrize("arguments", [("up", "--insecure-dev"), ("up",), ("api",)], ids=" ".join)
@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"NOTIFIER_HOST": "0.0.0.0"}, "requires a loopback host, got 0.0.0.0."),
        ({"NOTIFIER_ISSUER_NAME": "x", "NOTIFIER_ISSUER_KEY": "y"}, "remove NOTIFIER_ISSUER_NAME."),
    ],
    ids=["host", "issuer"],
)
def test_insecure_dev_is_refused_on_reachable_hosts(
    arguments: tuple[str, ...], environment: dict[str, str], reason: str, tmp_path: Path, notifier: Notifier
) -> None:
    env = dict(environment) if "--insecure-dev" in arguments else environment | INSECURE_DEV
    result = notifier(*arguments, "--port", "0", "--data", str(tmp_path / "data"), env=env)
    assert (result.exit_code, result.stdout, reason in result.stderr) == (3, "", True)
    assert not (tmp_path / "data").exists()
