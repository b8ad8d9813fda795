"""`notifier push test`: one alert to a person's devices, and what became of it at each."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from notifier.config import Settings
from notifier.devkit.fake_providers.behaviour import Behaviour
from notifier.devkit.fake_providers.devices import fixture_address
from notifier.devkit.fake_providers.hosting import Hosted, hosted
from notifier.domain.ids import Platform, UserId
from notifier.domain.push.device import Device
from notifier.profiles import choose
from tests.cli.conftest import Notifier

SCRIPT = "fcm.limited=1h,web.gone=100%"


@pytest.fixture
def ada(folder: Path) -> Path:
    """A folder in which u7 has a device of each platform."""
    profile = choose(Settings.read({}, data=folder))
    try:
        ports = profile.ports()
        [member] = ports.directory.number([UserId("u7")]).values()
        ago = datetime.now(UTC) - timedelta(days=1)
        ports.devices.write(
            [Device(member=member, address=fixture_address(each, 7), registered_at=ago) for each in Platform]
        )
    finally:
        profile.close()
    return folder


@pytest.fixture
def fakes() -> Iterator[Mapping[Platform, Hosted]]:
    with ExitStack() as stack:
        yield {each: stack.enter_context(hosted(each, Behaviour.read(SCRIPT, each))) for each in Platform}


def at(fakes: Mapping[Platform, Hosted]) -> dict[str, str | None]:
    return {f"NOTIFIER_PUSH_{each.upper()}_FAKE": fake.origin for each, fake in fakes.items()}


def test_what_became_of_it_is_told_for_each_device_and_changes_nothing(
    ada: Path, fakes: Mapping[Platform, Hosted], notifier: Notifier
) -> None:
    words = ("push", "test", "--user", "@u7", "--data", str(ada))
    done = notifier(*words, "--text", "Is it you?", "--json", env=at(fakes))
    assert done.exit_code == 1
    told = {one["platform"]: one for one in json.loads(done.output)["devices"]}
    assert {platform: one["outcome"] for platform, one in told.items()} == {
        "apns": "accepted",
        "fcm": "retry",
        "web": "dropped",
    }
    assert told["fcm"]["at"] > "2026"
    phone = fakes[Platform.APNS].fake.phones[f"{7:064x}"]
    assert [*phone.shows.values()] == ["Is it you?"]
    again = notifier(*words, env=at(fakes))
    lines = again.output.splitlines()
    assert [line.partition("  ")[2].split()[0] for line in lines[1:]] == ["apns", "fcm", "web"]
    assert (again.exit_code, "accepted" in lines[1], "retry at" in lines[2]) == (1, True, True)
    assert "would be dropped" in lines[3]
    assert phone.rang == 2
    assert len(notifier("devices", "u7", "--data", str(ada)).output.splitlines()) >= 4, "nobody was dropped"


def test_without_fakes_and_credentials_it_says_what_is_missing(ada: Path, notifier: Notifier) -> None:
    done = notifier("push", "test", "--user", "u7", "--data", str(ada))
    assert done.exit_code == 1
    assert done.output.count("no credentials") == 3


def test_who_has_no_device_and_who_is_nobody_is_told(ada: Path, notifier: Notifier) -> None:
    unknown = notifier("push", "test", "--user", "nobody", "--data", str(ada))
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    profile = choose(Settings.read({}, data=ada))
    profile.ports().directory.number([UserId("u8")])
    profile.close()
    none = notifier("push", "test", "--user", "u8", "--data", str(ada))
    assert (none.exit_code, "u8 has no device" in none.output) == (1, True)
    assert notifier("push", "test", "--user", "u7", "--text", " ", "--data", str(ada)).exit_code == 2


def test_all_that_accept_it_are_success(ada: Path, notifier: Notifier) -> None:
    with hosted(Platform.APNS) as apns, hosted(Platform.FCM) as fcm, hosted(Platform.WEB) as web:
        fakes = {Platform.APNS: apns, Platform.FCM: fcm, Platform.WEB: web}
        done = notifier("push", "test", "--user", "u7", "--data", str(ada), env=at(fakes))
    assert (done.exit_code, done.output.count("accepted")) == (0, 3)
