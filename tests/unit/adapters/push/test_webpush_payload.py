"""Web Push payloads contain only what is shown, padded to a uniform length."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.adapters.push.webpush.encrypted_message import (
    MAX_CONTENT_BYTES,
    OVERHEAD_BYTES,
    PADDING_STEP,
    WebPushContent,
    build_content,
    build_topic,
)
from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.push.alert import MentionAlert, burst_alert
from notifier.domain.push.translations import PHRASES_BY_LANGUAGE
from tests.support.domain_examples import ADA, BOB, burst

ALERT = burst_alert(burst(mentioners=(ADA, BOB)))
FIREFOX_ANDROID_LIMIT = 2744
"""Bytes that Firefox on Android accepts, the lowest limit of all browsers."""
LANGUAGES = st.sampled_from(sorted(PHRASES_BY_LANGUAGE))


def content_for(opener: str, language: str = "en") -> WebPushContent:
    return build_content(replace(ALERT, content=MentionAlert(opener=UserId(opener))), language)


def title_for(opener: str) -> str:
    title = json.loads(content_for(opener).json)["title"]
    assert isinstance(title, str)
    return title


def test_payload_contains_only_what_is_shown() -> None:
    payload = build_content(ALERT, "de")
    assert json.loads(payload.json) == {"title": "ada hat @nova erwähnt", "tag": ALERT.collapse_id, "lang": "de"}


def test_payload_names_only_the_opener() -> None:
    assert b"bob" not in build_content(ALERT, "en").json


def test_ordinary_payloads_have_the_same_length() -> None:
    openers = ["a", "x" * 60, "名" * 60, '"' * 60]
    lengths = {content_for(opener, language).padded_length for opener in openers for language in PHRASES_BY_LANGUAGE}
    assert lengths == {PADDING_STEP}


@given(st.text(max_size=1000), LANGUAGES)
@settings(max_examples=80)
def test_payload_fits_every_browser(opener: str, language: str) -> None:
    payload = content_for(opener, language)
    assert len(payload.json) <= payload.padded_length <= MAX_CONTENT_BYTES
    assert payload.padded_length % PADDING_STEP == 0
    assert payload.padded_length + OVERHEAD_BYTES <= FIREFOX_ANDROID_LIMIT
    assert json.loads(payload.json)["tag"] == ALERT.collapse_id


@pytest.mark.parametrize("character", ["a", '"', "名", "👩"])
def test_longest_valid_names_are_not_cut(character: str) -> None:
    name = UserId(256 * character)
    longest = burst_alert(replace(burst(subject=Subject(Kind.MENTION, name)), mentioners=(name,)))
    for language in PHRASES_BY_LANGUAGE:
        assert json.loads(build_content(longest, language).json)["title"] == longest.text_in(language)


@pytest.mark.parametrize("character", ["a", "ж", "名", "👩‍👩‍👧‍👦", "🇩🇪", "e\u0301"])
def test_too_long_name_is_cut_between_characters(character: str) -> None:
    title = title_for(character * 3000)
    assert title.endswith("…")
    name = title.removesuffix("…")
    assert name == character * (len(name) // len(character))
    payload = content_for(character * 3000)
    assert (
        MAX_CONTENT_BYTES - len(character.encode()) <= len(payload.json) <= payload.padded_length == MAX_CONTENT_BYTES
    )


def test_name_with_invalid_unicode_is_sent() -> None:
    assert title_for("a\ud800b") == "a?b mentioned @nova"


def test_topic_fits_the_strictest_push_services() -> None:
    """Mozilla takes only letters and digits, Apple only whole base64url groups, and all at most 32."""
    assert re.fullmatch(r"[a-z0-9]{32}", build_topic(ALERT))


def test_topic_is_stable_and_does_not_reveal_the_tag() -> None:
    different = burst_alert(replace(burst(), tweet="t2"))
    assert build_topic(ALERT) == build_topic(burst_alert(burst())) != build_topic(different)
    assert ALERT.collapse_id not in build_topic(ALERT)
