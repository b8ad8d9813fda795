"""`notifier push test` sends one alert to a user's devices and reports each result."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from notifier.config import Settings
from notifier.devkit.fake_providers.behavior import Behavior
from notifier.devkit.fake_providers.fake_devices import fixture_address
from notifier.devkit.fake_providers.hosting import HostedFake, host_fake
from notifier.domain.ids import Platform, UserId
from notifier.domain.push.device import Device
from notifier.profiles import choose
from tests.cli.conftest import Notifier

SCRIPT = "fcm.limited=1h,web.gone=100%"


@pytest.fixture
def folder_with_devices(folder: Path) -> Path:
    """A folder in which u7 has a device of each platform."""
    profile = choose(Settings.read({}, data=folder))
    try:
        ports = profile.ports()
        [member] = ports.directory.assign_numbers([UserId("u7")]).values()
        ago = datetime.now(UTC) - timedelta(days=1)
        ports.devices.write(
            [Device(member=member, address=fixture_address(platform, 7), registered_at=ago) for platform in Platform]
        )
    finally:
        profile.close()
    return folder


@pytest.fixture
def fakes() -> Iterator[Mapping[Platform, HostedFake]]:
    with ExitStack() as stack:
        yield {
            platform: stack.enter_context(host_fake(platform, Behavior.read(SCRIPT, platform))) for platform in Platform
        }


def fake_settings(fakes: Mapping[Platform, HostedFake]) -> dict[str, str | None]:
    return {f"NOTIFIER_PUSH_{platform.upper()}_FAKE": fake.origin for platform, fake in fakes.items()}


def test_push_test_reports_outcome_per_device(
    folder_with_devices: Path, fakes: Mapping[Platform, HostedFake], notifier: Notifier
) -> None:
    arguments = ("push", "test", "--user", "@u7", "--data", str(folder_with_devices))
    result = notifier(*arguments, "--text", "Is it you?", "--json", env=fake_settings(fakes))
    assert result.exit_code == 1
    devices = {device["platform"]: device for device in json.loads(result.output)["devices"]}
    assert {platform: device["outcome"] for platform, device in devices.items()} == {
        "apns": "accepted",
        "fcm": "retry",
        "web": "dropped",
    }
    assert devices["fcm"]["at"] > "2026"
    phone = fakes[Platform.APNS].fake.phones[f"{7:064x}"]
    assert [*phone.shown.values()] == ["Is it you?"]
    second = notifier(*arguments, env=fake_settings(fakes))
    lines = second.output.splitlines()
    assert [line.partition("  ")[2].split()[0] for line in lines[1:]] == ["apns", "fcm", "web"]
    assert (second.exit_code, "accepted" in lines[1], "retry at" in lines[2]) == (1, True, True)
    assert "would be dropped" in lines[3]
    assert phone.alert_count == 2
    assert len(notifier("devices", "u7", "--data", str(folder_with_devices)).output.splitlines()) >= 4, (
        "a device was dropped"
    )


def test_push_test_without_credentials_reports_them_missing(folder_with_devices: Path, notifier: Notifier) -> None:
    result = notifier("push", "test", "--user", "u7", "--data", str(folder_with_devices))
    assert result.exit_code == 1
    assert result.output.count("no credentials") == 3


def test_push_test_reports_missing_devices_and_unknown_users(folder_with_devices: Path, notifier: Notifier) -> None:
    unknown = notifier("push", "test", "--user", "nobody", "--data", str(folder_with_devices))
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    profile = choose(Settings.read({}, data=folder_with_devices))
    profile.ports().directory.assign_numbers([UserId("u8")])
    profile.close()
    without_device = notifier("push", "test", "--user", "u8", "--data", str(folder_with_devices))
    assert (without_device.exit_code, "u8 has no device" in without_device.output) == (1, True)
    assert notifier("push", "test", "--user", "u7", "--text", " ", "--data", str(folder_with_devices)).exit_code == 2


def test_push_test_succeeds_when_all_devices_accept(folder_with_devices: Path, notifier: Notifier) -> None:
    with host_fake(Platform.APNS) as apns, host_fake(Platform.FCM) as fcm, host_fake(Platform.WEB) as web:
        fakes = {Platform.APNS: apns, Platform.FCM: fcm, Platform.WEB: web}
        result = notifier("push", "test", "--user", "u7", "--data", str(folder_with_devices), env=fake_settings(fakes))
    assert (result.exit_code, result.output.count("accepted")) == (0, 3)
