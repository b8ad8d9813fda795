"""Fake providers of `notifier up`: which start, and the push settings shared with commands."""

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from notifier.api.port import reserve_port
from notifier.cli.supervisor.fake_providers import FakeProviders, parse_behavior, run_fake
from notifier.config import PushSettings, Settings
from notifier.domain.ids import Platform

EXTERNAL_URL = "http://127.0.0.1:9002"
EXTERNAL = {"NOTIFIER_PUSH_FCM_FAKE": EXTERNAL_URL}


def planned_fakes(environment: Mapping[str, str]) -> FakeProviders:
    return FakeProviders.of(Settings.read(environment), lambda host, port: 9_100)


def test_port_stays_reserved_while_its_fake_restarts(tmp_path: Path) -> None:
    with ExitStack() as reservations:
        environment = {"NOTIFIER_DATA": str(tmp_path), "NOTIFIER_PUSH_FAKES": "on"}
        fakes = FakeProviders.of(
            Settings.read(environment), lambda host, port: reservations.enter_context(reserve_port(host, port)).port
        )
        port = fakes.ports[Platform.FCM]
        for _ in range(2):
            with socket.socket() as competitor, pytest.raises(OSError, match="in use"):
                competitor.bind(("127.0.0.1", port))
            with run_fake(Platform.FCM, parse_behavior("", Platform.FCM), port=port, out=None):
                socket.create_connection(("127.0.0.1", port)).close()


@pytest.mark.parametrize("fakes", ["auto", "on"])
def test_externally_run_fake_is_used_and_not_replaced(fakes: str) -> None:
    planned = planned_fakes(EXTERNAL | {"NOTIFIER_PUSH_FAKES": fakes})
    assert set(planned.ports) == {Platform.APNS, Platform.WEB}
    assert "NOTIFIER_PUSH_FCM_FAKE" not in planned.environment


def test_demo_has_its_own_fake_for_every_provider() -> None:
    push = Settings.read(EXTERNAL | {"NOTIFIER_PUSH_FAKES": "off"}).push.with_all_faked
    assert all(push.uses_fake(platform) and not push.settings_for(platform).fake for platform in Platform)


def test_commands_use_the_push_settings_of_running_service(tmp_path: Path) -> None:
    key = 'a "key" of 文.p8'
    environment = EXTERNAL | {
        "NOTIFIER_DATA": str(tmp_path),
        "NOTIFIER_PUSH_APNS_KEY": key,
        "NOTIFIER_PUSH_APNS_KEY_ID": "ABC123DEFG",
        "NOTIFIER_PUSH_APNS_TEAM_ID": "DEF123GHIJ",
        "NOTIFIER_PUSH_TIERS": "",
        "NOTIFIER_PUSH_DAILY": "7",
        "NOTIFIER_PUSH_WEB_LOOPBACK": "true",
        "NOTIFIER_INSECURE_DEV": "true",
    }
    fakes = FakeProviders.of(Settings.read(environment), lambda host, port: 9_100)
    fakes.write_settings()
    push = Settings.read({"NOTIFIER_DATA": str(tmp_path)}).push
    assert (push.fcm.fake, push.web.fake, push.apns.fake) == (EXTERNAL_URL, "http://127.0.0.1:9100", "")
    assert (push.apns.key, push.apns.key_id, push.uses_real_provider(Platform.APNS)) == (
        str(Path.cwd() / key),
        "ABC123DEFG",
        True,
    )
    assert (push.tiers, push.daily, push.web.loopback) == ("", 7, False)
    assert Settings.read({"NOTIFIER_DATA": str(tmp_path), "NOTIFIER_PUSH_DAILY": "8"}).push.daily == 8
    fakes.remove_settings()
    assert Settings.read({"NOTIFIER_DATA": str(tmp_path)}).push == PushSettings()


def test_sentences_name_the_fakes_that_take_alerts() -> None:
    internal, external = planned_fakes(EXTERNAL).sentences
    assert internal.startswith("fakes receive those of apns, web and append them to ")
    assert external == f"the fake at {EXTERNAL_URL} receives those of fcm"
    assert planned_fakes({"NOTIFIER_PUSH_FAKES": "off"}).sentences == []
