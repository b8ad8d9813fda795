"""What a phone shows."""

from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.push.alert import burst_alert, summary_alert
from tests.support.examples import ADA, BOB, NOON, SELF_NOVA, burst


def test_an_alert_names_the_opener_alone() -> None:
    assert burst_alert(burst(mentioners=(ADA, BOB))).text == "ada mentioned @nova"


def test_the_mentioned_account_is_called_you() -> None:
    assert burst_alert(burst(subject=SELF_NOVA)).text == "ada mentioned you"


def test_the_collapse_id_is_the_burst_s_own_for_ever_and_short_enough_for_every_platform() -> None:
    one, grown, other = burst(), burst(mentioners=(ADA, BOB)), replace(burst(seq=2), tweet="t2")
    assert burst_alert(one).collapse_id == burst_alert(grown).collapse_id != burst_alert(other).collapse_id
    assert len(burst_alert(one).collapse_id) == 32
    assert burst_alert(one).collapse_id.isalnum()


def test_what_travels_to_a_phone_says_nothing_about_the_burst_s_number() -> None:
    assert replace(burst_alert(burst(seq=1)), burst=burst().key) == replace(
        burst_alert(burst(seq=99)), burst=burst().key
    )


def test_two_bursts_that_one_tweet_opened_at_two_moments_are_two_alerts() -> None:
    one = burst(seq=1)
    again = replace(burst(seq=2), opened_at=one.opened_at + timedelta(hours=2))
    assert (one.tweet, burst_alert(one).text) == (again.tweet, burst_alert(again).text)
    assert burst_alert(one).collapse_id != burst_alert(again).collapse_id


def test_what_travels_to_a_phone_says_no_more_of_the_opening_than_its_second() -> None:
    one = replace(burst(), opened_at=burst().opened_at.replace(microsecond=0))
    assert burst_alert(one) == burst_alert(replace(one, opened_at=one.opened_at + timedelta(milliseconds=999)))


@pytest.mark.parametrize(
    ("locale", "about_her", "about_you"),
    [
        ("ar-EG", "أشار \u2068ada\u2069 إلى \u2068@nova\u2069", "أشار إليك \u2068ada\u2069"),
        ("de_CH", "ada hat @nova erwähnt", "ada hat dich erwähnt"),
        ("en-GB", "ada mentioned @nova", "ada mentioned you"),
        ("es-419", "ada mencionó a @nova", "ada te mencionó"),
        ("fr", "ada a parlé de @nova", "ada a parlé de vous"),
        ("hi", "ada ने @nova का उल्लेख किया", "ada ने आपका उल्लेख किया"),
        ("it", "ada ha menzionato @nova", "ada ti ha menzionato"),
        ("ja-JP", "adaさんが@novaさんをメンションしました", "adaさんがあなたをメンションしました"),
        ("ko", "ada님이 @nova님을 언급했습니다", "ada님이 회원님을 언급했습니다"),
        ("pt-BR", "ada mencionou @nova", "ada mencionou você"),
        ("sw", "ada mentioned @nova", "ada mentioned you"),
        ("tr", "ada, @nova hesabından bahsetti", "ada senden bahsetti"),
        ("zh-CN", "ada 提到了 @nova", "ada 提到了你"),
    ],
)
def test_it_is_said_in_the_language_of_the_phone(locale: str, about_her: str, about_you: str) -> None:
    assert burst_alert(burst()).text_in(locale) == about_her
    assert burst_alert(burst(subject=SELF_NOVA)).text_in(locale) == about_you


@pytest.mark.parametrize(
    ("locale", "text"),
    [
        ("zh", "你离开期间：3 条关于 @nova"),
        ("zh-Hans-HK", "你离开期间：3 条关于 @nova"),
        ("zh-TW", "你離開期間：3 則關於 @nova"),
        ("zh_Hant_HK", "你離開期間：3 則關於 @nova"),
        ("zh-MO", "你離開期間：3 則關於 @nova"),
    ],
)
def test_chinese_is_written_as_it_is_where_the_phone_is(locale: str, text: str) -> None:
    assert summary_alert(burst(), 3).text_in(locale) == text


def test_a_summary_says_how_many_waited_and_about_whom() -> None:
    assert summary_alert(burst(), 3).text == "While you were away: 3 about @nova"
    assert summary_alert(burst(subject=SELF_NOVA), 1).text_in("de") == "Während du weg warst: 1 über dich"


def test_an_alert_is_worth_a_phone_s_attention_for_six_hours_and_a_summary_wakes_none() -> None:
    ordinary, waited = burst_alert(burst()), summary_alert(burst(), 3)
    assert ordinary.expires_at == waited.expires_at == NOON + timedelta(hours=6)
    assert (ordinary.is_urgent, ordinary.is_summary) == (True, False)
    assert (waited.is_urgent, waited.is_summary) == (False, True)
    assert not burst_alert(burst(), urgent=False).is_urgent


def test_a_summary_takes_the_last_one_s_place_and_is_another_alert() -> None:
    later = replace(burst(seq=9), opened_at=NOON + timedelta(hours=1))
    one, two, again = summary_alert(burst(), 3), summary_alert(later, 3), summary_alert(burst(), 4)
    assert one.collapse_id == two.collapse_id == again.collapse_id
    assert len({one.id, two.id, again.id, burst_alert(burst()).id}) == 4
    assert one == summary_alert(burst(), 3)
    assert one.collapse_id != summary_alert(burst(subject=SELF_NOVA), 3).collapse_id
