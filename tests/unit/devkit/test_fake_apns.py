"""The fake APNs refuses what Apple refuses, so that tests detect a wrong sender."""

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
from tests.support.apns_and_fcm_senders import TOPIC, Apple, apple
from tests.support.domain_examples import NOON
from tests.support.push_credentials import APPLE_KEY_ID, APPLE_TEAM_ID, apple_key

PRODUCTION, SANDBOX = "https://api.push.apple.com:443", "https://api.sandbox.push.apple.com:443"
TOKEN = "ab" * 32
ID = "eabeae54-14a8-11e5-b60b-1697f925ec7b"
BODY = b'{"aps":{"alert":{"body":"hello"}}}'


def bearer(
    *,
    issued: datetime = NOON,
    kid: str = APPLE_KEY_ID,
    team: str = APPLE_TEAM_ID,
    key: EllipticCurvePrivateKey | None = None,
) -> str:
    claims = {"iss": team, "iat": int(issued.timestamp())}
    return "bearer " + jwt.encode(claims, key or apple_key(), algorithm="ES256", headers={"kid": kid})


VALID_HEADERS = {
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
    merged = {name: value for name, value in {**VALID_HEADERS, **(headers or {})}.items() if value is not None}
    return Post(origin=origin, path=path or f"/3/device/{token}", headers=[*merged.items()], body=body)


def status_and_reason(reply: Reply) -> tuple[int, Any]:
    return reply.status, json.loads(reply.body)["reason"] if reply.body else None


def response_to(request: Post) -> tuple[int, Any]:
    return status_and_reason(apple().fake.answer(request))


def test_valid_request_shows_the_alert() -> None:
    apns = apple()
    reply = apns.fake.answer(post())
    assert (reply.status, reply.body, reply.headers) == (200, b"", {"apns-id": ID})
    assert apns.fake.phones[TOKEN].shown == {"one": "hello"}


def test_alerts_without_collapse_id_replace_only_their_id() -> None:
    apns = apple()
    other_id = "00000000-0000-0000-0000-000000000001"
    for headers in ({}, {}, {"apns-collapse-id": None, "apns-id": other_id}, {"apns-collapse-id": None}):
        assert apns.fake.answer(post(headers)).status == 200
    assert [*apns.fake.phones[TOKEN].shown] == ["one", other_id, ID]
    assert (apns.fake.phones[TOKEN].alert_count, apns.fake.phones.duplicate_count) == (4, 2)


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
def test_invalid_header_is_refused(headers: Mapping[str, str | None], status: int, reason: str) -> None:
    assert response_to(post(headers)) == (status, reason)


@pytest.mark.parametrize(
    ("request_", "status", "reason"),
    [
        (post(path="/device/x"), 404, "BadPath"),
        (post(token=""), 400, "MissingDeviceToken"),
        (post(token="zz" * 32), 400, "BadDeviceToken"),
        (post(token="ab" * 31), 400, "BadDeviceToken"),
        (post(body=b""), 400, "PayloadEmpty"),
        (post(body=b'{"aps":7}'), 400, "PayloadEmpty"),
        (post(body=BODY + b" " * (4_097 - len(BODY))), 413, "PayloadTooLarge"),
    ],
    ids=range(7),
)
def test_invalid_path_or_body_is_refused(request_: Post, status: int, reason: str) -> None:
    assert response_to(request_) == (status, reason)


def test_payload_of_4096_bytes_is_accepted() -> None:
    assert apple().fake.answer(post(body=BODY + b" " * (4_096 - len(BODY)))).status == 200


def test_duplicate_header_is_refused() -> None:
    request = post()
    assert response_to(replace(request, headers=[*request.headers, ("apns-id", ID)])) == (400, "DuplicateHeaders")


def test_token_is_refused_in_other_environment_or_topic() -> None:
    apns = apple()
    apns.fake.install(TOKEN, TOPIC, ApnsEnvironment.SANDBOX)
    assert status_and_reason(apns.fake.answer(post())) == (400, "BadDeviceToken")
    assert apns.fake.answer(post(origin=SANDBOX)).status == 200
    apns.fake.install(TOKEN, "com.other")
    assert status_and_reason(apns.fake.answer(post())) == (400, "DeviceTokenNotForTopic")


def test_uninstalled_app_has_a_timestamp_until_reinstalled() -> None:
    apns = apple()
    apns.fake.uninstall(TOKEN, NOON - timedelta(hours=1))
    reply = apns.fake.answer(post())
    assert reply.status == 410
    assert json.loads(reply.body) == {"reason": "Unregistered", "timestamp": int(NOON.timestamp() - 3_600) * 1_000}
    apns.fake.install(TOKEN, TOPIC)
    assert apns.fake.answer(post()).status == 200


def test_too_many_provider_tokens_are_refused() -> None:
    apns = apple()
    responses = [
        status_and_reason(apns.fake.answer(post({"authorization": bearer(issued=NOON - timedelta(seconds=n))})))
        for n in range(4)
    ]
    assert responses == [
        (200, None),
        (200, None),
        (429, "TooManyProviderTokenUpdates"),
        (429, "TooManyProviderTokenUpdates"),
    ]
    apns.advance(timedelta(minutes=20))
    assert apns.fake.answer(post({"authorization": bearer(issued=NOON + timedelta(minutes=20))})).status == 200


def statuses(apns: Apple, count: int = 2_000) -> list[int]:
    return [apns.fake.answer(post(token=f"{n:064x}")).status for n in range(count)]


def test_share_of_tokens_is_gone_determined_by_seed() -> None:
    result = statuses(apple(script=ProviderScript(gone_share=0.02, seed=1)))
    assert 20 <= result.count(410) <= 60
    assert (
        statuses(apple(script=ProviderScript(gone_share=0.02, seed=1)))
        == result
        != statuses(apple(script=ProviderScript(gone_share=0.02)))
    )
    reply = apple(script=ProviderScript(gone_share=1.0, gone_for=timedelta(days=3))).fake.answer(post())
    since = datetime.fromtimestamp(json.loads(reply.body)["timestamp"] / 1_000, UTC)
    assert since == NOON - timedelta(days=3)


def test_share_of_tokens_belongs_to_other_environment() -> None:
    assert 400 <= statuses(apple(script=ProviderScript(elsewhere_share=0.25))).count(400) <= 600


def test_scripted_rate_limit_reports_retry_after() -> None:
    apns = apple(
        script=ProviderScript(limited=FaultWindow(after=timedelta(seconds=10), duration=timedelta(seconds=30)))
    )
    assert apns.fake.answer(post()).status == 200
    apns.advance(timedelta(seconds=20))
    reply = apns.fake.answer(post())
    assert (status_and_reason(reply), reply.headers["retry-after"]) == ((429, "TooManyRequests"), "20")
    apns.advance(timedelta(seconds=20))
    assert apns.fake.answer(post()).status == 200


def test_scripted_outage_ends() -> None:
    apns = apple(script=ProviderScript(down=FaultWindow(duration=timedelta(seconds=30))))
    assert status_and_reason(apns.fake.answer(post())) == (503, "ServiceUnavailable")
    apns.advance(timedelta(seconds=30))
    assert apns.fake.answer(post()).status == 200
    assert apns.fake.response_counts == {"ServiceUnavailable": 1, "Accepted": 1}
