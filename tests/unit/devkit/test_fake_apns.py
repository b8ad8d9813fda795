"""The fake of APNs refuses what Apple refuses: a sender that does it wrong can't pass for right."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from notifier.devkit.fake_providers import FaultWindow, ProviderScript
from notifier.domain.push.device import ApnsEnvironment
from notifier.ports.push import Post, Reply
from tests.support.examples import NOON
from tests.support.push_builders import TOPIC, Apple, apple
from tests.support.push_credentials import KEY_ID, TEAM_ID, apple_key

PRODUCTION, SANDBOX = "https://api.push.apple.com:443", "https://api.sandbox.push.apple.com:443"
TOKEN = "ab" * 32
ID = "eabeae54-14a8-11e5-b60b-1697f925ec7b"
BODY = b'{"aps":{"alert":{"body":"hello"}}}'


def bearer(
    *, issued: datetime = NOON, kid: str = KEY_ID, team: str = TEAM_ID, key: EllipticCurvePrivateKey | None = None
) -> str:
    claims = {"iss": team, "iat": int(issued.timestamp())}
    return "bearer " + jwt.encode(claims, key or apple_key(), algorithm="ES256", headers={"kid": kid})


GOOD = {
    "authorization": bearer(),
    "apns-id": ID,
    "apns-push-type": "alert",
    "apns-priority": "10",
    "apns-expiration": "0",
    "apns-topic": TOPIC,
    "apns-collapse-id": "one",
}


def post(
    headers: Mapping[str, str | None] | None = None,
    *,
    token: str = TOKEN,
    body: bytes = BODY,
    origin: str = PRODUCTION,
    path: str = "",
) -> Post:
    merged = {name: value for name, value in {**GOOD, **(headers or {})}.items() if value is not None}
    return Post(origin=origin, path=path or f"/3/device/{token}", headers=[*merged.items()], body=body)


def said(reply: Reply) -> tuple[int, Any]:
    return reply.status, json.loads(reply.body)["reason"] if reply.body else None


def answered(given: Post) -> tuple[int, Any]:
    return said(apple().fake.answer(given))


def test_what_is_right_rings_the_phone() -> None:
    made = apple()
    reply = made.fake.answer(post())
    assert (reply.status, reply.body, reply.headers) == (200, b"", {"apns-id": ID})
    assert made.fake.phones[TOKEN].shows == {"one": "hello"}


def test_without_a_collapse_id_each_stands_for_itself_and_the_same_one_replaces() -> None:
    made = apple()
    other = "00000000-0000-0000-0000-000000000001"
    for headers in ({}, {}, {"apns-collapse-id": None, "apns-id": other}, {"apns-collapse-id": None}):
        assert made.fake.answer(post(headers)).status == 200
    assert [*made.fake.phones[TOKEN].shows] == ["one", other, ID]
    assert (made.fake.phones[TOKEN].rang, made.fake.phones.duplicates) == (4, 2)


@pytest.mark.parametrize(
    ("headers", "status", "reason"),
    [
        ({"authorization": None}, 403, "MissingProviderToken"),
        ({"authorization": "basic x"}, 403, "InvalidProviderToken"),
        ({"authorization": "bearer x.y.z"}, 403, "InvalidProviderToken"),
        ({"authorization": bearer(kid="OTHER12345")}, 403, "InvalidProviderToken"),
        ({"authorization": bearer(team="OTHER12345")}, 403, "InvalidProviderToken"),
        ({"authorization": bearer(key=apple_key(2))}, 403, "InvalidProviderToken"),
        ({"authorization": bearer(issued=NOON + timedelta(hours=2))}, 403, "InvalidProviderToken"),
        ({"authorization": bearer(issued=NOON - timedelta(minutes=61))}, 403, "ExpiredProviderToken"),
        ({"apns-id": "7"}, 400, "BadMessageId"),
        ({"apns-expiration": "tomorrow"}, 400, "BadExpirationDate"),
        ({"apns-priority": "7"}, 400, "BadPriority"),
        ({"apns-push-type": "background"}, 400, "BadPriority"),
        ({"apns-push-type": None}, 400, "InvalidPushType"),
        ({"apns-push-type": "shout"}, 400, "InvalidPushType"),
        ({"apns-collapse-id": "x" * 65}, 400, "BadCollapseId"),
        ({"apns-collapse-id": "é" * 33}, 400, "BadCollapseId"),
        ({"apns-topic": None}, 400, "MissingTopic"),
        ({"apns-topic": "com.other"}, 400, "TopicDisallowed"),
    ],
)
def test_a_header_that_is_wrong(headers: Mapping[str, str | None], status: int, reason: str) -> None:
    assert answered(post(headers)) == (status, reason)


@pytest.mark.parametrize(
    ("given", "status", "reason"),
    [
        (post(path="/device/x"), 404, "BadPath"),
        (post(token=""), 404, "BadPath"),
        (post(token="zz" * 32), 400, "BadDeviceToken"),
        (post(token="ab" * 31), 400, "BadDeviceToken"),
        (post(body=b""), 400, "PayloadEmpty"),
        (post(body=b'{"aps":7}'), 400, "PayloadEmpty"),
        (post(body=BODY + b" " * (4_097 - len(BODY))), 413, "PayloadTooLarge"),
    ],
    ids=range(7),
)
def test_a_path_or_a_body_that_is_wrong(given: Post, status: int, reason: str) -> None:
    given = replace(given, path="/3/device/") if given.path == "/3/device/" else given
    expected = (400, "MissingDeviceToken") if given.path == "/3/device/" else (status, reason)
    assert answered(given) == expected


def test_4096_bytes_are_taken() -> None:
    assert apple().fake.answer(post(body=BODY + b" " * (4_096 - len(BODY)))).status == 200


def test_a_header_given_twice_is_one_too_many() -> None:
    given = post()
    assert answered(replace(given, headers=[*given.headers, ("apns-id", ID)])) == (400, "DuplicateHeaders")


def test_an_app_s_token_is_a_stranger_to_the_other_environment_and_to_other_apps() -> None:
    made = apple()
    made.fake.install(TOKEN, TOPIC, ApnsEnvironment.SANDBOX)
    assert said(made.fake.answer(post())) == (400, "BadDeviceToken")
    assert made.fake.answer(post(origin=SANDBOX)).status == 200
    made.fake.install(TOKEN, "com.other")
    assert said(made.fake.answer(post())) == (400, "DeviceTokenNotForTopic")


def test_an_app_that_is_gone_says_since_when_and_comes_back_by_being_installed() -> None:
    made = apple()
    made.fake.uninstall(TOKEN, NOON - timedelta(hours=1))
    reply = made.fake.answer(post())
    assert reply.status == 410
    assert json.loads(reply.body) == {"reason": "Unregistered", "timestamp": int(NOON.timestamp() - 3_600) * 1_000}
    made.fake.install(TOKEN, TOPIC)
    assert made.fake.answer(post()).status == 200


def test_one_provider_token_for_each_alert_is_too_many() -> None:
    made = apple()
    found = [
        said(made.fake.answer(post({"authorization": bearer(issued=NOON - timedelta(seconds=n))}))) for n in range(4)
    ]
    assert found == [
        (200, None),
        (200, None),
        (429, "TooManyProviderTokenUpdates"),
        (429, "TooManyProviderTokenUpdates"),
    ]
    made.advance(timedelta(minutes=20))
    assert made.fake.answer(post({"authorization": bearer(issued=NOON + timedelta(minutes=20))})).status == 200


def statuses(made: Apple, many: int = 2_000) -> list[int]:
    return [made.fake.answer(post(token=f"{n:064x}")).status for n in range(many)]


def test_a_share_of_the_tokens_is_gone_the_same_ones_by_one_seed() -> None:
    found = statuses(apple(script=ProviderScript(gone=0.02, seed=1)))
    assert 20 <= found.count(410) <= 60
    assert (
        statuses(apple(script=ProviderScript(gone=0.02, seed=1)))
        == found
        != statuses(apple(script=ProviderScript(gone=0.02)))
    )
    reply = apple(script=ProviderScript(gone=1.0, gone_for=timedelta(days=3))).fake.answer(post())
    since = datetime.fromtimestamp(json.loads(reply.body)["timestamp"] / 1_000, UTC)
    assert since == NOON - timedelta(days=3)


def test_a_share_of_the_tokens_is_another_environment_s() -> None:
    assert 400 <= statuses(apple(script=ProviderScript(elsewhere=0.25))).count(400) <= 600


def test_for_a_while_it_takes_nothing_and_says_until_when() -> None:
    made = apple(script=ProviderScript(limited=FaultWindow(after=timedelta(seconds=10), lasting=timedelta(seconds=30))))
    assert made.fake.answer(post()).status == 200
    made.advance(timedelta(seconds=20))
    reply = made.fake.answer(post())
    assert (said(reply), reply.headers["retry-after"]) == ((429, "TooManyRequests"), "20")
    made.advance(timedelta(seconds=20))
    assert made.fake.answer(post()).status == 200


def test_for_a_while_it_is_down() -> None:
    made = apple(script=ProviderScript(down=FaultWindow(lasting=timedelta(seconds=30))))
    assert said(made.fake.answer(post())) == (503, "ServiceUnavailable")
    made.advance(timedelta(seconds=30))
    assert made.fake.answer(post()).status == 200
    assert made.fake.answered == {"ServiceUnavailable": 1, "Accepted": 1}
