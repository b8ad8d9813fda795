"""Validation of mention events: limits that the gateway applies to the tweet service."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from notifier.domain.bursts.events_and_mentions import Event
from notifier.domain.errors import BadEvent
from notifier.domain.upstream.validation import (
    MAX_ID_LENGTH,
    MAX_MENTIONED_ACCOUNTS,
    MAX_TEXT_LENGTH,
    UPSTREAM_CLOCK_SKEW,
    checked_mention_event,
)
from tests.support.domain_examples import NOON, SECOND


def event(
    *,
    id: str = "e1",
    author: str = "ada",
    mentioned: tuple[str, ...] = ("nova",),
    text: str = "hello",
    happened_at: datetime = NOON,
) -> Event:
    return checked_mention_event(
        source="tweets",
        id=id,
        tweet="t1",
        author=author,
        mentioned=mentioned,
        text=text,
        protected=False,
        happened_at=happened_at,
        now=NOON,
    )


def test_event_is_accepted_at_its_arrival() -> None:
    assert event().accepted_at == NOON


def test_account_named_twice_is_mentioned_once_in_tweet_order() -> None:
    assert event(mentioned=("nova", "bob", "nova")).mentioned == ("nova", "bob")


def test_values_at_the_limits_are_accepted() -> None:
    assert event(id="i" * MAX_ID_LENGTH).id.id == "i" * MAX_ID_LENGTH
    assert (
        len(event(mentioned=tuple(f"u{n}" for n in range(MAX_MENTIONED_ACCOUNTS))).mentioned) == MAX_MENTIONED_ACCOUNTS
    )
    assert event(happened_at=NOON + UPSTREAM_CLOCK_SKEW).happened_at > NOON


def test_text_is_truncated_and_loses_unprintable_characters() -> None:
    assert event(text="x" * 2_000).text == "x" * MAX_TEXT_LENGTH
    assert event(text="a\x00b\x1b[1m\nc\ud800").text == "ab[1m\nc"


@pytest.mark.parametrize("name", ["", "x" * (MAX_ID_LENGTH + 1), "a\x00", "a\nb", "\ud800"])
def test_invalid_name_is_refused_with_its_field(name: str) -> None:
    with pytest.raises(BadEvent, match=r"data\.author"):
        event(author=name)
    with pytest.raises(BadEvent, match=r"data\.mentions"):
        event(mentioned=("nova", name))
    with pytest.raises(BadEvent, match=r"\bid\b"):
        event(id=name)


@pytest.mark.parametrize("names", [(), tuple(f"u{n}" for n in range(MAX_MENTIONED_ACCOUNTS + 1))])
def test_event_with_no_or_too_many_mentions_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(BadEvent, match=r"data\.mentions"):
        event(mentioned=names)


@pytest.mark.parametrize(
    "when",
    [
        NOON.replace(tzinfo=None),
        NOON + UPSTREAM_CLOCK_SKEW + SECOND,
        NOON - timedelta(days=90),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=UTC),
    ],
)
def test_time_without_zone_in_future_or_past_retention_is_refused(when: datetime) -> None:
    with pytest.raises(BadEvent, match="time"):
        event(happened_at=when)
