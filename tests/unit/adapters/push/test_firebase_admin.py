"""firebase-admin is kept from what it does in hiding, and writes what ours writes; the rest is the contract's."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.adapters.push.fcm.firebase_admin_transport import FirebaseAdmin
from notifier.adapters.push.fcm.sender import message
from notifier.domain.errors import BadSetting
from notifier.domain.push.alert import Alert, summary
from notifier.domain.push.device import FirebaseToken
from notifier.domain.push.receipt import Accepted, ConfigError, RetryAt, Unknown
from notifier.ports.push import Reply, Silence
from tests.support.examples import NOON, burst
from tests.support.fakes.clock import ManualClock
from tests.support.firebase_process import ByFirebaseAdmin, another, by_firebase_admin
from tests.support.push_builders import ALERT, android, device, installation, sent

UNAUTHENTICATED = Reply(status=401, body=b'{"error":{"status":"UNAUTHENTICATED"}}')
SOME = [android(number) for number in range(40)]


@pytest.fixture
def made() -> ByFirebaseAdmin:
    return by_firebase_admin(at_once=16)


def asked_for_tokens(made: ByFirebaseAdmin) -> int:
    return len(made.wire.sent) - len(made.wire.letters)


def without_token(made: ByFirebaseAdmin) -> None:
    made.sender.tokens.forget(made.sender.tokens.current())


@pytest.mark.parametrize("alert", [ALERT, replace(ALERT, urgent=False), summary(burst(), 3)])
def test_it_writes_what_ours_writes(alert: Alert) -> None:
    made = by_firebase_admin()
    sent(made.sender, alert, replace(android(1), locale="zh-Hant"), installation(2))
    by_token, by_fid = (json.loads(post.body)["message"] for post in made.wire.letters)
    assert by_token.pop("token") == android(1).address.token  # type: ignore[union-attr]  # an Android's
    assert by_fid.pop("fid") == installation(2).address.fid  # type: ignore[union-attr]  # an installation's
    for written, language in ((by_token, "zh-Hant"), (by_fid, "en")):
        ours = json.loads(message(alert, language, NOON))["message"]
        ours["android"]["priority"] = ours["android"]["priority"].lower()
        assert written == ours


def test_many_are_sent_at_once_by_one_token(made: ByFirebaseAdmin) -> None:
    without_token(made)
    assert sent(made.sender, ALERT, *SOME) == [Accepted()] * 40
    assert asked_for_tokens(made) == 1


def test_whose_token_is_refused_goes_once_more_with_another(made: ByFirebaseAdmin) -> None:
    sent(made.sender, ALERT, SOME[0])
    made.line.grants.revoke()
    assert sent(made.sender, ALERT, *SOME) == [Accepted()] * 40
    assert asked_for_tokens(made) <= 2
    assert len(made.wire.letters) <= 1 + 16 + 40


def test_whose_new_token_is_refused_too_is_told_so(made: ByFirebaseAdmin) -> None:
    made.wire.instead = lambda post: UNAUTHENTICATED if post in made.wire.letters else None
    assert {type(receipt) for receipt in sent(made.sender, ALERT, *SOME)} == {ConfigError}
    assert len(made.wire.letters) <= 16 + 40


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Reply(status=503, headers={"retry-after": "600"}), RetryAt, "no access token: status 503"),
        (Reply(status=400, body=b'{"error":"invalid_grant"}'), ConfigError, "invalid_grant: the account"),
        (Reply(status=200, body=b"hello"), ConfigError, "status 200"),
        (Reply(status=200, body=b"{}"), ConfigError, "status 200"),
        (Silence(reason="", left=True), RetryAt, "no access token: "),
    ],
)
def test_without_a_token_google_is_asked_once_and_nothing_is_sent(
    made: ByFirebaseAdmin, answer: Reply | Silence, kind: type, words: str
) -> None:
    without_token(made)
    made.wire.instead = lambda post: answer
    receipts = sent(made.sender, ALERT, *SOME)
    assert {type(receipt) for receipt in receipts} == {kind}
    assert all(receipt.reason.startswith(words) for receipt in receipts if not isinstance(receipt, Accepted))
    assert (asked_for_tokens(made), made.wire.letters) == (1, [])


def test_a_redirect_is_an_answer_and_is_not_followed(made: ByFirebaseAdmin) -> None:
    there = Reply(status=307, headers={"location": f"{made.line.origin}/elsewhere"})
    made.wire.instead = lambda post: there if post in made.wire.letters else None
    [receipt] = sent(made.sender, ALERT, SOME[0])
    assert isinstance(receipt, ConfigError)
    assert len(made.wire.letters) == 1


def test_who_takes_a_letter_and_never_answers_is_waited_for_no_longer_than_is_said() -> None:
    made = by_firebase_admin(found=another(answer=timedelta(seconds=0.3)))
    assert sent(made.sender, ALERT, SOME[0]) == [Accepted()]
    made.line.stall()
    assert sent(made.sender, ALERT, SOME[0]) == [Unknown(reason="no answer in time")]
    made.line.server.close()


def test_what_it_refuses_to_send_is_named_and_none_of_its_words_are_kept(made: ByFirebaseAdmin) -> None:
    [receipt] = sent(made.sender, ALERT, device(FirebaseToken(token="")))
    assert isinstance(receipt, RetryAt)
    assert receipt.reason == "firebase-admin refuses Message.token"
    assert made.wire.letters == []


def test_an_account_that_is_none_is_refused_in_our_words() -> None:
    with pytest.raises(BadSetting, match="is no JSON"):
        FirebaseAdmin.open(b"?", clock=ManualClock(), chance=lambda: 0.0)
