"""Alerts, whatever the names and the locale: what a phone shows is whole, short enough, and says who and whom."""

import json
import unicodedata
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from notifier.adapters.push.apns.sender import payload
from notifier.adapters.push.fcm.sender import message
from notifier.adapters.push.requests import MOST_BYTES
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.push.alert import Alert, MentionAlert, WhileAway, alert, summary
from notifier.domain.push.translations import ELLIPSIS, ENGLISH, PHRASES, graphemes, language_of, shortened
from tests.support.examples import NOON, burst

NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=256)
LANGUAGES = st.sampled_from(sorted(PHRASES))
PIECES = st.lists(
    st.sampled_from([*"aé中", "👍", "\u200d", "🏽", "🇩", "🇪", "\u0301", "क", "\u094d", "ᄀ", "ᅡ", "\r", "\n", " "])
)
TEXTS = st.one_of(st.text(), PIECES.map("".join))


@st.composite
def alerts(draw: st.DrawFn) -> Alert:
    subject = Subject(draw(st.sampled_from([Kind.MENTION, Kind.SELF])), UserId(draw(NAMES)))
    news = draw(st.one_of(st.builds(MentionAlert, opener=NAMES), st.builds(WhileAway, count=st.integers(1, 10**9))))
    return replace(alert(burst()), burst=BurstKey(subject, 1), news=news)


@given(alerts(), LANGUAGES)
def test_a_text_names_whom_it_is_about_as_it_is_called_and_nothing_is_left_to_fill_in(
    shown: Alert, language: str
) -> None:
    text = shown.text_in(language)
    names = [shown.subject.owner] if shown.subject.kind is Kind.MENTION else []
    match shown.news:
        case MentionAlert(opener=opener):
            names.append(opener)
        case WhileAway(count=count):
            names.append(UserId(str(count)))
    assert all(name in text for name in names)
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, "")
    assert not set("{}") & set(text)


@given(st.text())
def test_every_locale_has_a_language(locale: str) -> None:
    assert language_of(locale) in PHRASES


@given(LANGUAGES, st.sampled_from(["", "-AT", "_at", "-Latn-AT", "-x-private", "_US_POSIX"]))
def test_a_locale_that_is_unknown_is_read_in_its_language(language: str, more: str) -> None:
    assert language_of(language.upper() + more) == language


@given(st.sampled_from(["xx", "sv-SE", "", "x-klingon", "english", "-", "\x00"]))
def test_a_language_that_is_unknown_is_english(locale: str) -> None:
    assert language_of(locale) == ENGLISH


@given(alerts(), LANGUAGES)
def test_a_body_is_no_larger_than_a_provider_takes_and_reads_as_json(shown: Alert, language: str) -> None:
    text = shown.text_in(language)
    apples, googles = payload(shown, language), message(shown, language, NOON)
    assert max(len(apples), len(googles)) <= MOST_BYTES
    assert json.loads(apples)["aps"]["alert"]["body"] == text
    assert json.loads(googles)["message"]["notification"]["body"] == text


@given(TEXTS)
def test_graphemes_joined_are_the_text(text: str) -> None:
    assert "".join(graphemes(text)) == text


@given(TEXTS)
def test_no_grapheme_begins_with_what_belongs_to_the_one_before(text: str) -> None:
    for before, one in pairwise(graphemes(text)):
        belongs = one[0] in ("\u200d", "🏽") or unicodedata.category(one[0]) in ("Mn", "Me")
        assert not belongs or before[-1] in "\r\n"
        assert (before[-1], one[0]) != ("\r", "\n")


@given(TEXTS, st.integers(0, 60))
def test_what_is_shortened_fits_and_is_a_beginning_of_whole_graphemes(text: str, most: int) -> None:
    def size(part: str) -> int:
        return len(part.encode("utf-8", "replace"))

    short = shortened(text, most, size)
    assert size(short) <= most
    if short not in (text, ""):
        assert short.endswith(ELLIPSIS)
        whole, kept = [*graphemes(text)], ""
        for one in whole:
            if len((kept + one).rstrip()) > len(short) - 1:
                break
            kept += one
        assert kept.rstrip() == short[:-1]


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 10**6))
def test_a_summary_has_its_subject_s_place_and_an_id_of_its_own(count: int, other: int, later: int) -> None:
    newest = replace(burst(seq=2), opened_at=NOON + timedelta(seconds=later))
    one, two = summary(burst(), count), summary(newest, other)
    assert one.collapse_id == two.collapse_id != alert(burst()).collapse_id
    assert (one.id == two.id) == (count == other and later == 0)
    assert one.summary
    assert not one.urgent
