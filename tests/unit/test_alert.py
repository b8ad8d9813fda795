"""What a phone shows."""

from dataclasses import replace
from datetime import timedelta

from notifier.domain.alert import alert
from tests.unit.examples import ADA, BOB, SELF_NOVA, burst


def test_an_alert_names_the_opener_alone() -> None:
    assert alert(burst(mentioners=(ADA, BOB))).text == "ada mentioned @nova"


def test_the_mentioned_account_is_called_you() -> None:
    assert alert(burst(subject=SELF_NOVA)).text == "ada mentioned you"


def test_the_collapse_id_is_the_burst_s_own_for_ever_and_short_enough_for_every_platform() -> None:
    one, grown, other = burst(), burst(mentioners=(ADA, BOB)), replace(burst(seq=2), tweet="t2")
    assert alert(one).collapse_id == alert(grown).collapse_id != alert(other).collapse_id
    assert len(alert(one).collapse_id) == 32
    assert alert(one).collapse_id.isalnum()


def test_what_travels_to_a_phone_says_nothing_about_the_burst_s_number() -> None:
    assert replace(alert(burst(seq=1)), burst=burst().key) == replace(alert(burst(seq=99)), burst=burst().key)


def test_two_bursts_that_one_tweet_opened_at_two_moments_are_two_alerts() -> None:
    one = burst(seq=1)
    again = replace(burst(seq=2), opened_at=one.opened_at + timedelta(hours=2))
    assert (one.tweet, alert(one).text) == (again.tweet, alert(again).text)
    assert alert(one).collapse_id != alert(again).collapse_id


def test_what_travels_to_a_phone_says_no_more_of_the_opening_than_its_second() -> None:
    one = replace(burst(), opened_at=burst().opened_at.replace(microsecond=0))
    assert alert(one) == alert(replace(one, opened_at=one.opened_at + timedelta(milliseconds=999)))
