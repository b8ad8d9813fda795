"""The fake of FCM refuses what Google refuses: a sender that does it wrong can't pass for right."""

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
from tests.support.examples import NOON
from tests.support.push_builders import Google, google
from tests.support.push_credentials import EMAIL, GOOGLE_KEY_ID, TOKEN_URI, google_key

TOKEN, FID = "install00001:APA91b" + "x" * 60, "c" + "0" * 21
SEND = "/v1/projects/made-up/messages:send"
MESSAGE: Mapping[str, Any] = {
    "token": TOKEN,
    "notification": {"body": "hello"},
    "android": {"priority": "HIGH", "ttl": "3600s", "notification": {"tag": "one"}},
}


def asking(
    *,
    issued: datetime = NOON,
    lives: timedelta = timedelta(hours=1),
    kid: str = GOOGLE_KEY_ID,
    key: rsa.RSAPrivateKey | None = None,
    **other: object,
) -> Post:
    times = {"iat": int(issued.timestamp()), "exp": int((issued + lives).timestamp())}
    scope = "https://www.googleapis.com/auth/firebase.messaging"
    claims = {"iss": EMAIL, "scope": scope, "aud": TOKEN_URI, **times, **other}
    assertion = jwt.encode(claims, key or google_key(), algorithm="RS256", headers={"kid": kid})
    return grant({"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion})


def grant(form: Mapping[str, str], content: str = "application/x-www-form-urlencoded") -> Post:
    headers = [("content-type", content)]
    return Post(
        origin="https://oauth2.googleapis.com:443", path="/token", headers=headers, body=urlencode(form).encode()
    )


def letter(made: Google, message: object = MESSAGE, *, path: str = SEND, bearer: str | None = None) -> Reply:
    if bearer is None:
        bearer = json.loads(made.fake.answer(asking(issued=made.theirs.now())).body)["access_token"]
    body = json.dumps({"message": message}).encode()
    headers = [("authorization", f"Bearer {bearer}")]
    return made.fake.answer(Post(origin="https://fcm.googleapis.com:443", path=path, headers=headers, body=body))


def error(reply: Reply) -> tuple[int, str, str | None]:
    """Status, google.rpc's word, and FCM's."""
    found = json.loads(reply.body)["error"]
    return reply.status, found["status"], next((each.get("errorCode") for each in found["details"]), None)


def test_what_is_right_rings_the_phone() -> None:
    made = google()
    reply = letter(made)
    assert (reply.status, json.loads(reply.body)) == (200, {"name": "projects/made-up/messages/0"})
    assert made.fake.phones[TOKEN].shows == {"one": "hello"}


def test_without_a_tag_each_stands_for_itself() -> None:
    made = google()
    for _ in range(2):
        letter(made, {"fid": FID, "notification": {"body": "hello"}})
    assert [*made.fake.phones[FID].shows.values()] == ["hello", "hello"]


@pytest.mark.parametrize(
    ("post", "code"),
    [
        (grant({"grant_type": "password"}), "unsupported_grant_type"),
        (grant({"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}), "invalid_grant"),
        (grant({}, content="application/json"), "invalid_request"),
        (asking(key=rsa.generate_private_key(public_exponent=65_537, key_size=2_048)), "invalid_grant"),
        (asking(kid="other"), "invalid_grant"),
        (asking(iss="other@example.com"), "invalid_grant"),
        (asking(aud="https://example.com"), "invalid_grant"),
        (asking(scope="https://www.googleapis.com/auth/drive"), "invalid_scope"),
        (asking(lives=timedelta(hours=2)), "invalid_grant"),
        (asking(issued=NOON - timedelta(hours=2)), "invalid_grant"),
        (asking(issued=NOON + timedelta(hours=2)), "invalid_grant"),
        (asking(iat="noon"), "invalid_grant"),
    ],
    ids=range(12),
)
def test_a_question_for_a_token_that_is_wrong(post: Post, code: str) -> None:
    reply = google().fake.answer(post)
    assert (reply.status, json.loads(reply.body)["error"]) == (400, code)


def test_a_token_is_good_for_an_hour_and_until_it_is_revoked() -> None:
    made = google()
    token = json.loads(made.fake.answer(asking()).body)["access_token"]
    assert letter(made, bearer="other").status == 401
    assert letter(made, bearer=token).status == 200
    made.advance(timedelta(hours=1))
    assert error(letter(made, bearer=token)) == (401, "UNAUTHENTICATED", None)
    token = json.loads(made.fake.answer(asking(issued=made.theirs.now())).body)["access_token"]
    made.fake.grants.revoke()
    assert letter(made, bearer=token).status == 401


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
def test_a_field_that_is_wrong_is_named(message: object, field: str) -> None:
    reply = letter(google(), message)
    [detail] = json.loads(reply.body)["error"]["details"]
    assert (reply.status, detail["fieldViolations"][0]["field"]) == (400, field)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"token": "x"}, "The registration token is not a valid FCM registration token"),
        ({"token": TOKEN, "notification": {"body": "中" * 1_400}}, "Android message is too big"),
    ],
    ids=["token", "size"],
)
def test_for_a_token_and_for_the_size_there_is_a_sentence_and_no_field(message: object, said: str) -> None:
    reply = letter(google(), message)
    assert error(reply) == (400, "INVALID_ARGUMENT", "INVALID_ARGUMENT")
    assert json.loads(reply.body)["error"]["message"] == said


def test_what_is_no_message_of_this_project_is_refused() -> None:
    made = google()
    assert error(letter(made, path="/v1/projects/other/messages:send"))[:2] == (403, "PERMISSION_DENIED")
    assert error(letter(made, path="/fcm/send"))[:2] == (404, "NOT_FOUND")


def test_an_app_that_is_gone_comes_back_by_being_installed() -> None:
    made = google()
    made.fake.uninstall(TOKEN)
    assert error(letter(made)) == (404, "NOT_FOUND", "UNREGISTERED")
    made.fake.install(TOKEN)
    assert letter(made).status == 200


def test_the_script_is_played() -> None:
    assert error(letter(google(script=ProviderScript(gone=1.0)))) == (404, "NOT_FOUND", "UNREGISTERED")
    assert error(letter(google(script=ProviderScript(elsewhere=1.0)))) == (
        403,
        "PERMISSION_DENIED",
        "SENDER_ID_MISMATCH",
    )
    half_a_minute = FaultWindow(lasting=timedelta(seconds=30))
    limited = google(script=ProviderScript(limited=half_a_minute))
    limited.advance(timedelta(seconds=10))
    reply = letter(limited)
    assert (error(reply), reply.headers["retry-after"]) == ((429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"), "20")
    down = google(script=ProviderScript(down=half_a_minute))
    assert error(letter(down))[:2] == (503, "UNAVAILABLE")
    down.advance(timedelta(seconds=30))
    assert letter(down).status == 200
