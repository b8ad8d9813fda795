"""Alerts: texts, collapse ids, expiry and summaries."""

from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.push.alert import burst_alert, summary_alert
from tests.support.domain_examples import ADA, BOB, NOON, SELF_NOVA, burst


def test_alert_names_only_the_opener() -> None:
    assert burst_alert(burst(mentioners=(ADA, BOB))).text == "ada mentioned @nova"


def test_alert_about_own_account_says_you() -> None:
    assert burst_alert(burst(subject=SELF_NOVA)).text == "ada mentioned you"


def test_collapse_id_is_stable_per_burst_and_short() -> None:
    first, grown, another = burst(), burst(mentioners=(ADA, BOB)), replace(burst(seq=2), tweet="t2")
    assert burst_alert(first).collapse_id == burst_alert(grown).collapse_id != burst_alert(another).collapse_id
    assert len(burst_alert(first).collapse_id) == 32
    assert burst_alert(first).collapse_id.isalnum()


def test_alert_does_not_reveal_the_burst_number() -> None:
    assert replace(burst_alert(burst(seq=1)), burst=burst().key) == replace(
        burst_alert(burst(seq=99)), burst=burst().key
    )


def test_two_bursts_opened_by_one_tweet_have_different_collapse_ids() -> None:
    first = burst(seq=1)
    second = replace(burst(seq=2), opened_at=first.opened_at + timedelta(hours=2))
    assert (first.tweet, burst_alert(first).text) == (second.tweet, burst_alert(second).text)
    assert burst_alert(first).collapse_id != burst_alert(second).collapse_id


def test_alert_reveals_the_opening_time_only_to_the_second() -> None:
    opened = replace(burst(), opened_at=burst().opened_at.replace(microsecond=0))
    assert burst_alert(opened) == burst_alert(replace(opened, opened_at=opened.opened_at + timedelta(milliseconds=999)))


@pytest.mark.parametrize(
    ("locale", "about_account", "about_you"),
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
def test_alert_is_translated_to_the_locale_of_the_device(locale: str, about_account: str, about_you: str) -> None:
    assert burst_alert(burst()).text_in(locale) == about_account
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
def test_chinese_script_follows_the_region_of_the_device(locale: str, text: str) -> None:
    assert summary_alert(burst(), 3).text_in(locale) == text


def test_summary_counts_the_bursts_of_an_account() -> None:
    assert summary_alert(burst(), 3).text == "While you were away: 3 about @nova"
    assert summary_alert(burst(subject=SELF_NOVA), 1).text_in("de") == "Während du weg warst: 1 über dich"


def test_alert_is_urgent_and_summary_is_not_and_both_expire_in_6_hours() -> None:
    ordinary, catch_up = burst_alert(burst()), summary_alert(burst(), 3)
    assert ordinary.expires_at == catch_up.expires_at == NOON + timedelta(hours=6)
    assert (ordinary.is_urgent, ordinary.is_summary) == (True, False)
    assert (catch_up.is_urgent, catch_up.is_summary) == (False, True)
    assert not burst_alert(burst(), urgent=False).is_urgent


def test_summary_replaces_the_previous_one_as_a_new_alert() -> None:
    later = replace(burst(seq=9), opened_at=NOON + timedelta(hours=1))
    first, second, third = summary_alert(burst(), 3), summary_alert(later, 3), summary_alert(burst(), 4)
    assert first.collapse_id == second.collapse_id == third.collapse_id
    assert len({first.id, second.id, third.id, burst_alert(burst()).id}) == 4
    assert first == summary_alert(burst(), 3)
    assert first.collapse_id != summary_alert(burst(subject=SELF_NOVA), 3).collapse_id
