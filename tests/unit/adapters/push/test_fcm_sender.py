"""How an alert is written to Google, and where the leave to write comes from."""

import json
from dataclasses import replace
from datetime import timedelta
from itertools import count, islice
from typing import Any

import pytest

from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.push.alert import Alert, MentionAlert, alert, summary
from notifier.domain.push.device import AppleToken, Device, FirebaseInstallation, FirebaseToken
from notifier.domain.push.receipt import Accepted, ConfigError, RetryAt
from notifier.ports.push import Post, Reply, Silence
from tests.support.examples import NOON, burst
from tests.support.push_builders import ALERT, Google, android, device, google, installation, sent

HOURS, MINUTES = timedelta(hours=1), timedelta(minutes=1)


def written(given: Alert = ALERT, to: Device | None = None) -> Post:
    made = google()
    sent(made.sender, given, to or android())
    [post] = made.wire.letters
    return post


def message(post: Post) -> Any:
    return json.loads(post.body)["message"]


def asked(made: Google) -> list[Post]:
    """Of the token endpoint."""
    return [post for post in made.wire.sent if post not in made.wire.letters]


def test_a_letter_says_all_that_google_asks_for() -> None:
    post = written()
    assert (post.origin, post.path) == ("https://fcm.googleapis.com:443", "/v1/projects/made-up/messages:send")
    assert dict(post.headers)["content-type"] == "application/json"
    assert message(post) == {
        "token": f"install{1:08}:APA91b{'x' * 60}",
        "notification": {"body": "ada mentioned @nova"},
        "android": {"priority": "HIGH", "ttl": "21600s", "notification": {"tag": ALERT.collapse_id}},
    }


def test_an_installation_has_a_field_of_its_own() -> None:
    said = message(written(to=installation(7)))
    assert said["fid"] == f"c{7:021}"
    assert "token" not in said


def test_only_a_summary_may_replace_another_that_no_phone_was_there_for_and_by_one_of_four_keys() -> None:
    subjects = [replace(burst(), key=BurstKey(Subject(Kind.MENTION, UserId(f"star{n}")), 1)) for n in range(100)]
    keys = {message(written(summary(each, 3)))["android"]["collapse_key"] for each in subjects}
    assert keys == {"away-0", "away-1", "away-2", "away-3"}
    assert message(written(summary(burst(), 3)))["android"]["priority"] == "NORMAL"
    assert "collapse_key" not in message(written(alert(subjects[0])))["android"]


@pytest.mark.parametrize(("left", "ttl"), [(90 * MINUTES, "5400s"), (timedelta(), "0s"), (-HOURS, "0s")])
def test_google_keeps_it_for_as_long_as_it_is_worth(left: timedelta, ttl: str) -> None:
    assert message(written(replace(ALERT, expires_at=NOON + left)))["android"]["ttl"] == ttl


@pytest.mark.parametrize("token", ['"},"topic":"all","x":{"', "\\", "é\u2028", "\ud800", "a\r\nb"])
def test_a_token_is_a_text_in_the_message_whatever_is_in_it(token: str) -> None:
    for address in (FirebaseToken(token=token), FirebaseInstallation(fid=token)):
        said = message(written(to=device(address)))
        assert token in (said.get("token"), said.get("fid"))
        assert said.keys() <= {"token", "fid", "notification", "android"}


@pytest.mark.parametrize("unit", ["中", "👨‍👩‍👧‍👦", '"\\', "é"])
def test_a_text_that_is_too_long_ends_with_an_ellipsis_behind_a_whole_character(unit: str) -> None:
    name = unit * 5_000
    said = written(replace(ALERT, news=MentionAlert(opener=UserId(name))))
    shown = message(said)["notification"]["body"]
    assert 4_000 < len(said.body) - len(json.dumps({"token": message(said)["token"]})) <= 4_096
    assert shown[-1] == "…"
    assert shown[:-1] == name[: len(shown) - 1]
    assert unit[0] != "👨" or (len(shown) - 1) % len(unit) == 0


def test_another_provider_s_device_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="AppleToken"):
        sent(google().sender, ALERT, device(AppleToken(token="ab", topic="t")))


def test_one_token_of_google_s_is_asked_for_and_serves_for_half_an_hour() -> None:
    made = google()
    for _ in range(3):
        assert sent(made.sender, ALERT, android(1), android(2)) == [Accepted()] * 2
        made.advance(14 * MINUTES)
    assert len(asked(made)) == 1
    [first] = {dict(post.headers)["authorization"] for post in made.wire.letters}
    assert first.startswith("Bearer ya29.")


def test_the_next_token_is_asked_for_among_the_letters_which_go_on_with_the_last_one() -> None:
    made = google()
    sent(made.sender, ALERT, android(1))
    made.advance(31 * MINUTES)
    sent(made.sender, ALERT, android(1), android(2))
    kinds = ["asks" if post in asked(made) else "letter" for post in made.wire.sent]
    assert kinds == ["asks", "letter", "asks", "letter", "letter"]
    sent(made.sender, ALERT, android(1))
    assert len(asked(made)) == 2
    bearers = [dict(post.headers)["authorization"] for post in made.wire.letters]
    assert bearers[0] != bearers[-1]


