"""The fake providers over real connections, with the senders of a profile."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from notifier.adapters.clock_and_nonces import SystemClock
from notifier.adapters.http2 import Http2Limits
from notifier.adapters.push.public_test_credentials import APPLE_KEY_ID, APPLE_TEAM_ID, VAPID_SUBJECT, elliptic_key
from notifier.config import Settings
from notifier.config.push import ApnsSettings, FcmSettings, PushSettings, WebPushSettings
from notifier.devkit.check.check_alerts import read_alerts
from notifier.devkit.fake_providers import FakePushService
from notifier.devkit.fake_providers.behavior import Behavior
from notifier.devkit.fake_providers.fake_devices import APNS_TOPIC, fixture_address, fixture_subscription, member_of
from notifier.devkit.fake_providers.hosting import AlertLog, HostedFake, host_fake
from notifier.devkit.http2.server import serving
from notifier.domain.errors import BadSetting
from notifier.domain.ids import Member, Platform, UserId
from notifier.domain.push.alert import Alert, build_test_alert
from notifier.domain.push.device import AppleToken, Device
from notifier.domain.push.receipt import Accepted, ConfigError, DropDevice, Receipt, RetryAt, Unknown
from notifier.ports.push import Provider
from notifier.profiles.push_providers import HTTP2_LIMITS, describe_credentials, providers, require_credentials
from tests.support.certificate_authority import Authority
from tests.support.push_credentials import pem, service_account

NOW = datetime.now(UTC)
AGO = NOW - timedelta(days=1)
every_platform = pytest.mark.parametrize("platform", Platform)


def alert(nonce: str = "1") -> Alert:
    return build_test_alert(UserId("ada"), "hä? 你好", now=datetime.now(UTC), nonce=nonce)


def fixture(platform: Platform, *members: int) -> Sequence[Device]:
    return [Device(member=Member(m), address=fixture_address(platform, m), registered_at=AGO) for m in members]


class FakeAndSender:
    """A hosted fake and the sender for it."""

    def __init__(
        self,
        platform: Platform,
        stack: ExitStack,
        script: str = "",
        out: Path | None = None,
        certificate: Path | None = None,
    ) -> None:
        self.platform = platform
        behavior = Behavior.read(script, platform)
        self.fake: HostedFake = stack.enter_context(host_fake(platform, behavior, out=out, certificate=certificate))
        limits = Http2Limits(answer_timeout=timedelta(seconds=1)) if "stall" in script else HTTP2_LIMITS[platform]
        senders = providers(settings(platform, self.fake.origin), SystemClock(), stack, dict.fromkeys(Platform, limits))
        self.provider: Provider = senders[platform]

    def send(self, *members: int, nonce: str = "1") -> list[Receipt]:
        receipts = dict(self.provider.send(alert(nonce), fixture(self.platform, *members)))
        return [receipts[device] for device in fixture(self.platform, *members)]


def settings(platform: Platform, origin: str) -> Settings:
    match platform:
        case Platform.APNS:
            return Settings(push=PushSettings(apns=ApnsSettings(fake=origin)))
        case Platform.FCM:
            return Settings(push=PushSettings(fcm=FcmSettings(fake=origin)))
        case Platform.WEB:
            return Settings(push=PushSettings(web=WebPushSettings(fake=origin)))


@every_platform
def test_fixture_devices_get_alerts_and_each_is_logged(platform: Platform, tmp_path: Path) -> None:
    file = tmp_path / "alerts.ndjson"
    with ExitStack() as stack:
        hosted = FakeAndSender(platform, stack, out=file)
        assert hosted.send(1, 7, 200_000_000) == [Accepted()] * 3
        assert hosted.send(7, nonce="2") == hosted.send(7, nonce="2") == [Accepted()]
        assert hosted.fake.alert_count == 5
    with ExitStack() as stack:  # restarted after a kill; it remembers earlier alerts
        assert FakeAndSender(platform, stack, out=file).send(7, nonce="2") == [Accepted()]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {(member_of(line["to"]), line["again"]) for line in lines[:3]} == {
        (1, False),
        (7, False),
        (200_000_000, False),
    }
    assert [(member_of(line["to"]), line["again"]) for line in lines[3:]] == [(7, False), (7, True), (7, True)]
    assert {line["platform"] for line in lines} == {platform}
    assert {line["text"] for line in lines} == {"hä? 你好"}
    assert {line["place"] for line in lines} == {alert("1").collapse_id, alert("2").collapse_id}
    assert all(datetime.fromisoformat(line["at"]) >= NOW - timedelta(seconds=1) for line in lines)


@every_platform
@pytest.mark.parametrize(
    ("script", "kind", "alert_count"),
    [
        ("gone=100%", DropDevice, 0),
        ("limited=30s", RetryAt, 0),
        ("down=30s", RetryAt, 0),
        ("down=30s,after=1h", Accepted, 1),
        ("stall", Unknown, 1),
    ],
)
def test_scripted_faults_are_simulated(platform: Platform, script: str, kind: type[Receipt], alert_count: int) -> None:
    with ExitStack() as stack:
        hosted = FakeAndSender(platform, stack, script)
        if platform is Platform.FCM and kind is Unknown:
            kind, alert_count = RetryAt, 0  # nothing is sent, because the access token request stalls, too
        [receipt] = hosted.send(1)
        assert isinstance(receipt, kind)
        assert hosted.fake.alert_count == alert_count


@pytest.mark.parametrize("platform", [Platform.APNS, Platform.FCM])
def test_devices_of_another_environment_are_dropped(platform: Platform) -> None:
    with ExitStack() as stack:
        assert isinstance(FakeAndSender(platform, stack, "elsewhere=100%").send(1)[0], DropDevice)


def test_sender_survives_cut_and_ended_connections() -> None:
    with ExitStack() as stack:
        with_goaway = FakeAndSender(Platform.APNS, stack, "goaway=5")
        assert with_goaway.send(*range(30)) == [Accepted()] * 30
        assert with_goaway.fake.connection_counts.connections >= 6
        with_cuts = FakeAndSender(Platform.WEB, stack, "cut=5")
        receipts = with_cuts.send(*range(30))
        assert Unknown in {type(receipt) for receipt in receipts} <= {Accepted, Unknown}
        assert with_cuts.fake.connection_counts.processed == with_cuts.fake.alert_count


def test_streams_and_latency_follow_the_script() -> None:
    with ExitStack() as stack:
        hosted = FakeAndSender(Platform.FCM, stack, "streams=1,latency=20ms")
        began = SystemClock().now()
        assert hosted.send(*range(3)) == [Accepted()] * 3
        assert hosted.fake.connection_counts.max_streams == 1
        assert SystemClock().now() - began >= timedelta(seconds=0.02)


def test_browser_outside_the_fixture_is_not_dropped() -> None:
    with ExitStack() as stack:
        hosted = FakeAndSender(Platform.WEB, stack)
        foreign = fixture_subscription("https://web.push.apple.com", 7)
        [fixture_device] = fixture(Platform.WEB, 7)
        second = Device(
            member=Member(9),
            address=fixture_address(Platform.WEB, 9, origin="https://fcm.googleapis.com"),
            registered_at=AGO,
        )
        device = Device(member=fixture_device.member, address=foreign, registered_at=AGO)
        assert [receipt for _, receipt in hosted.provider.send(alert(), [device, second])] == [Accepted()] * 2
        assert hosted.fake.alert_count == 2


@every_platform
def test_missing_credentials_error_names_the_setting(platform: Platform) -> None:
    for push, expected in ((PushSettings(), "is not set, and no fake"), (PushSettings(fakes="off"), "is not set.")):
        with ExitStack() as stack:
            sender = providers(Settings(push=push), SystemClock(), stack)[platform]
            [(_, receipt)] = sender.send(alert(), fixture(platform, 1))
        assert isinstance(receipt, ConfigError)
        assert receipt.reason.startswith("no credentials: NOTIFIER_PUSH_")
        assert expected in receipt.reason


def test_unreadable_key_is_a_config_error(tmp_path: Path) -> None:
    file = tmp_path / "web.pem"
    push = PushSettings(web=WebPushSettings(key=str(file), subject="mailto:ops@example.org"))
    with ExitStack() as stack:
        sender = providers(Settings(push=push), SystemClock(), stack)[Platform.WEB]
        [(_, receipt)] = sender.send(alert(), fixture(Platform.WEB, 1))
        assert receipt == ConfigError(reason=f"NOTIFIER_PUSH_WEB_KEY can't be read: {file}: No such file or directory.")
        file.write_text("no key")
        [(_, receipt)] = sender.send(alert(), fixture(Platform.WEB, 1))
        assert isinstance(receipt, ConfigError)
        assert "is not PEM" in receipt.reason


def test_invalid_log_lines_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "alerts.ndjson"
    file.write_bytes(b'half a line\n{"alert": "of somebody else"}\n[]\n{"platform": "apns", "to": "a", "id": "1"}\n')
    with file.open("ab", buffering=0) as out:
        arrivals = AlertLog(out=out, platform=Platform.APNS, clock=SystemClock())
        arrivals.remember(file)
        arrivals.write("a", collapse_id="p", text="t", id="1")
    assert json.loads(file.read_text().splitlines()[-1])["again"] is True


def test_truncated_log_line_does_not_damage_the_next(tmp_path: Path) -> None:
    file = tmp_path / "alerts.ndjson"
    file.write_bytes(b'{"at": "2026-01-05T12:00:03Z", "platform": "apns", "to": "fixt')
    with file.open("ab", buffering=0) as out:
        for platform in (Platform.APNS, Platform.FCM):
            AlertLog(out=out, platform=platform, clock=SystemClock()).remember(file)
        AlertLog(out=out, platform=Platform.APNS, clock=SystemClock()).write("a", collapse_id="p", text="t", id="1")
        out.write(b'{"at": "half a line, still being wri')
    assert [(arrival.address, arrival.collapse_id) for arrival in read_alerts([file])] == [("a", "p")]


def test_credentials_from_files_are_used_with_configured_servers(tmp_path: Path) -> None:
    apple, web = tmp_path / "AuthKey.p8", tmp_path / "web.pem"
    apple.write_bytes(pem(elliptic_key(1)))
    web.write_bytes(pem(elliptic_key(2)))
    with ExitStack() as stack:
        phones, browsers = (stack.enter_context(host_fake(platform)) for platform in (Platform.APNS, Platform.WEB))
        push = PushSettings(
            apns=ApnsSettings(
                key=str(apple),
                key_id=APPLE_KEY_ID,
                team_id=APPLE_TEAM_ID,
                topics=APNS_TOPIC,
                production=phones.origin,
            ),
            web=WebPushSettings(key=str(web), subject=VAPID_SUBJECT, loopback=True),
        )
        require_credentials(push)
        senders = providers(Settings(push=push, insecure_dev=True), SystemClock(), stack)
        [iphone] = fixture(Platform.APNS, 7)
        foreign = replace(iphone, address=AppleToken(token="ab" * 32, topic="com.rival"))
        local_browser = replace(iphone, address=fixture_subscription(browsers.origin, 7))
        receipts = [receipt for _, receipt in senders[Platform.APNS].send(alert(), [iphone, foreign])]
        assert sorted(receipts, key=repr) == [Accepted(), DropDevice(reason="TopicDisallowed")]
        assert [receipt for _, receipt in senders[Platform.WEB].send(alert(), [local_browser])] == [Accepted()]
        assert (phones.alert_count, browsers.alert_count) == (1, 1)


@pytest.mark.parametrize("real", [False, True])
def test_firebase_admin_sends_to_fake_and_with_account(real: bool, tmp_path: Path) -> None:
    file = tmp_path / "account.json"
    with ExitStack() as stack:
        fake = stack.enter_context(host_fake(Platform.FCM))
        file.write_bytes(service_account(f"{fake.origin}/token"))
        fcm_settings = FcmSettings(account=str(file), origin=fake.origin) if real else FcmSettings(fake=fake.origin)
        push = PushSettings(fcm=replace(fcm_settings, library="firebase-admin"))
        require_credentials(push)
        sender = providers(Settings(push=push), SystemClock(), stack)[Platform.FCM]
        assert [receipt for _, receipt in sender.send(alert(), fixture(Platform.FCM, 1, 7))] == [Accepted()] * 2
        assert (fake.alert_count, fake.connection_counts.max_streams) == (2, 0), "it speaks HTTP/1.1"


def test_browser_accepts_only_the_key_of_its_subscription(tmp_path: Path) -> None:
    files = [tmp_path / "web.pem", tmp_path / "other.pem"]
    for file in files:
        file.write_bytes(pem(ec.generate_private_key(ec.SECP256R1())))
    keys = [PushSettings(web=WebPushSettings(key=str(file), subject=VAPID_SUBJECT, loopback=True)) for file in files]
    public = describe_credentials(keys[0], Platform.WEB).rpartition(" ")[2]
    service = FakePushService(clock=SystemClock())
    with ExitStack() as stack:
        server = stack.enter_context(serving(service.answer))
        service.origin = server.origin
        device = Device(member=Member(7), address=service.subscribe(public).subscription, registered_at=AGO)
        for push, kind in zip(keys, (Accepted, ConfigError), strict=True):
            provider = providers(Settings(push=push, insecure_dev=True), SystemClock(), stack)[Platform.WEB]
            [(_, receipt)] = provider.send(alert(), [device])
            assert isinstance(receipt, kind), receipt
    assert service.phones.alert_count == 1


def test_invalid_service_account_is_rejected_at_start(tmp_path: Path) -> None:
    file = tmp_path / "account.json"
    file.write_text("{}")
    push = PushSettings(fcm=FcmSettings(account=str(file)))
    with pytest.raises(BadSetting, match="service account of FCM"):
        require_credentials(push)
    require_credentials(push, [Platform.APNS])
    file.write_bytes(service_account())
    require_credentials(push)


@every_platform
def test_untrusted_server_gets_no_alerts_and_drops_no_device(platform: Platform, tmp_path: Path) -> None:
    certificate = Authority.create(tmp_path, "untrusted").server()
    with ExitStack() as stack:
        hosted = FakeAndSender(platform, stack, certificate=certificate)
        receipts = hosted.send(1, 7)
        assert [type(receipt) for receipt in receipts] == [RetryAt, RetryAt]
        assert all("certificate" in receipt.reason for receipt in receipts if isinstance(receipt, RetryAt)), receipts
        assert hosted.fake.alert_count == 0
