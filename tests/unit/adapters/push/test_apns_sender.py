"""How an alert is written to Apple, and what a person reads when Apple doesn't take it."""

import json
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.push.alert import Alert, MentionAlert, alert, summary
from notifier.domain.push.device import ApnsEnvironment, AppleToken, Device, FirebaseToken
from notifier.domain.push.receipt import Accepted, ConfigError, DropToken
from notifier.ports.push import Post, Reply
from tests.support.examples import NOON, burst
from tests.support.push_builders import ALERT, TOPIC, Apple, apple, device, iphone, sent

HOURS = timedelta(hours=1)
EXPIRED = Reply(status=403, body=b'{"reason":"ExpiredProviderToken"}')


def written(given: Alert = ALERT, to: Device | None = None) -> Post:
    made = apple()
    sent(made.sender, given, to or iphone())
    [post] = made.wire.sent
    return post


def header(post: Post, name: str) -> str:
    [value] = [value for each, value in post.headers if each == name]
    return value


def text(post: Post) -> str:
    return str(json.loads(post.body)["aps"]["alert"]["body"])


def test_a_letter_says_all_that_apple_asks_for() -> None:
    post = written()
    assert post.origin == "https://api.push.apple.com:443"
    assert post.path == f"/3/device/{1:064x}"
    assert {name: value for name, value in post.headers if name not in ("authorization", "apns-id")} == {
        "apns-push-type": "alert",
        "apns-priority": "10",
        "apns-expiration": str(int((NOON + 6 * HOURS).timestamp())),
        "apns-topic": TOPIC,
        "apns-collapse-id": ALERT.collapse_id,
    }
    assert json.loads(post.body) == {"aps": {"alert": {"body": "ada mentioned @nova"}, "sound": "default"}}
    assert post.suspect is False


def test_a_summary_waits_until_it_suits_the_phone_and_makes_no_sound() -> None:
    post = written(summary(burst(), 3))
    assert header(post, "apns-priority") == "5"
    assert json.loads(post.body) == {"aps": {"alert": {"body": "While you were away: 3 about @nova"}}}


def test_a_sandbox_s_token_goes_to_the_sandbox() -> None:
    address = AppleToken(token="ab" * 32, topic=TOPIC, environment=ApnsEnvironment.SANDBOX)
    assert written(to=device(address)).origin == "https://api.sandbox.push.apple.com:443"


def test_the_id_is_a_uuid_of_alert_and_device_alone() -> None:
    ids = {
        header(written(given, to), "apns-id") for given in (ALERT, summary(burst(), 2)) for to in (iphone(1), iphone(2))
    }
    assert len(ids) == 4
    assert all(str(UUID(each)) == each for each in ids)
    assert header(written(), "apns-id") == header(written(), "apns-id")


def test_two_summaries_in_one_place_have_two_ids() -> None:
    later = replace(burst(seq=2), opened_at=NOON + HOURS)
    one, other = written(summary(burst(), 2)), written(summary(later, 2))
    assert header(one, "apns-collapse-id") == header(other, "apns-collapse-id")
    assert header(one, "apns-id") != header(other, "apns-id")


FAMILY = "👨‍👩‍👧‍👦"


@pytest.mark.parametrize("unit", ["中", FAMILY, '"\\', "é", "a", "\u0301e"])
@pytest.mark.parametrize("locale", ["en", "ja", "ar"])
def test_a_text_that_is_too_long_ends_with_an_ellipsis_behind_a_whole_character(unit: str, locale: str) -> None:
    name = unit * 5_000
    post = written(replace(ALERT, news=MentionAlert(opener=UserId(name))), iphone(locale=locale))
    assert 4_096 - len(FAMILY.encode()) <= len(post.body) <= 4_096
    shown = text(post)
    kept = shown[shown.index(unit) : -1]
    assert shown[-1] == "…"
    assert kept == name[: len(kept)]
    assert unit != FAMILY or len(kept) % len(FAMILY) == 0


def test_a_name_that_is_no_unicode_is_sent_all_the_same() -> None:
    assert text(written(replace(ALERT, news=MentionAlert(opener=UserId("a\ud800b"))))) == "a?b mentioned @nova"


@pytest.mark.parametrize("token", ["", "abc", "zz" * 32, "ab" * 101, "ab/../" * 8, "ab\r\n" * 16, "é" * 64])
def test_what_is_no_token_is_dropped_and_never_sent(token: str) -> None:
    made = apple()
    assert sent(made.sender, ALERT, device(AppleToken(token=token, topic=TOPIC))) == [
        DropToken(reason="BadDeviceToken")
    ]
    assert made.wire.sent == []


def test_what_is_no_topic_is_dropped_and_never_sent() -> None:
    made = apple()
    odd = device(AppleToken(token="ab" * 32, topic="a\r\napns-priority: 1"))
    assert sent(made.sender, ALERT, odd, iphone(2)) == [DropToken(reason="BadDeviceToken"), Accepted()]
    assert len(made.wire.sent) == 1