def test_a_letter_that_was_written_before_the_next_token_came_is_sent_with_the_last_one() -> None:
    """The transport takes letters ahead, and the answer comes behind them."""
    made = google()
    sent(made.sender, ALERT, android(1))
    made.advance(31 * MINUTES)
    made.wire.instead = lambda post: Silence(reason="cut", left=True) if post in asked(made) else None
    assert sent(made.sender, ALERT, android(1), android(2)) == [Accepted()] * 2


def test_where_no_new_token_comes_it_is_asked_for_once_a_minute_while_the_last_one_is_good() -> None:
    made = google()
    sent(made.sender, ALERT, android(1))
    made.wire.instead = lambda post: Reply(status=500) if post in asked(made) else None
    made.advance(31 * MINUTES)
    for _ in range(6):
        assert sent(made.sender, ALERT, android(1)) == [Accepted()]
        made.advance(timedelta(seconds=20))
    assert len(asked(made)) == 3


def test_after_a_rest_of_an_hour_the_first_letter_waits_for_a_token_and_none_goes_with_an_old_one() -> None:
    made = google()
    sent(made.sender, ALERT, android(1))
    made.advance(2 * HOURS)
    assert sent(made.sender, ALERT, android(1)) == [Accepted()]
    assert made.fake.answered == {"Accepted": 2}


def test_a_token_that_google_takes_no_more_is_replaced_once_and_the_letter_goes_again() -> None:
    made = google()
    sent(made.sender, ALERT, android(1))
    made.fake.grants.revoke()
    assert sent(made.sender, ALERT, android(1), android(2), android(3)) == [Accepted()] * 3
    assert made.fake.answered == {"Accepted": 4, "UNAUTHENTICATED": 1}
    assert len(asked(made)) == 2


def test_if_the_new_one_is_refused_too_the_configuration_is_at_fault() -> None:
    made = google()
    made.wire.instead = lambda post: None if post in asked(made) else Reply(status=401)
    for receipt in sent(made.sender, ALERT, android(1), android(2)):
        assert isinstance(receipt, ConfigError)
    assert len(made.wire.letters) == 3


@pytest.mark.parametrize(
    "answer",
    [Reply(status=503), Reply(status=429), Silence(reason="no way", left=False), Silence(reason="cut", left=True)],
    ids=repr,
)
def test_without_a_token_nothing_is_sent_and_everybody_s_turn_comes_later(answer: Reply | Silence) -> None:
    made = google()
    made.wire.instead = lambda _: answer
    receipts = sent(made.sender, ALERT, *(android(n) for n in range(50)))
    assert {type(receipt) for receipt in receipts} == {RetryAt}
    sent(made.sender, ALERT, android(1))
    assert made.wire.letters == []
    assert len(asked(made)) == 1
    made.wire.instead = lambda _: None
    made.advance(timedelta(seconds=20))
    assert sent(made.sender, ALERT, android(1)) == [Accepted()]


def test_without_a_token_devices_are_taken_one_by_one_too() -> None:
    made = google()
    made.wire.instead = lambda _: Reply(status=503)
    receipts = made.sender.send(ALERT, (android(n) for n in count()))
    assert [type(receipt) for _, receipt in islice(receipts, 3)] == [RetryAt] * 3


def test_google_says_when_to_ask_for_a_token_again() -> None:
    made = google()
    made.wire.instead = lambda _: Reply(status=503, headers={"retry-after": "120"})
    assert sent(made.sender, ALERT, android(1)) == [
        RetryAt(at=NOON + 2 * MINUTES, reason="no access token: status 503")
    ]


def test_of_what_google_says_when_it_refuses_a_token_no_name_is_kept() -> None:
    made = google()
    words = "Invalid grant: account not found, sender@project.example"
    body = json.dumps({"error": "invalid_grant", "error_description": words}).encode()
    made.wire.instead = lambda _: Reply(status=400, body=body)
    [receipt] = sent(made.sender, ALERT, android(1))
    assert receipt == ConfigError(
        reason="invalid_grant: account not found: the account or its key is gone, or this machine's clock is wrong."
    )


@pytest.mark.parametrize("hours", [-2, 2])
def test_a_clock_two_hours_off_is_named_with_what_helps_of_google_s_words(hours: int) -> None:
    made = google(ahead=hours * HOURS)
    [receipt] = sent(made.sender, ALERT, android(1))
    assert receipt == ConfigError(
        reason="invalid_grant: short-lived token: the account or its key is gone, or this machine's clock is wrong."
    )
    assert made.wire.letters == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{}",
        b'{"access_token":"t"}',
        b'{"access_token":"a\\r\\nb","expires_in":3599}',
        b'{"access_token":7,"expires_in":3599}',
        b'{"access_token":"t","expires_in":-1}',
        b'{"access_token":"t","expires_in":"x"}',
        b'{"access_token":"t","expires_in":1e999}',
    ],
)
def test_what_is_no_token_is_none(body: bytes) -> None:
    made = google()
    made.wire.instead = lambda _: Reply(status=200, body=body)
    [receipt] = sent(made.sender, ALERT, android(1))
    assert isinstance(receipt, ConfigError)
    assert made.wire.letters == []
