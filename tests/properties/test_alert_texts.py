"""Alert texts for any name and locale: complete, short enough, and naming author and account."""

import json
import unicodedata
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from notifier.adapters.push.apns.sender import payload
from notifier.adapters.push.fcm.sender import message
from notifier.adapters.push.request_rounds_and_replies import MAX_BODY_BYTES
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.push.alert import Alert, MentionAlert, SummaryAlert, burst_alert, summary_alert
from notifier.domain.push.translations import ELLIPSIS, ENGLISH, PHRASES_BY_LANGUAGE, graphemes, language_of, shortened
from tests.support.domain_examples import NOON, burst

NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=256)
LANGUAGES = st.sampled_from(sorted(PHRASES_BY_LANGUAGE))
GRAPHEME_PARTS = st.lists(
    st.sampled_from([*"aé中", "👍", "\u200d", "🏽", "🇩", "🇪", "\u0301", "क", "\u094d", "ᄀ", "ᅡ", "\r", "\n", " "])
)
TEXTS = st.one_of(st.text(), GRAPHEME_PARTS.map("".join))


@st.composite
def alerts(draw: st.DrawFn) -> Alert:
    subject = Subject(draw(st.sampled_from([Kind.MENTION, Kind.SELF])), UserId(draw(NAMES)))
    content = draw(
        st.one_of(st.builds(MentionAlert, opener=NAMES), st.builds(SummaryAlert, count=st.integers(1, 10**9)))
    )
    return replace(burst_alert(burst()), burst=BurstKey(subject, 1), content=content)


@given(alerts(), LANGUAGES)
def test_text_names_author_and_account_and_fills_all_placeholders(alert_: Alert, language: str) -> None:
    text = alert_.text_in(language)
    names = [alert_.subject.owner] if alert_.subject.kind is Kind.MENTION else []
    match alert_.content:
        case MentionAlert(opener=opener):
            names.append(opener)
        case SummaryAlert(count=count):
            names.append(UserId(str(count)))
    assert all(name in text for name in names)
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, "")
    assert not set("{}") & set(text)


@given(st.text())
def test_every_locale_has_a_language(locale: str) -> None:
    assert language_of(locale) in PHRASES_BY_LANGUAGE


@given(LANGUAGES, st.sampled_from(["", "-AT", "_at", "-Latn-AT", "-x-private", "_US_POSIX"]))
def test_unknown_locale_falls_back_to_its_language(language: str, suffix: str) -> None:
    assert language_of(language.upper() + suffix) == language


@given(st.sampled_from(["xx", "sv-SE", "", "x-klingon", "english", "-", "\x00"]))
def test_unknown_language_falls_back_to_english(locale: str) -> None:
    assert language_of(locale) == ENGLISH


@given(alerts(), LANGUAGES)
def test_payload_fits_the_provider_limit_and_is_valid_json(alert_: Alert, language: str) -> None:
    text = alert_.text_in(language)
    apns_body, fcm_body = payload(alert_, language), message(alert_, language, NOON)
    assert max(len(apns_body), len(fcm_body)) <= MAX_BODY_BYTES
    assert json.loads(apns_body)["aps"]["alert"]["body"] == text
    assert json.loads(fcm_body)["message"]["notification"]["body"] == text


@given(TEXTS)
def test_joined_graphemes_equal_the_text(text: str) -> None:
    assert "".join(graphemes(text)) == text


@given(TEXTS)
def test_grapheme_never_begins_with_a_continuation(text: str) -> None:
    for previous, current in pairwise(graphemes(text)):
        is_continuation = current[0] in ("\u200d", "🏽") or unicodedata.category(current[0]) in ("Mn", "Me")
        assert not is_continuation or previous[-1] in "\r\n"
        assert (previous[-1], current[0]) != ("\r", "\n")


@given(TEXTS, st.integers(0, 60))
def test_shortened_text_fits_and_ends_at_a_grapheme(text: str, most: int) -> None:
    def size(text_: str) -> int:
        return len(text_.encode("utf-8", "replace"))

    short = shortened(text, most, size)
    assert size(short) <= most
    if short not in (text, ""):
        assert short.endswith(ELLIPSIS)
        all_graphemes, prefix = [*graphemes(text)], ""
        for grapheme in all_graphemes:
            if len((prefix + grapheme).rstrip()) > len(short) - 1:
                break
            prefix += grapheme
        assert prefix.rstrip() == short[:-1]


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 10**6))
def test_summary_has_the_collapse_id_of_its_subject_and_its_own_id(
    count: int, newest_count: int, seconds_later: int
) -> None:
    newest = replace(burst(seq=2), opened_at=NOON + timedelta(seconds=seconds_later))
    first, second = summary_alert(burst(), count), summary_alert(newest, newest_count)
    assert first.collapse_id == second.collapse_id != burst_alert(burst()).collapse_id
    assert (first.id == second.id) == (count == newest_count and seconds_later == 0)
    assert first.is_summary
    assert not first.is_urgent