def test_a_device_of_somebody_else_s_app_is_dropped_and_is_no_configuration_error() -> None:
    made = apple()
    stranger = device(AppleToken(token="ab" * 32, topic="com.other"))
    assert isinstance(sent(made.sender, ALERT, stranger)[0], ConfigError)
    ours = replace(made.sender, topics=frozenset({TOPIC}))
    assert sent(ours, ALERT, stranger, iphone(2)) == [DropToken(reason="TopicDisallowed"), Accepted()]
    assert made.fake.answered == {"TopicDisallowed": 1, "Accepted": 1}


def test_another_provider_s_device_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="FirebaseToken"):
        sent(apple().sender, ALERT, device(FirebaseToken(token="t")))


def test_who_registered_within_the_hour_travels_apart_until_apple_takes_an_alert_for_it() -> None:
    made = apple()
    young = replace(iphone(), registered_at=NOON)
    sent(made.sender, ALERT, young)
    sent(made.sender, ALERT, young)
    assert [post.suspect for post in made.wire.sent] == [True, False]


def test_who_was_refused_travels_apart_however_long_ago_it_registered_until_it_is_taken() -> None:
    made = apple()
    made.wire.instead = lambda _: Reply(status=400, body=b'{"reason":"BadDeviceToken"}')
    sent(made.sender, ALERT, iphone())
    made.wire.instead = lambda _: None
    sent(made.sender, ALERT, iphone())
    sent(made.sender, ALERT, iphone())
    assert [post.suspect for post in made.wire.sent] == [False, True, False]


def test_the_same_token_goes_with_every_letter_for_half_an_hour() -> None:
    made = apple()
    for _ in range(5):
        sent(made.sender, ALERT, iphone(1), iphone(2))
        made.advance(timedelta(minutes=7, seconds=29))
    bearers = [header(post, "authorization") for post in made.wire.sent]
    assert len(set(bearers[:8])) == 1
    assert made.fake.answered == {"Accepted": 10}
    made.advance(timedelta(minutes=1))
    sent(made.sender, ALERT, iphone())
    assert header(made.wire.sent[-1], "authorization") not in bearers


def test_a_clock_that_is_three_quarters_of_an_hour_late_costs_one_refused_letter_and_no_alert() -> None:
    made = apple(ahead=timedelta(minutes=-45))
    made.advance(timedelta(minutes=10))
    devices = [iphone(n) for n in range(4)]
    assert sent(made.sender, ALERT, *devices) == [Accepted()] * 4
    assert made.fake.answered == {"ExpiredProviderToken": 1, "Accepted": 4}
    assert sent(made.sender, ALERT, *devices) == [Accepted()] * 4
    assert made.fake.answered["ExpiredProviderToken"] == 1


def test_all_that_are_on_their_way_with_an_old_token_go_again_before_the_rest() -> None:
    made = apple(ahead=timedelta(minutes=-45))
    made.advance(timedelta(minutes=10))
    made.wire.ahead = 5
    devices = [iphone(n) for n in range(12)]
    assert sent(made.sender, ALERT, *devices) == [Accepted()] * 12
    assert made.fake.answered == {"ExpiredProviderToken": 5, "Accepted": 12}
    assert [int(post.path[-2:], 16) for post in made.wire.sent[:10]] == [0, 1, 2, 3, 4, 4, 3, 2, 1, 0]


def test_those_on_their_way_when_the_token_turns_out_to_be_old_go_again_and_nobody_twice() -> None:
    made = apple()
    made.advance(timedelta(minutes=10))  # within the half-hour, so that there is a younger token
    made.wire.instead = lambda _: EXPIRED if len(made.wire.sent) == 2 else None
    assert sent(made.sender, ALERT, *(iphone(n) for n in range(3))) == [Accepted()] * 3
    assert [post.path[-1] for post in made.wire.sent] == ["0", "1", "1", "2"]


def clock_off(by: timedelta) -> tuple[Apple, ConfigError]:
    made = apple(ahead=by)
    made.advance(timedelta(minutes=10))
    first, *others = sent(made.sender, ALERT, *(iphone(n) for n in range(3)))
    assert isinstance(first, ConfigError)
    assert others == [first, first]
    return made, first


def test_a_clock_two_hours_late_is_tried_with_one_new_token_and_then_named() -> None:
    made, receipt = clock_off(-2 * HOURS)
    assert receipt.reason == (
        "ExpiredProviderToken: Apple finds our token too old, a new one too: this machine's clock is behind."
    )
    assert len(made.wire.sent) == 4
    sent(made.sender, ALERT, iphone())
    assert len({header(post, "authorization") for post in made.wire.sent}) <= 2


def test_a_clock_two_hours_early_is_named_among_what_may_be_wrong() -> None:
    made, receipt = clock_off(2 * HOURS)
    assert receipt.reason == (
        "InvalidProviderToken: key, key id and team id don't belong together, the key was revoked, or this machine's "
        "clock is ahead."
    )
    assert len(made.wire.sent) == 3


def test_an_alert_that_is_over_has_one_try_and_is_kept_by_nobody() -> None:
    over = replace(ALERT, expires_at=NOON)
    assert header(written(over), "apns-expiration") == "0"


def test_an_alert_about_somebody_says_so_to_that_person() -> None:
    own = alert(replace(burst(), key=BurstKey(Subject(Kind.SELF, UserId("nova")), 1)))
    assert text(written(own, iphone(locale="de"))) == "ada hat dich erwähnt"
