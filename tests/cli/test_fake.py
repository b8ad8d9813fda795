"""`notifier fake` as a process of its own, and what it refuses before it listens."""

import json
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from notifier.adapters.system_clock import SystemClock
from notifier.config import Settings
from notifier.config.push import ApnsSettings, PushSettings
from notifier.devkit.fake_providers.devices import fixture_address, member_of
from notifier.domain.ids import Member, Platform, UserId
from notifier.domain.push.alert import trial
from notifier.domain.push.device import Device
from notifier.domain.push.receipt import Accepted, DropToken
from notifier.profiles.push_providers import providers
from tests.cli.conftest import Notifier
from tests.cli.running import GONE_WITHIN, STARTS_WITHIN, until

NOW = datetime.now(UTC)


def devices(many: int) -> list[Device]:
    ago = NOW - timedelta(days=1)
    addresses = [fixture_address(Platform.APNS, m) for m in range(many)]
    return [Device(member=Member(m), address=address, registered_at=ago) for m, address in enumerate(addresses)]


@pytest.mark.timeout(400)
def test_a_fake_says_where_it_is_takes_alerts_and_counts_them(tmp_path: Path) -> None:
    ready, out = tmp_path / "ready.json", tmp_path / "alerts.ndjson"
    words = ["fake", "apns", "--script", "gone=20%,goaway=10", "--json", "--out", str(out), "--ready-file", str(ready)]
    with subprocess.Popen([sys.executable, "-m", "notifier", *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            until(ready.exists, STARTS_WITHIN)
            said = json.loads(ready.read_text())
            with ExitStack() as stack:
                settings = Settings(push=PushSettings(apns=ApnsSettings(fake=said["url"])))
                provider = providers(settings, SystemClock(), stack)[Platform.APNS]
                alert = trial(UserId("ada"), "hi", now=NOW, nonce="1")
                became = {device.member: receipt for device, receipt in provider.send(alert, devices(50))}
            process.send_signal(signal.SIGINT)
            first, last = map(json.loads, process.communicate(timeout=GONE_WITHIN)[0].splitlines())
        finally:
            process.kill()
    assert process.returncode == 0
    assert first == said
    assert said["set"] == f"NOTIFIER_PUSH_APNS_FAKE={said['url']}"
    taken = {member for member, receipt in became.items() if isinstance(receipt, Accepted)}
    gone = {member for member, receipt in became.items() if isinstance(receipt, DropToken)}
    assert (taken | gone, bool(taken), bool(gone)) == (set(became), True, True)
    assert {member_of(json.loads(line)["to"]) for line in out.read_text().splitlines()} == taken
    assert last["answered"] == {"Accepted": len(taken), "Unregistered": len(gone)}
    assert (last["rang"], last["connections"] >= 5) == (len(taken), True)
    assert not ready.exists()


@pytest.mark.parametrize("verb", ["apns", "fcm", "webpush"])
def test_a_script_that_can_t_be_played_is_wrong_usage(verb: str, notifier: Notifier) -> None:
    done = notifier("fake", verb, "--script", "gone=many")
    assert done.exit_code == 2
    assert done.stderr == (
        f"The script can't be played: 'gone=many': gone is written gone=2%. See `notifier fake {verb} --help`.\n"
    )


def test_a_port_that_is_taken_and_files_that_can_t_be_used_are_told(notifier: Notifier, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = notifier("fake", "apns", "--port", port)
    assert (done.exit_code, port in done.stderr) == (3, True)
    done = notifier("fake", "apns", "--out", str(tmp_path / "nowhere" / "alerts.ndjson"))
    assert done.exit_code == 3
    assert (
        done.stderr
        == f"The file can't be written. It is {tmp_path}/nowhere/alerts.ndjson: No such file or directory.\n"
    )
    (tmp_path / "no.pem").write_text("no certificate")
    done = notifier("fake", "apns", "--certificate", str(tmp_path / "no.pem"))
    assert (done.exit_code, "--certificate" in done.stderr) == (2, True)


def test_a_script_of_up_that_can_t_be_played_is_wrong_usage_and_makes_no_folder(
    notifier: Notifier, tmp_path: Path
) -> None:
    done = notifier("up", "--data", str(tmp_path / "folder"), "--fake-script", "gone=many")
    assert (done.exit_code, done.stderr.splitlines()[-1].endswith("See `notifier up --help`.")) == (2, True)
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("script", ["gone=many", "after=10s", ",", "stall=0s"])
def test_one_that_a_setting_names_is_refused_by_its_name_and_makes_no_folder_either(
    notifier: Notifier, tmp_path: Path, script: str
) -> None:
    done = notifier("up", "--data", str(tmp_path / "folder"), env={"NOTIFIER_PUSH_FAKE_SCRIPT": script})
    assert (done.exit_code, "NOTIFIER_PUSH_FAKE_SCRIPT: The script can't be played" in done.stderr) == (3, True)
    assert not (tmp_path / "folder").exists()
