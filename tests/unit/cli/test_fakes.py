"""Which fakes `notifier up` starts, and what it tells others of how alerts are sent."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from notifier.cli.supervisor.fakes import FakeProviders
from notifier.config import PushSettings, Settings
from notifier.domain.ids import Platform

BY_HAND_AT = "http://127.0.0.1:9002"
BY_HAND = {"NOTIFIER_PUSH_FCM_FAKE": BY_HAND_AT}


def started(environment: Mapping[str, str]) -> FakeProviders:
    return FakeProviders.of(Settings.read(environment), lambda host, port: 9_100)


@pytest.mark.parametrize("fakes", ["auto", "on"])
def test_one_that_somebody_runs_is_sent_to_and_not_replaced(fakes: str) -> None:
    found = started(BY_HAND | {"NOTIFIER_PUSH_FAKES": fakes})
    assert set(found.ports) == {Platform.APNS, Platform.WEB}
    assert "NOTIFIER_PUSH_FCM_FAKE" not in found.environment


def test_a_demo_has_its_own_for_everybody() -> None:
    alone = Settings.read(BY_HAND | {"NOTIFIER_PUSH_FAKES": "off"}).push.with_all_faked
    assert all(alone.is_faked(platform) and not alone.settings_for(platform).fake for platform in Platform)


def test_what_is_typed_beside_it_sends_as_it_does_whatever_its_own_shell_knows(tmp_path: Path) -> None:
    key = 'a "key" of 文.p8'
    said = BY_HAND | {
        "NOTIFIER_DATA": str(tmp_path),
        "NOTIFIER_PUSH_APNS_KEY": key,
        "NOTIFIER_PUSH_APNS_KEY_ID": "ABC123DEFG",
        "NOTIFIER_PUSH_APNS_TEAM_ID": "DEF123GHIJ",
        "NOTIFIER_PUSH_TIERS": "",
        "NOTIFIER_PUSH_DAILY": "7",
        "NOTIFIER_PUSH_WEB_LOOPBACK": "true",
        "NOTIFIER_INSECURE_DEV": "true",
    }
    fakes = FakeProviders.of(Settings.read(said), lambda host, port: 9_100)
    fakes.write_settings()
    found = Settings.read({"NOTIFIER_DATA": str(tmp_path)}).push
    assert (found.fcm.fake, found.web.fake, found.apns.fake) == (BY_HAND_AT, "http://127.0.0.1:9100", "")
    assert (found.apns.key, found.apns.key_id, found.is_real(Platform.APNS)) == (
        str(Path.cwd() / key),
        "ABC123DEFG",
        True,
    )
    assert (found.tiers, found.daily, found.web.loopback) == ("", 7, False)
    assert Settings.read({"NOTIFIER_DATA": str(tmp_path), "NOTIFIER_PUSH_DAILY": "8"}).push.daily == 8
    fakes.remove_settings()
    assert Settings.read({"NOTIFIER_DATA": str(tmp_path)}).push == PushSettings()


def test_it_says_where_alerts_go_that_no_provider_gets() -> None:
    own, other = started(BY_HAND).sentences
    assert own.startswith("fakes take those of apns, web; what arrives is added to ")
    assert other == f"the fake at {BY_HAND_AT} takes those of fcm"
    assert started({"NOTIFIER_PUSH_FAKES": "off"}).sentences == []
