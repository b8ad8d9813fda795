"""Device addresses from apps and browsers: valid ones are accepted, others refused with the reason."""

from base64 import urlsafe_b64encode
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from notifier.domain.errors import BadDevice, ForeignDevice
from notifier.domain.push import device_validation
from notifier.domain.push.device import ApnsEnvironment, AppleToken
from notifier.domain.push.device_validation import PushServices

ENDPOINT = "https://updates.push.services.mozilla.com/wpush/v2/gAAAAABk"
KEY = derive_private_key(7, SECP256R1()).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode()


def test_apple_token_is_hexadecimal_in_any_case() -> None:
    for size in (64, 160, 200):
        address = device_validation.apple_token("Ab" * (size // 2), "com.example.app", "sandbox")
        assert address == AppleToken(
            token="ab" * (size // 2), topic="com.example.app", environment=ApnsEnvironment.SANDBOX
        )


@pytest.mark.parametrize(
    "token", ["", "ab" * 31, "ab" * 32 + "a", "ab" * 101, "zz" * 32, " " + "ab" * 32, "ab" * 32 + "\n", "０" * 64]
)
def test_invalid_apple_token_is_refused(token: str) -> None:
    refused(lambda: device_validation.apple_token(token, "com.example.app", "production"))


@pytest.mark.parametrize("topic", ["", "com example", "com..app", ".app", "a" * 156, "com.example.app\n", "com/app"])
def test_invalid_bundle_is_refused(topic: str) -> None:
    assert "at most 155" in refused(lambda: device_validation.apple_token("ab" * 32, topic, "production"))


def test_longest_bundle_is_accepted() -> None:
    topic = "a" * 155
    assert device_validation.apple_token("ab" * 32, topic, "production").topic == topic


@pytest.mark.parametrize("environment", ["", "development", "PRODUCTION", "x" * 10_000])
def test_invalid_environment_is_refused_with_the_valid_ones(environment: str) -> None:
    assert "production, sandbox" in refused(lambda: device_validation.apple_token("ab" * 32, "app", environment))


def test_firebase_tokens_and_installations_are_accepted() -> None:
    assert device_validation.firebase_token("cX3_" + ":APA91b-" * 18).token.startswith("cX3_:")
    assert device_validation.firebase_installation("dIsVQ2QVRT-TW7L6VfeAMh").fid == "dIsVQ2QVRT-TW7L6VfeAMh"


@pytest.mark.parametrize("token", ["", "a" * 31, "a" * 2_049, "a" * 40 + "\n", "a" * 40 + "/", "ä" * 40])
def test_invalid_firebase_token_is_refused(token: str) -> None:
    refused(lambda: device_validation.firebase_token(token))


@pytest.mark.parametrize("fid", ["", "c" * 21, "c" * 23, "g" + "c" * 21, "c" * 21 + ":", "c" * 22 + "\n"])
def test_invalid_firebase_installation_is_refused(fid: str) -> None:
    refused(lambda: device_validation.firebase_installation(fid))


@pytest.mark.parametrize("padded", [True, False])
def test_web_subscription_is_read_as_browsers_write_it(padded: bool) -> None:
    key, secret = (encoded(data) if padded else encoded(data).rstrip("=") for data in (KEY, b"s" * 16))
    address = device_validation.web_subscription(ENDPOINT, key, secret)
    assert (address.endpoint, address.key, address.secret) == (ENDPOINT, KEY, b"s" * 16)


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "http://push.example/1",
        "https://",
        "https:///path",
        "https://user@updates.push.services.mozilla.com/1",
        "https://user:secret@updates.push.services.mozilla.com/1",
        "https://@updates.push.services.mozilla.com/1",
        "https://updates.push.services.mozilla.com/1#here",
        "https://updates.push.services.mozilla.com/ 1",
        "https://updates.push.services.mozilla.com/\n",
        "https://updates.push.services.mozilla.com\\@evil.example/",
        "https://updates.push.services.mozilla.com:port/",
        "https://updates.push.services.mozilla.com:99999/",
        "https://[::1/",
        "https://updates.push.services.mozilla.com:8443/1",
        "http://updates.push.services.mozilla.com/1",
        "https://127.0.0.1/1",
        "http://127.0.0.1:9000/1",
        "https://pu\u0301sh.example/",
        "https://updates.push.services.mozilla.com/" + "x" * 2_048,
        "file:///etc/passwd",
        "javascript:alert(1)",
    ],
)
def test_invalid_endpoint_is_refused(endpoint: str) -> None:
    refused(lambda: device_validation.web_subscription(endpoint, encoded(KEY), encoded(b"s" * 16)))


@pytest.mark.parametrize("host", ["push.example", "mozilla.com", "updates.push.services.mozilla.com.evil.example"])
def test_endpoint_of_an_unknown_push_service_is_foreign(host: str) -> None:
    with pytest.raises(ForeignDevice, match="not a known push service"):
        device_validation.web_subscription(f"https://{host}/1", encoded(KEY), encoded(b"s" * 16))


def test_loopback_endpoint_is_accepted_when_enabled() -> None:
    loopback = PushServices(allows_loopback=True, is_production=False)
    address = device_validation.web_subscription(
        "http://127.0.0.1:9000/wpush/v2/1", encoded(KEY), encoded(b"s" * 16), services=loopback
    )
    assert address.endpoint == "http://127.0.0.1:9000/wpush/v2/1"


def test_device_of_an_unlisted_app_is_foreign() -> None:
    listed = {"com.example.app", "com.example.other"}
    assert (
        device_validation.apple_token("ab" * 32, "com.example.other", "sandbox", topics=listed).topic
        == "com.example.other"
    )
    with pytest.raises(ForeignDevice):
        device_validation.apple_token("ab" * 32, "com.example.third", "sandbox", topics=listed)


@pytest.mark.parametrize(
    "key",
    [
        "",
        encoded(KEY[:-1]),
        encoded(KEY + b"x"),
        encoded(b"\x02" + KEY[1:]),
        encoded(b"\x04" + bytes(64)),
        encoded(b"\x04" + b"\xff" * 64),
        encoded(KEY[:-1] + bytes([KEY[-1] ^ 1])),
        encoded(KEY).replace("A", "+", 1)[:-1] + "*",
        "=" * 88,
        "A" * 100_000,
    ],
)
def test_invalid_key_is_refused(key: str) -> None:
    refused(lambda: device_validation.web_subscription(ENDPOINT, key, encoded(b"s" * 16)))


@pytest.mark.parametrize("secret", ["", encoded(b"s" * 15), encoded(b"s" * 17), "not base64!!!!!!!!!!!!"])
def test_invalid_secret_is_refused(secret: str) -> None:
    assert "auth" in refused(lambda: device_validation.web_subscription(ENDPOINT, encoded(KEY), secret))


@pytest.mark.parametrize(
    ("text", "tag"), [("en", "en"), ("pt_BR", "pt-BR"), ("zh-Hant-TW", "zh-Hant-TW"), ("fil", "fil")]
)
def test_locale_is_normalized_to_its_tag(text: str, tag: str) -> None:
    assert device_validation.locale(text) == tag


@pytest.mark.parametrize("text", ["", "e", "english", "en-", "de_DE.UTF-8", "en-x", "en" + "-aa" * 20, "C", "日本"])
def test_invalid_locale_is_refused(text: str) -> None:
    refused(lambda: device_validation.locale(text))


@pytest.mark.parametrize("text", ["", "Mars/Olympus", "../etc/passwd", "+02:00", "Europe", "x" * 65])
def test_invalid_time_zone_is_refused(text: str) -> None:
    assert device_validation.time_zone("Asia/Kathmandu") == "Asia/Kathmandu"
    refused(lambda: device_validation.time_zone(text))


def refused(parse: Callable[[], object]) -> str:
    with pytest.raises(BadDevice) as refusal:
        parse()
    assert len(refusal.value.detail) < 200
    return refusal.value.detail
