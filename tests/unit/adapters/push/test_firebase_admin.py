"""The firebase-admin transport: same messages as ours, no hidden retries or redirects."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.adapters.push.fcm.firebase_admin_transport import FirebaseAdminTransport
from notifier.adapters.push.fcm.sender import message
from notifier.domain.errors import BadSetting
from notifier.domain.push.alert import Alert, summary_alert
from notifier.domain.push.device import FirebaseToken
from notifier.domain.push.receipt import Accepted, ConfigError, RetryAt, Unknown
from notifier.ports.push import NoReply, Post, Reply
from tests.support.apns_and_fcm_senders import ALERT, android, device, installation, sent
from tests.support.domain_examples import NOON, burst
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.firebase_admin_connection import ByFirebaseAdmin, by_firebase_admin, new_connection

UNAUTHENTICATED = Reply(status=401, body=b'{"error":{"status":"UNAUTHENTICATED"}}')
DEVICES = [android(number) for number in range(40)]
MAX_CONCURRENT = 16


@pytest.fixture
def firebase() -> ByFirebaseAdmin:
    return by_firebase_admin(max_concurrent=MAX_CONCURRENT)


def token_requests(firebase: ByFirebaseAdmin) -> int:
    return len(firebase.wire.sent) - len(firebase.wire.pushes)


def forget_token(firebase: ByFirebaseAdmin) -> None:
    firebase.sender.transport.forget(firebase.sender.transport.current_token())


@pytest.mark.parametrize("alert", [ALERT, replace(ALERT, is_urgent=False), summary_alert(burst(), 3)])
def test_messages_equal_those_of_our_own_sender(alert: Alert) -> None:
    firebase = by_firebase_admin()
    sent(firebase.sender, alert, replace(android(1), locale="zh-Hant"), installation(2))
    by_token, by_fid = (json.loads(post.body)["message"] for post in firebase.wire.pushes)
    assert by_token.pop("token") == android(1).address.token  # type: ignore[union-attr]  # a FirebaseToken
    assert by_fid.pop("fid") == installation(2).address.fid  # type: ignore[union-attr]  # a FirebaseInstallation
    for message_, language in ((by_token, "zh-Hant"), (by_fid, "en")):
        expected = json.loads(message(alert, language, NOON))["message"]
        expected["android"]["priority"] = expected["android"]["priority"].lower()
        assert message_ == expected


def test_concurrent_messages_share_one_token(firebase: ByFirebaseAdmin) -> None:
    forget_token(firebase)
    assert sent(firebase.sender, ALERT, *DEVICES) == [Accepted()] * 40
    assert token_requests(firebase) == 1


def test_message_is_resent_once_after_refused_token(firebase: ByFirebaseAdmin) -> None:
    sent(firebase.sender, ALERT, DEVICES[0])
    firebase.connection.token_endpoint.revoke()
    assert sent(firebase.sender, ALERT, *DEVICES) == [Accepted()] * 40
    assert token_requests(firebase) <= 2
    assert len(firebase.wire.pushes) <= 1 + MAX_CONCURRENT + 40


def test_second_refused_token_is_a_config_error(firebase: ByFirebaseAdmin) -> None:
    firebase.wire.override = lambda post: UNAUTHENTICATED if post in firebase.wire.pushes else None
    assert {type(receipt) for receipt in sent(firebase.sender, ALERT, *DEVICES)} == {ConfigError}
    assert len(firebase.wire.pushes) <= MAX_CONCURRENT + 40


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (Reply(status=503, headers={"retry-after": "600"}), RetryAt, "no access token: status 503"),
        (Reply(status=400, body=b'{"error":"invalid_grant"}'), ConfigError, "invalid_grant: the service account"),
        (Reply(status=200, body=b"hello"), ConfigError, "status 200"),
        (Reply(status=200, body=b"{}"), ConfigError, "status 200"),
        (NoReply(reason="", may_have_arrived=True), RetryAt, "no access token: "),
    ],
)
def test_failed_token_request_is_made_once_and_nothing_is_sent(
    firebase: ByFirebaseAdmin, answer: Reply | NoReply, kind: type, reason: str
) -> None:
    forget_token(firebase)
    firebase.wire.override = lambda post: answer
    receipts = sent(firebase.sender, ALERT, *DEVICES)
    assert {type(receipt) for receipt in receipts} == {kind}
    assert all(receipt.reason.startswith(reason) for receipt in receipts if not isinstance(receipt, Accepted))
    assert (token_requests(firebase), firebase.wire.pushes) == (1, [])


def test_token_refused_during_a_send_is_no_connection_error() -> None:
    firebase = by_firebase_admin(connection=new_connection())
    transport = firebase.connection.admin
    assert transport.ensure_token() is None
    transport.app.credential.get_credential().expiry = NOON.replace(year=2000, tzinfo=None)  # naive in google-auth
    firebase.wire.override = lambda post: Reply(status=503)
    body = json.loads(message(ALERT, "en", NOON))
    body["message"]["token"] = "a token"
    [(_, answer)] = transport.exchange([Post(origin="", path="/", headers=[], body=json.dumps(body).encode())])
    assert answer == NoReply(reason="no access token: status 503", may_have_arrived=False)
    assert firebase.wire.pushes == []
    firebase.connection.server.close()


def test_redirect_is_not_followed(firebase: ByFirebaseAdmin) -> None:
    redirect = Reply(status=307, headers={"location": f"{firebase.connection.origin}/elsewhere"})
    firebase.wire.override = lambda post: redirect if post in firebase.wire.pushes else None
    [receipt] = sent(firebase.sender, ALERT, DEVICES[0])
    assert isinstance(receipt, ConfigError)
    assert len(firebase.wire.pushes) == 1


def test_missing_response_times_out() -> None:
    firebase = by_firebase_admin(connection=new_connection(response_timeout=timedelta(seconds=2)))
    assert sent(firebase.sender, ALERT, DEVICES[0]) == [Accepted()]
    firebase.connection.stall()
    assert sent(firebase.sender, ALERT, DEVICES[0]) == [Unknown(reason="no response in time")]
    firebase.connection.server.close()


def test_message_rejected_by_library_names_only_the_field(firebase: ByFirebaseAdmin) -> None:
    [receipt] = sent(firebase.sender, ALERT, device(FirebaseToken(token="")))
    assert isinstance(receipt, RetryAt)
    assert receipt.reason == "firebase-admin rejects Message.token"
    assert firebase.wire.pushes == []


def test_invalid_service_account_is_rejected() -> None:
    with pytest.raises(BadSetting, match="is not valid JSON"):
        FirebaseAdminTransport.open(b"?", clock=ManualClock(), random=lambda: 0.0)
