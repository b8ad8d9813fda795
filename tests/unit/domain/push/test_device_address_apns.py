"""Addresses as apps write them: what can be one is taken, and the rest is refused with the reason."""

from base64 import urlsafe_b64encode
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from notifier.domain.errors import BadDevice, ForeignDevice
from notifier.domain.push import device_address as forms
from notifier.domain.push.device import ApnsEnvironment, AppleToken
from notifier.domain.push.device_address import PushServices

ENDPOINT = "https://updates.push.services.mozilla.com/wpush/v2/gAAAAABk"
KEY = derive_private_key(7, SECP256R1()).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def written(some: bytes) -> str:
    return urlsafe_b64encode(some).decode()


def test_a_token_of_apple_s_is_hexadecimal_in_whichever_letters() -> None:
    for size in (64, 160, 200):
        found = forms.apple_token("Ab" * (size // 2), "com.example.app", "sandbox")
        assert found == AppleToken(
            token="ab" * (size // 2), topic="com.example.app", environment=ApnsEnvironment.SANDBOX
        )


@pytest.mark.parametrize(
    "token", ["", "ab" * 31, "ab" * 32 + "a", "ab" * 101, "zz" * 32, " " + "ab" * 32, "ab" * 32 + "\n", "０" * 64]
)
def test_what_is_no_token_of_apple_s_is_refused(token: str) -> None:
    refused(lambda: forms.apple_token(token, "com.example.app", "production"))


@pytest.mark.parametrize("topic", ["", "com example", "com..app", ".app", "a" * 256, "com.example.app\n", "com/app"])
def test_what_is_no_bundle_is_refused(topic: str) -> None:
    refused(lambda: forms.apple_token("ab" * 32, topic, "production"))


@pytest.mark.parametrize("environment", ["", "development", "PRODUCTION", "x" * 10_000])
def test_what_is_no_environment_is_refused_with_those_that_there_are(environment: str) -> None:
    assert "production, sandbox" in refused(lambda: forms.apple_token("ab" * 32, "app", environment))


def test_tokens_and_installations_of_firebase_are_told_apart_by_their_form() -> None:
    assert forms.firebase_token("cX3_" + ":APA91b-" * 18).token.startswith("cX3_:")
    assert forms.firebase_installation("dIsVQ2QVRT-TW7L6VfeAMh").fid == "dIsVQ2QVRT-TW7L6VfeAMh"


@pytest.mark.parametrize("token", ["", "a" * 31, "a" * 2_049, "a" * 40 + "\n", "a" * 40 + "/", "ä" * 40])
def test_what_is_no_token_of_firebase_s_is_refused(token: str) -> None:
    refused(lambda: forms.firebase_token(token))


@pytest.mark.parametrize("fid", ["", "c" * 21, "c" * 23, "g" + "c" * 21, "c" * 21 + ":", "c" * 22 + "\n"])
def test_what_is_no_installation_is_refused(fid: str) -> None:
    refused(lambda: forms.firebase_installation(fid))


@pytest.mark.parametrize("padded", [True, False])
def test_a_subscription_is_read_as_browsers_write_it(padded: bool) -> None:
    key, secret = (written(some) if padded else written(some).rstrip("=") for some in (KEY, b"s" * 16))
    found = forms.web_subscription(ENDPOINT, key, secret)
    assert (found.endpoint, found.key, found.secret) == (ENDPOINT, KEY, b"s" * 16)


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
def test_what_is_no_endpoint_is_refused(endpoint: str) -> None:
    refused(lambda: forms.web_subscription(endpoint, written(KEY), written(b"s" * 16)))


@pytest.mark.parametrize("host", ["push.example", "mozilla.com", "updates.push.services.mozilla.com.evil.example"])
def test_a_browser_of_a_service_that_nobody_knows_is_foreign(host: str) -> None:
    with pytest.raises(ForeignDevice, match="no push service that is known here"):
        forms.web_subscription(f"https://{host}/1", written(KEY), written(b"s" * 16))


def test_a_service_of_this_machine_counts_where_it_is_said() -> None:
    near = PushServices(loopback=True, production=False)
    found = forms.web_subscription("http://127.0.0.1:9000/wpush/v2/1", written(KEY), written(b"s" * 16), services=near)
    assert found.endpoint == "http://127.0.0.1:9000/wpush/v2/1"


def test_a_device_of_an_app_that_isn_t_named_is_foreign() -> None:
    named = {"com.example.app", "com.example.other"}
    assert forms.apple_token("ab" * 32, "com.example.other", "sandbox", topics=named).topic == "com.example.other"
    with pytest.raises(ForeignDevice):
        forms.apple_token("ab" * 32, "com.example.third", "sandbox", topics=named)


@pytest.mark.parametrize(
    "key",
    [
        "",
        written(KEY[:-1]),
        written(KEY + b"x"),
        written(b"\x02" + KEY[1:]),
        written(b"\x04" + bytes(64)),
        written(b"\x04" + b"\xff" * 64),
        written(KEY[:-1] + bytes([KEY[-1] ^ 1])),
        written(KEY).replace("A", "+", 1)[:-1] + "*",
        "=" * 88,
        "A" * 100_000,
    ],
)
def test_what_is_no_key_is_refused(key: str) -> None:
    refused(lambda: forms.web_subscription(ENDPOINT, key, written(b"s" * 16)))


@pytest.mark.parametrize("secret", ["", written(b"s" * 15), written(b"s" * 17), "not base64!!!!!!!!!!!!"])
def test_what_is_no_secret_is_refused(secret: str) -> None:
    assert "auth" in refused(lambda: forms.web_subscription(ENDPOINT, written(KEY), secret))


@pytest.mark.parametrize(
    ("said", "kept"), [("en", "en"), ("pt_BR", "pt-BR"), ("zh-Hant-TW", "zh-Hant-TW"), ("fil", "fil")]
)
def test_a_language_is_kept_as_its_tag(said: str, kept: str) -> None:
    assert forms.locale(said) == kept


@pytest.mark.parametrize("said", ["", "e", "english", "en-", "de_DE.UTF-8", "en-x", "en" + "-aa" * 20, "C", "日本"])
def test_what_is_no_language_is_refused(said: str) -> None:
    refused(lambda: forms.locale(said))


@pytest.mark.parametrize("said", ["", "Mars/Olympus", "../etc/passwd", "+02:00", "Europe", "x" * 65])
def test_what_is_no_time_zone_is_refused(said: str) -> None:
    assert forms.time_zone("Asia/Kathmandu") == "Asia/Kathmandu"
    refused(lambda: forms.time_zone(said))


def refused(form: Callable[[], object]) -> str:
    with pytest.raises(BadDevice) as refusal:
        form()
    assert len(refusal.value.detail) < 200
    return refusal.value.detail
