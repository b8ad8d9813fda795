"""`notifier devices`: an operator lists and removes a user's devices."""

import json
from pathlib import Path

import pytest

from notifier.cli.opened_stores import open_stores
from notifier.config import Settings
from notifier.domain.ids import UserId
from notifier.domain.push.device import AppleToken, FirebaseToken
from notifier.flow.devices.device_registry import DeviceRegistry
from tests.cli.conftest import Notifier

TOKEN = "ab" * 30 + "12cd"


@pytest.fixture
def loaded(folder: Path, notifier: Notifier) -> Path:
    """u2 has no device by the fixture's formula.

    It gets a phone and a tablet that the device indexer has not yet processed.
    """
    options = ("--followers", "200", "--universe", "400", "--celebrities", "1")
    assert notifier("fixture", *options, "--data", str(folder)).exit_code == 0
    with open_stores(Settings(data=folder)) as stores:
        ports = stores.ports
        registry = DeviceRegistry(devices=ports.devices, directory=ports.directory, log=ports.log, clock=ports.clock)
        member = registry.member(UserId("u2"))
        registry.register(member, AppleToken(token=TOKEN, topic="com.example.app"), locale="de", time_zone="UTC")
        registry.register(member, FirebaseToken(token="t" * 140), locale="en", time_zone="Asia/Tokyo")
    return folder


def test_devices_are_listed_without_their_addresses(loaded: Path, notifier: Notifier) -> None:
    for arguments in (("devices", "u2"), ("devices", "@u2", "--json")):
        result = notifier(*arguments, "--data", str(loaded))
        assert result.exit_code == 0, result.output
        assert "12cd" in result.stdout
        assert not any(secret in result.stdout for secret in (TOKEN[:8], "ttttt"))
    listing = json.loads(notifier("devices", "u2", "--json", "--data", str(loaded)).stdout)
    assert [
        (device["platform"], device["app"], device["last_four"], device["locale"]) for device in listing["devices"]
    ] == [
        ("fcm", None, "tttt", "en"),
        ("apns", "com.example.app", "12cd", "de"),
    ]


def test_device_is_removed_by_id_only_once(loaded: Path, notifier: Notifier) -> None:
    listing = json.loads(notifier("devices", "u2", "--json", "--data", str(loaded)).stdout)
    id = listing["devices"][0]["id"]
    assert notifier("devices", "u4", "--remove", id, "--data", str(loaded)).exit_code == 2
    removed = notifier("devices", "u2", "--remove", id, "--json", "--data", str(loaded))
    assert [device["platform"] for device in json.loads(removed.stdout)["devices"]] == ["apns"]
    second_try = notifier("devices", "u2", "--remove", id, "--data", str(loaded))
    assert (second_try.exit_code, second_try.stderr.strip()) == (2, f"Not found. u2 has no device {id}.")


def test_user_without_device_gets_sentence_and_unknown_is_refused(loaded: Path, notifier: Notifier) -> None:
    assert "u4 has no device." in notifier("devices", "u4", "--data", str(loaded)).stdout
    assert notifier("devices", "stranger", "--data", str(loaded)).exit_code == 2
    assert notifier("devices", "u2", "--remove", "all of them", "--data", str(loaded)).exit_code == 2
    assert notifier("devices", "u2", "--data", str(loaded / "nowhere")).exit_code == 3
