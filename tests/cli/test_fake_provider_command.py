"""`notifier fake` as its own process, and arguments that it refuses before it listens."""

import json
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from notifier.adapters.clock_and_nonces import SystemClock
from notifier.config import Settings
from notifier.config.push import ApnsSettings, PushSettings
from notifier.devkit.fake_providers.fake_devices import fixture_address, member_of
from notifier.domain.ids import Member, Platform, UserId
from notifier.domain.push.alert import build_test_alert
from notifier.domain.push.device import Device
from notifier.domain.push.receipt import Accepted, DropDevice
from notifier.profiles.push_providers import providers
from tests.cli.conftest import Notifier
from tests.cli.running_service import GONE_WITHIN, STARTS_WITHIN, until

NOW = datetime.now(UTC)


def devices(count: int) -> list[Device]:
    ago = NOW - timedelta(days=1)
    addresses = [fixture_address(Platform.APNS, m) for m in range(count)]
    return [Device(member=Member(m), address=address, registered_at=ago) for m, address in enumerate(addresses)]


@pytest.mark.timeout(400)
def test_fake_prints_its_url_and_counts_alerts(tmp_path: Path) -> None:
    ready, out = tmp_path / "ready.json", tmp_path / "alerts.ndjson"
    arguments = [
        "fake",
        "apns",
        "--script",
        "gone=20%,goaway=10",
        "--json",
        "--out",
        str(out),
        "--ready-file",
        str(ready),
    ]
    with subprocess.Popen([sys.executable, "-m", "notifier", *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            until(ready.exists, STARTS_WITHIN)
            ready_facts = json.loads(ready.read_text())
            with ExitStack() as stack:
                settings = Settings(push=PushSettings(apns=ApnsSettings(fake=ready_facts["url"])))
                provider = providers(settings, SystemClock(), stack)[Platform.APNS]
                alert = build_test_alert(UserId("ada"), "hi", now=NOW, nonce="1")
                receipts = {device.member: receipt for device, receipt in provider.send(alert, devices(50))}
            process.send_signal(signal.SIGINT)
            first, last = map(json.loads, process.communicate(timeout=GONE_WITHIN)[0].splitlines())
        finally:
            process.kill()
    assert process.returncode == 0
    assert first == ready_facts
    assert ready_facts["setting"] == f"NOTIFIER_PUSH_APNS_FAKE={ready_facts['url']}"
    accepted = {member for member, receipt in receipts.items() if isinstance(receipt, Accepted)}
    dropped = {member for member, receipt in receipts.items() if isinstance(receipt, DropDevice)}
    assert (accepted | dropped, bool(accepted), bool(dropped)) == (set(receipts), True, True)
    assert {member_of(json.loads(line)["to"]) for line in out.read_text().splitlines()} == accepted
    assert last["responses"] == {"Accepted": len(accepted), "Unregistered": len(dropped)}
    assert (last["alerts"], last["connections"] >= 5) == (len(accepted), True)  # GOAWAY after every ten of 50
    assert not ready.exists()


@pytest.mark.parametrize("platform", ["apns", "fcm", "webpush"])
def test_invalid_script_is_usage_error(platform: str, notifier: Notifier) -> None:
    result = notifier("fake", platform, "--script", "gone=many")
    assert result.exit_code == 2
    assert result.stderr == (
        f"Invalid script: 'gone=many' is invalid; write gone=2%. See `notifier fake {platform} --help`.\n"
    )


def test_port_in_use_and_unusable_files_are_reported(notifier: Notifier, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        result = notifier("fake", "apns", "--port", port)
    assert (result.exit_code, port in result.stderr) == (3, True)
    result = notifier("fake", "apns", "--out", str(tmp_path / "nowhere" / "alerts.ndjson"))
    assert result.exit_code == 3
    assert result.stderr == f"The file can't be written. {tmp_path}/nowhere/alerts.ndjson: No such file or directory.\n"
    (tmp_path / "no.pem").write_text("no certificate")
    result = notifier("fake", "apns", "--certificate", str(tmp_path / "no.pem"))
    assert (result.exit_code, "--certificate" in result.stderr) == (2, True)


def test_up_with_invalid_script_creates_no_folder(notifier: Notifier, tmp_path: Path) -> None:
    result = notifier("up", "--data", str(tmp_path / "folder"), "--fake-script", "gone=many")
    assert (result.exit_code, result.stderr.splitlines()[-1].endswith("See `notifier up --help`.")) == (2, True)
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("script", ["gone=many", "after=10s", ",", "stall=0s"])
def test_up_with_invalid_script_setting_creates_no_folder(notifier: Notifier, tmp_path: Path, script: str) -> None:
    result = notifier("up", "--data", str(tmp_path / "folder"), env={"NOTIFIER_PUSH_FAKE_SCRIPT": script})
    assert (result.exit_code, "NOTIFIER_PUSH_FAKE_SCRIPT: Invalid script" in result.stderr) == (3, True)
    assert not (tmp_path / "folder").exists()
