"""The settings of alerts on phones: who is sent by what, and which of them can't be meant."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from notifier.config import PUSH_FILE, Settings
from notifier.config.push import ApnsSettings, FcmSettings, PushSettings, WebPushSettings
from notifier.domain.audience.tiers import Tier
from notifier.domain.errors import BadSetting
from notifier.domain.ids import Platform
from notifier.domain.push.device_address import KNOWN_HOSTS

APPLE = {"NOTIFIER_PUSH_APNS_KEY": "k.p8", "NOTIFIER_PUSH_APNS_KEY_ID": "A", "NOTIFIER_PUSH_APNS_TEAM_ID": "B"}


def read(**said: str) -> PushSettings:
    return Settings.read({f"NOTIFIER_PUSH_{name}": value for name, value in said.items()}).push


def test_where_nothing_is_said_the_first_two_tiers_ring_and_fakes_take_it() -> None:
    found = Settings.read({}).push
    assert found.pushed_tiers == [Tier.P0, Tier.P1]
    assert (found.hourly, found.daily) == (5, 20)
    assert [found.is_faked(platform) for platform in Platform] == [True] * 3
    assert not any(found.is_real(platform) for platform in Platform)
    assert found.web.services.hosts == KNOWN_HOSTS


def test_tiers_are_told_in_their_order_and_may_be_none() -> None:
    assert read(TIERS="p2,p0").pushed_tiers == [Tier.P0, Tier.P2]
    assert read(TIERS="").pushed_tiers == []


def test_google_s_own_limit_is_six_hundred_thousand_a_minute() -> None:
    assert PushSettings().provider_limits[Platform.FCM].per_minute == 600_000
    assert read(APNS_PER_MINUTE="90").provider_limits[Platform.APNS].per_minute == 90


def test_credentials_of_one_platform_leave_the_others_to_fakes() -> None:
    found = Settings.read(APPLE).push
    assert [found.is_real(platform) for platform in Platform] == [True, False, False]
    assert [found.is_faked(platform) for platform in Platform] == [False, True, True]


@pytest.mark.parametrize(("fakes", "real", "faked"), [("on", False, True), ("off", True, False), ("auto", True, False)])
def test_fakes_may_be_for_everybody_or_for_nobody(fakes: str, real: bool, faked: bool) -> None:
    found = Settings.read(APPLE | {"NOTIFIER_PUSH_FAKES": fakes}).push
    assert (found.is_real(Platform.APNS), found.is_faked(Platform.APNS)) == (real, faked)
    assert found.is_faked(Platform.WEB) == (fakes != "off")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIERS", "p0,dormant"),
        ("TIERS", "p0,,p1"),
        ("HOURLY", "-1"),
        ("FCM_PER_MINUTE", "0"),
        ("WEB_PER_MINUTE", "19"),
        ("FAKES", "maybe"),
        ("APNS_TOPICS", "com.example.app,"),
        ("APNS_TOPICS", "no bundle"),
        ("APNS_PRODUCTION", "http://push.example"),
        ("APNS_SANDBOX", "https://push.example/path"),
        ("FCM_ORIGIN", "https://user@push.example"),
        ("FCM_ORIGIN", "https://push.example:99999"),
        ("APNS_FAKE", "https://push.example"),
        ("WEB_FAKE", "http://10.0.0.1:80"),
        ("WEB_LOOPBACK", "perhaps"),
    ],
)
def test_what_can_t_be_meant_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(BadSetting, match=f"NOTIFIER_PUSH_{name} is "):
        read(**{name: value})


@pytest.mark.parametrize("origin", ["https://push.example", "https://push.example:8443", "http://127.0.0.1:9000"])
def test_origins_are_of_tls_or_of_this_machine(origin: str) -> None:
    assert read(FCM_ORIGIN=origin).fcm.origin == origin


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({"APNS_KEY": "k.p8"}, "NOTIFIER_PUSH_APNS_KEY_ID"),
        ({"WEB_KEY": "k.pem"}, "NOTIFIER_PUSH_WEB_SUBJECT"),
        ({"WEB_HOSTS": "push"}, "'push' is no name of a push service"),
        ({"WEB_LOOPBACK": "true"}, "NOTIFIER_INSECURE_DEV"),
    ],
)
def test_half_of_what_belongs_together_is_refused(said: Mapping[str, str], names: str) -> None:
    with pytest.raises(BadSetting, match=names):
        read(**said)


def test_push_services_of_this_machine_count_in_development() -> None:
    found = Settings.read({"NOTIFIER_PUSH_WEB_LOOPBACK": "true", "NOTIFIER_INSECURE_DEV": "true"})
    assert found.push.web.services.endpoint("http://127.0.0.1:9000/1").port == 9_000


def test_where_up_runs_fakes_stands_behind_whatever_else_is_said(tmp_path: Path) -> None:
    file = tmp_path / PUSH_FILE
    file.parent.mkdir()
    file.write_text('[push.fcm]\nfake = "http://127.0.0.1:1"\n[push.web]\nfake = "http://127.0.0.1:2"\n')
    found = Settings.read({"NOTIFIER_DATA": str(tmp_path), "NOTIFIER_PUSH_WEB_FAKE": "http://127.0.0.1:3"}).push
    assert (found.fcm.fake, found.web.fake) == ("http://127.0.0.1:1", "http://127.0.0.1:3")
    assert found == PushSettings(
        apns=ApnsSettings(), fcm=FcmSettings(fake=found.fcm.fake), web=WebPushSettings(fake=found.web.fake)
    )
