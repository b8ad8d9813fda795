"""What a browser is sent says no more than it shows, and its length says less."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.adapters.push.webpush.encryption import MOST, OVERHEAD, STEP, Content, content, topic
from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.push.alert import MentionAlert, alert
from notifier.domain.push.translations import PHRASES
from tests.support.examples import ADA, BOB, burst

ALERT = alert(burst(mentioners=(ADA, BOB)))
BRIDGED = 2744
"""Bytes that Firefox on Android takes, of all browsers the least."""
LANGUAGES = st.sampled_from(sorted(PHRASES))


def by(opener: str, language: str = "en") -> Content:
    return content(replace(ALERT, news=MentionAlert(opener=UserId(opener))), language)


def named(opener: str) -> str:
    title = json.loads(by(opener).text)["title"]
    assert isinstance(title, str)
    return title


def test_a_service_worker_gets_what_it_shows_and_nothing_else() -> None:
    made = content(ALERT, "de")
    assert json.loads(made.text) == {"title": "ada hat @nova erwähnt", "tag": ALERT.collapse_id, "lang": "de"}


def test_nobody_is_named_but_the_opener() -> None:
    assert b"bob" not in content(ALERT, "en").text


def test_an_ordinary_alert_has_the_length_of_every_ordinary_alert() -> None:
    openers = ["a", "x" * 60, "名" * 60, '"' * 60]
    lengths = {by(opener, language).length for opener in openers for language in PHRASES}
    assert lengths == {STEP}


@given(st.text(max_size=1000), LANGUAGES)
@settings(max_examples=80)
def test_any_name_in_any_language_fits_every_browser(opener: str, language: str) -> None:
    made = by(opener, language)
    assert len(made.text) <= made.length <= MOST
    assert made.length % STEP == 0
    assert made.length + OVERHEAD <= BRIDGED
    assert json.loads(made.text)["tag"] == ALERT.collapse_id


@pytest.mark.parametrize("letter", ["a", '"', "名", "👩"])
def test_the_longest_names_that_there_are_fit_in_any_alphabet(letter: str) -> None:
    name = UserId(256 * letter)
    longest = alert(replace(burst(subject=Subject(Kind.MENTION, name)), mentioners=(name,)))
    for language in PHRASES:
        assert json.loads(content(longest, language).text)["title"] == longest.text_in(language)


@pytest.mark.parametrize("letter", ["a", "ж", "名", "👩‍👩‍👧‍👦", "🇩🇪", "e\u0301"])
def test_a_name_that_is_far_too_long_is_cut_off_between_characters(letter: str) -> None:
    title = named(letter * 3000)
    assert title.endswith("…")
    kept = title.removesuffix("…")
    assert kept == letter * (len(kept) // len(letter))
    made = by(letter * 3000)
    assert MOST - len(letter.encode()) <= len(made.text) <= made.length == MOST


def test_half_a_character_from_a_broken_name_is_no_reason_not_to_alert() -> None:
    assert named("a\ud800b") == "a?b mentioned @nova"


def test_a_topic_is_what_the_strictest_push_services_take() -> None:
    """Letters and digits alone for Mozilla, whole groups of base64url for Apple, at most 32 for all."""
    assert re.fullmatch(r"[a-z0-9]{32}", topic(ALERT))


def test_a_topic_is_the_alert_s_for_ever_and_doesn_t_give_its_tag_away() -> None:
    other = alert(replace(burst(), tweet="t2"))
    assert topic(ALERT) == topic(alert(burst())) != topic(other)
    assert ALERT.collapse_id not in topic(ALERT)
