"""The description of the events: what it allows is what the gateway takes, for every type."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from litestar.testing import TestClient

from notifier.api.routes.events import NEEDED
from notifier.api.schemas.events import EXAMPLES
from notifier.codec import read_batch, read_event
from notifier.codec.cloudevents import BATCH, ONE
from notifier.domain.errors import NotifierError
from notifier.domain.upstream.validation import CHANGED_TYPE, EDITED_TYPE, EVENT_TYPE
from tests.docs.pages import Page
from tests.support.http_app import House

NOW = datetime(2026, 1, 5, 13, tzinfo=UTC)
NAMES = {"id", "source", "tweet", "author", "user", "follower", "followed", "blocker", "blocked"}
Json = Mapping[str, Any]


@cache
def document() -> dict[str, Any]:
    with TestClient(House().app()) as client:
        return dict(client.get("/openapi.json").json())


def body(kind: str) -> dict[str, Any]:
    return dict(document()["paths"]["/v1/events"]["post"]["requestBody"]["content"][kind])


def allowed(event: object, kind: str = ONE) -> bool:
    schema = {**body(kind)["schema"], "components": document()["components"]}
    return bool(Draft202012Validator(schema).is_valid(event))


def taken(event: Json) -> bool:
    found = read_event(json.dumps(event).encode(), NOW).event
    return not isinstance(found, NotifierError)


def test_every_type_that_is_taken_has_a_schema_and_an_example() -> None:
    mapping = document()["components"]["schemas"]["Event"]["discriminator"]["mapping"]
    assert mapping.keys() == NEEDED.keys() == EXAMPLES.keys() == body(ONE)["examples"].keys()
    one_of = document()["components"]["schemas"]["Event"]["oneOf"]
    assert [found["$ref"] for found in one_of] == [*mapping.values()]
    assert body(ONE) == body("application/json")


@pytest.mark.parametrize("type", EXAMPLES)
def test_every_example_is_taken_and_allowed_by_the_schema_of_its_type_alone(type: str) -> None:
    example = body(ONE)["examples"][type]["value"]
    assert taken(example)
    assert allowed(example)
    schemas = document()["components"]["schemas"]
    mapping = schemas["Event"]["discriminator"]["mapping"]
    fitting = [
        named
        for named, place in mapping.items()
        if Draft202012Validator(schemas[place.rpartition("/")[2]]).is_valid(example)
    ]
    assert fitting == [type]
    assert schemas[mapping[type].rpartition("/")[2]]["examples"] == [example]


def test_a_batch_of_all_of_them_is_an_example_too() -> None:
    [example] = body(BATCH)["examples"].values()
    assert allowed(example["value"], BATCH)
    assert not allowed([], BATCH)
    assert not any(
        isinstance(each.event, NotifierError) for each in read_batch(json.dumps(example["value"]).encode(), NOW)
    )


@pytest.mark.parametrize("type", EXAMPLES)
def test_what_an_event_lacks_or_has_too_long_is_neither_taken_nor_allowed(type: str) -> None:
    example = EXAMPLES[type]
    optional = {"text", "protected", "verified", "vip", "deleted"} - ({"text"} if type == EDITED_TYPE else set())
    for name in example.keys() | example["data"].keys():
        event = changed(example, name, None)
        assert (taken(event), allowed(event)) == (name in optional, name in optional), name
        if name in NAMES:
            for value in ("", "x" * 257, 7):
                event = changed(example, name, value)
                assert (taken(event), allowed(event)) == (False, False), (name, value)
    assert (taken({**example, "other": [1]}), allowed({**example, "other": [1]})) == (True, True)


@pytest.mark.parametrize(
    ("type", "name", "value", "is_taken"),
    [
        (EVENT_TYPE, "mentions", [], False),
        (EVENT_TYPE, "mentions", ["nova", ""], False),
        (EVENT_TYPE, "mentions", [f"u{n}" for n in range(101)], False),
        (EVENT_TYPE, "mentions", [f"u{n}" for n in range(100)], True),
        (EDITED_TYPE, "mentions", [], True),
        (EDITED_TYPE, "sequence", 0, False),
        (EDITED_TYPE, "sequence", 2**53 - 1, True),
        (EDITED_TYPE, "sequence", 2**53, False),
        (EVENT_TYPE, "text", "x" * 5_000, True),
        (EVENT_TYPE, "protected", "no", False),
        (CHANGED_TYPE, "vip", 1, False),
    ],
)
def test_a_limit_is_the_same_for_both(type: str, name: str, value: object, is_taken: bool) -> None:
    event = changed(EXAMPLES[type], name, value)
    assert (taken(event), allowed(event)) == (is_taken, is_taken)


@pytest.mark.parametrize(
    ("said", "is_taken"), [({}, False), ({"vip": None}, False), ({"vip": None, "deleted": False}, True)]
)
def test_a_change_says_one_thing_at_least(said: Json, is_taken: bool) -> None:
    event = {**EXAMPLES[CHANGED_TYPE], "data": {"user": "ada", "sequence": 1, **said}}
    assert (taken(event), allowed(event)) == (is_taken, is_taken)


def test_the_events_of_the_page_are_the_examples() -> None:
    shown = [json.loads(text) for kind, text in Page("docs/http.md").blocks if kind == "json" and "specversion" in text]
    assert shown == [EXAMPLES[event["type"]] for event in shown]
    assert {name for name in EXAMPLES if f"`{name}`" not in Page("docs/http.md").text} <= {
        event["type"] for event in shown
    }


def changed(example: Json, name: str, value: object) -> dict[str, Any]:
    """With another value of a member, or without it."""
    event, inside = {**example, "data": {**example["data"]}}, name in example["data"]
    holder = event["data"] if inside else event
    if value is None:
        del holder[name]
    else:
        holder[name] = value
    return event
