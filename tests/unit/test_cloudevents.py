"""The tweet service's events, well and badly written."""

import json
from collections.abc import Mapping

import pytest

from notifier.codec import read_events
from notifier.codec.cloudevents import LARGEST_BATCH, LARGEST_EVENT
from notifier.domain.errors import BadEvent, NotifierError, TooLarge
from notifier.domain.mention import Event, EventId
from tests.unit.examples import NOON

DATA: Mapping[str, object] = {"tweet": "t1", "author": "ada", "mentions": ["nova"], "text": "hi", "protected": True}


def raw(*, data: Mapping[str, object] | None = None, **fields: object) -> dict[str, object]:
    event: dict[str, object] = {
        "specversion": "1.0",
        "id": "e1",
        "source": "tweets",
        "type": "notifier.tweet.mentioned.v1",
        "time": "2026-01-05T13:00:00+01:00",
        "data": {**DATA, **(data or {})},
    }
    return {**event, **fields}


def read(body: object) -> Event | NotifierError:
    (found,) = read_events(body if isinstance(body, bytes) else json.dumps(body).encode(), NOON, batch=False)
    return found


def test_an_event_is_read() -> None:
    event = read(raw())
    assert isinstance(event, Event)
    assert event.id == EventId("tweets", "e1")
    assert (event.author, event.mentioned, event.text, event.protected) == ("ada", ("nova",), "hi", True)
    assert event.happened_at == event.accepted_at == NOON


def test_text_and_protection_may_be_missing_and_unknown_fields_are_ignored() -> None:
    event = read(raw(data={"lang": "fr"}, traceparent="00-1", datacontenttype="application/json"))
    assert isinstance(event, Event)
    bare = read({**raw(), "data": {"tweet": "t", "author": "a", "mentions": ["n"]}})
    assert isinstance(bare, Event)
    assert (bare.text, bare.protected) == ("", False)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b"[]", "object"),
        (b'{"id": "\xff"}', "utf-8"),
        (b"[" * 50_000, "object"),
        (raw(specversion="0.3"), "specversion"),
        (raw(type="notifier.tweet.mentioned.v2"), "type"),
        (raw(type="notifierXtweetXmentionedXv1"), "type"),
        (raw(type="notifier.tweet.mentioned.v1\n"), "type"),
        (raw(time="yesterday"), "time"),
        (raw(time="2026-01-05T12:00:00"), "time"),
        (raw(id=5), "id"),
        (raw(source=""), "source"),
        (raw(data={"author": None}), "data.author"),
        (raw(data={"mentions": []}), "data.mentions"),
        (raw(data={"mentions": "nova"}), "data.mentions"),
        (raw(data={"protected": "no"}), "data.protected"),
    ],
)
def test_a_bad_event_is_refused_with_what_is_wrong(body: object, named: str) -> None:
    error = read(body)
    assert isinstance(error, BadEvent)
    assert named in str(error)


def test_a_missing_field_is_named() -> None:
    without_time = {name: value for name, value in raw().items() if name != "time"}
    assert "`time`" in str(read(without_time))


def test_an_event_that_is_too_large_isn_t_even_parsed() -> None:
    assert isinstance(read(b"x" * (LARGEST_EVENT + 1)), TooLarge)
    assert isinstance(read(b"x" * LARGEST_EVENT), BadEvent)


def test_one_bad_event_doesn_t_spoil_its_batch() -> None:
    body = json.dumps([raw(id="a"), raw(id=""), 5, raw(id="b"), raw(data={"text": "x" * LARGEST_EVENT})]).encode()
    found = read_events(body, NOON, batch=True)
    assert [type(one) for one in found] == [Event, BadEvent, BadEvent, Event, TooLarge]


@pytest.mark.parametrize("body", [b"", b"{}", b"[1", b"5"])
def test_what_is_no_batch_is_refused_whole(body: bytes) -> None:
    with pytest.raises(BadEvent):
        read_events(body, NOON, batch=True)


def test_a_batch_has_a_size() -> None:
    assert read_events(b"[]", NOON, batch=True) == []
    assert len(read_events(b"[" + b"0," * (LARGEST_BATCH - 1) + b"0]", NOON, batch=True)) == LARGEST_BATCH
    with pytest.raises(TooLarge):
        read_events(b"[" + b"0," * LARGEST_BATCH + b"0]", NOON, batch=True)
