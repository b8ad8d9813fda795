"""The fake FCM refuses what Google refuses, so that tests detect a wrong sender."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from notifier.devkit.fake_providers import FaultWindow, ProviderScript
from notifier.ports.push import Post, Reply
from tests.support.apns_and_fcm_senders import Google, google
from tests.support.domain_examples import NOON
from tests.support.push_credentials import GOOGLE_EMAIL, GOOGLE_KEY_ID, TOKEN_URI, fake_google_key

TOKEN, FID = "install00001:APA91b" + "x" * 60, "c" + "0" * 21
SEND = "/v1/projects/made-up/messages:send"
MESSAGE: Mapping[str, Any] = {
    "token": TOKEN,
    "notification": {"body": "hello"},
    "android": {"priority": "HIGH", "ttl": "3600s", "notification": {"tag": "one"}},
}


def token_request(
    *,
    issued: datetime = NOON,
    lifetime: timedelta = timedelta(hours=1),
    kid: str = GOOGLE_KEY_ID,
    key: rsa.RSAPrivateKey | None = None,
    **overrides: object,
) -> Post:
    times = {"iat": int(issued.timestamp()), "exp": int((issued + lifetime).timestamp())}
    scope = "https://www.googleapis.com/auth/firebase.messaging"
    claims = {"iss": GOOGLE_EMAIL, "scope": scope, "aud": TOKEN_URI, **times, **overrides}
    assertion = jwt.encode(claims, key or fake_google_key(), algorithm="RS256", headers={"kid": kid})
    return grant({"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion})


def grant(form: Mapping[str, str], content: str = "application/x-www-form-urlencoded") -> Post:
    headers = [("content-type", content)]
    return Post(
        origin="https://oauth2.googleapis.com:443", path="/token", headers=headers, body=urlencode(form).encode()
    )


def send_message(fcm: Google, message: object = MESSAGE, *, path: str = SEND, bearer: str | None = None) -> Reply:
    if bearer is None:
        bearer = json.loads(fcm.fake.answer(token_request(issued=fcm.provider_clock.now())).body)["access_token"]
    body = json.dumps({"message": message}).encode()
    headers = [("authorization", f"Bearer {bearer}")]
    return fcm.fake.answer(Post(origin="https://fcm.googleapis.com:443", path=path, headers=headers, body=body))


def error_of(reply: Reply) -> tuple[int, str, str | None]:
    """Return the HTTP status, the google.rpc status and FCM's error code."""
    body = json.loads(reply.body)["error"]
    return reply.status, body["status"], next((detail.get("errorCode") for detail in body["details"]), None)


def test_valid_message_shows_the_alert() -> None:
    fcm = google()
    reply = send_message(fcm)
    assert (reply.status, json.loads(reply.body)) == (200, {"name": "projects/made-up/messages/0"})
    assert fcm.fake.phones[TOKEN].shown == {"one": "hello"}


def test_messages_without_a_tag_are_shown_separately() -> None:
    fcm = google()
    for _ in range(2):
        send_message(fcm, {"fid": FID, "notification": {"body": "hello"}})
    assert [*fcm.fake.phones[FID].shown.values()] == ["hello", "hello"]


