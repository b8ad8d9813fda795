"""Push settings: real and fake providers, and refusal of invalid values."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from notifier.config import PUSH_FILE, Settings
from notifier.config.push import ApnsSettings, FcmSettings, PushSettings, WebPushSettings
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.errors import BadSetting
from notifier.domain.ids import Platform
from notifier.domain.push.device_validation import KNOWN_HOSTS

APPLE = {"NOTIFIER_PUSH_APNS_KEY": "k.p8", "NOTIFIER_PUSH_APNS_KEY_ID": "A", "NOTIFIER_PUSH_APNS_TEAM_ID": "B"}


def read(**values: str) -> PushSettings:
    return Settings.read({f"NOTIFIER_PUSH_{name}": value for name, value in values.items()}).push


def test_default_pushes_p0_and_p1_to_fakes() -> None:
    push = Settings.read({}).push
    assert push.pushed_tiers == [Tier.P0, Tier.P1]
    assert (push.hourly, push.daily) == (5, 20)
    assert [push.uses_fake(platform) for platform in Platform] == [True] * 3
    assert not any(push.uses_real_provider(platform) for platform in Platform)
    assert push.web.services.hosts == KNOWN_HOSTS


def test_tiers_are_sorted_and_may_be_empty() -> None:
    assert read(TIERS="p2,p0").pushed_tiers == [Tier.P0, Tier.P2]
    assert read(TIERS="").pushed_tiers == []


def test_default_fcm_limit_is_the_limit_of_google() -> None:
    assert PushSettings().provider_limits[Platform.FCM].per_minute == 600_000
    assert read(APNS_PER_MINUTE="90").provider_limits[Platform.APNS].per_minute == 90


def test_credentials_of_one_platform_leave_the_others_to_fakes() -> None:
    push = Settings.read(APPLE).push
    assert [push.uses_real_provider(platform) for platform in Platform] == [True, False, False]
    assert [push.uses_fake(platform) for platform in Platform] == [False, True, True]


@pytest.mark.parametrize(("fakes", "real", "faked"), [("on", False, True), ("off", True, False), ("auto", True, False)])
def test_fakes_can_be_on_or_off_for_all_platforms(fakes: str, real: bool, faked: bool) -> None:
    push = Settings.read(APPLE | {"NOTIFIER_PUSH_FAKES": fakes}).push
    assert (push.uses_real_provider(Platform.APNS), push.uses_fake(Platform.APNS)) == (real, faked)
    assert push.uses_fake(Platform.WEB) == (fakes != "off")


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
def test_invalid_value_is_refused_with_the_name_of_the_setting(name: str, value: str) -> None:
    with pytest.raises(BadSetting, match=f"NOTIFIER_PUSH_{name} is "):
        read(**{name: value})


@pytest.mark.parametrize("origin", ["https://push.example", "https://push.example:8443", "http://127.0.0.1:9000"])
def test_origin_uses_tls_or_loopback(origin: str) -> None:
    assert read(FCM_ORIGIN=origin).fcm.origin == origin


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"APNS_KEY": "k.p8"}, "NOTIFIER_PUSH_APNS_KEY_ID"),
        ({"WEB_KEY": "k.pem"}, "NOTIFIER_PUSH_WEB_SUBJECT"),
        ({"WEB_HOSTS": "push"}, "'push' is not the name of a push service"),
        ({"WEB_LOOPBACK": "true"}, "NOTIFIER_INSECURE_DEV"),
    ],
)
def test_incomplete_group_of_settings_is_refused(values: Mapping[str, str], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        read(**values)


def test_loopback_push_services_are_allowed_in_development() -> None:
    settings = Settings.read({"NOTIFIER_PUSH_WEB_LOOPBACK": "true", "NOTIFIER_INSECURE_DEV": "true"})
    assert settings.push.web.services.endpoint("http://127.0.0.1:9000/1").port == 9_000


def test_explicit_fake_overrides_the_fakes_of_running_up(tmp_path: Path) -> None:
    file = tmp_path / PUSH_FILE
    file.parent.mkdir()
    file.write_text('[push.fcm]\nfake = "http://127.0.0.1:1"\n[push.web]\nfake = "http://127.0.0.1:2"\n')
    push = Settings.read({"NOTIFIER_DATA": str(tmp_path), "NOTIFIER_PUSH_WEB_FAKE": "http://127.0.0.1:3"}).push
    assert (push.fcm.fake, push.web.fake) == ("http://127.0.0.1:1", "http://127.0.0.1:3")
    assert push == PushSettings(
        apns=ApnsSettings(), fcm=FcmSettings(fake=push.fcm.fake), web=WebPushSettings(fake=push.web.fake)
    )