@pytest.mark.parametrize(
    ("post", "code"),
    [
        (grant({"grant_type": "password"}), "unsupported_grant_type"),
        (grant({"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}), "invalid_grant"),
        (grant({}, content="application/json"), "invalid_request"),
        (token_request(key=rsa.generate_private_key(public_exponent=65_537, key_size=2_048)), "invalid_grant"),
        (token_request(kid="other"), "invalid_grant"),
        (token_request(iss="other@example.com"), "invalid_grant"),
        (token_request(aud="https://example.com"), "invalid_grant"),
        (token_request(scope="https://www.googleapis.com/auth/drive"), "invalid_scope"),
        (token_request(lifetime=timedelta(hours=2)), "invalid_grant"),
        (token_request(issued=NOON - timedelta(hours=2)), "invalid_grant"),
        (token_request(issued=NOON + timedelta(hours=2)), "invalid_grant"),
        (token_request(iat="noon"), "invalid_grant"),
    ],
    ids=range(12),
)
def test_invalid_token_request_is_refused(post: Post, code: str) -> None:
    reply = google().fake.answer(post)
    assert (reply.status, json.loads(reply.body)["error"]) == (400, code)


def test_token_is_valid_for_an_hour_or_until_revoked() -> None:
    fcm = google()
    token = json.loads(fcm.fake.answer(token_request()).body)["access_token"]
    assert send_message(fcm, bearer="other").status == 401
    assert send_message(fcm, bearer=token).status == 200
    fcm.advance(timedelta(hours=1))
    assert error_of(send_message(fcm, bearer=token)) == (401, "UNAUTHENTICATED", None)
    token = json.loads(fcm.fake.answer(token_request(issued=fcm.provider_clock.now())).body)["access_token"]
    fcm.fake.token_endpoint.revoke()
    assert send_message(fcm, bearer=token).status == 401


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({}, "message"),
        ("hello", "message"),
        ({"token": TOKEN, "fid": FID}, "message"),
        ({"token": TOKEN, "badge": 1}, "message"),
        ({"token": TOKEN, "android": {"tag": "x"}}, "message.android"),
        ({"token": TOKEN, "data": {"n": 7}}, "message.data[n]"),
        ({"token": TOKEN, "notification": {"body": 7}}, "message.notification.body"),
        ({"token": 7}, "message.token"),
        ({"token": TOKEN, "android": {"ttl": "3600"}}, "message.android.ttl"),
        ({"token": TOKEN, "android": {"ttl": "2419201s"}}, "message.android.ttl"),
        ({"token": TOKEN, "android": {"ttl": "-1s"}}, "message.android.ttl"),
        ({"token": TOKEN, "android": {"priority": "LOUD"}}, "message.android.priority"),
        ({"fid": "x"}, "message.fid"),
    ],
)
def test_invalid_field_is_named(message: object, field: str) -> None:
    reply = send_message(google(), message)
    [detail] = json.loads(reply.body)["error"]["details"]
    assert (reply.status, detail["fieldViolations"][0]["field"]) == (400, field)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"token": "x"}, "The registration token is not a valid FCM registration token"),
        ({"token": TOKEN, "notification": {"body": "中" * 1_400}}, "Android message is too big"),
    ],
    ids=["token", "size"],
)
def test_invalid_token_and_size_are_reported_as_text_only(message: object, text: str) -> None:
    reply = send_message(google(), message)
    assert error_of(reply) == (400, "INVALID_ARGUMENT", "INVALID_ARGUMENT")
    assert json.loads(reply.body)["error"]["message"] == text


def test_message_to_another_project_or_path_is_refused() -> None:
    fcm = google()
    assert error_of(send_message(fcm, path="/v1/projects/other/messages:send"))[:2] == (403, "PERMISSION_DENIED")
    assert error_of(send_message(fcm, path="/fcm/send"))[:2] == (404, "NOT_FOUND")


def test_uninstalled_app_is_refused_until_reinstalled() -> None:
    fcm = google()
    fcm.fake.uninstall(TOKEN)
    assert error_of(send_message(fcm)) == (404, "NOT_FOUND", "UNREGISTERED")
    fcm.fake.install(TOKEN)
    assert send_message(fcm).status == 200


def test_scripted_faults_are_simulated() -> None:
    assert error_of(send_message(google(script=ProviderScript(gone_share=1.0)))) == (404, "NOT_FOUND", "UNREGISTERED")
    assert error_of(send_message(google(script=ProviderScript(elsewhere_share=1.0)))) == (
        403,
        "PERMISSION_DENIED",
        "SENDER_ID_MISMATCH",
    )
    half_a_minute = FaultWindow(duration=timedelta(seconds=30))
    limited = google(script=ProviderScript(limited=half_a_minute))
    limited.advance(timedelta(seconds=10))
    reply = send_message(limited)
    assert (error_of(reply), reply.headers["retry-after"]) == ((429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"), "20")
    down = google(script=ProviderScript(down=half_a_minute))
    assert error_of(send_message(down))[:2] == (503, "UNAVAILABLE")
    down.advance(timedelta(seconds=30))
    assert send_message(down).status == 200
