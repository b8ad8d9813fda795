"""The OpenAPI event schemas allow exactly what the gateway accepts."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from litestar.testing import TestClient

from notifier.api.routes.events import REQUIRED_SCOPE
from notifier.api.schemas.event_json_schemas import EXAMPLES
from notifier.codec import read_batch, read_event
from notifier.codec.cloudevents import BATCH_CONTENT_TYPE, SINGLE_CONTENT_TYPE
from notifier.domain.errors import NotifierError
from notifier.domain.upstream.validation import CHANGED_TYPE, EDITED_TYPE, MENTIONED_TYPE
from tests.docs.document_pages import Page
from tests.support.in_memory_http_api import MemoryBackend

NOW = datetime(2026, 1, 5, 13, tzinfo=UTC)
NAMES = {"id", "source", "tweet", "author", "user", "follower", "followed", "blocker", "blocked"}
Json = Mapping[str, Any]


@cache
def document() -> dict[str, Any]:
    with TestClient(MemoryBackend().app()) as client:
        return dict(client.get("/openapi.json").json())


def body(kind: str) -> dict[str, Any]:
    return dict(document()["paths"]["/v1/events"]["post"]["requestBody"]["content"][kind])


def is_allowed(event: object, kind: str = SINGLE_CONTENT_TYPE) -> bool:
    schema = {**body(kind)["schema"], "components": document()["components"]}
    return bool(Draft202012Validator(schema).is_valid(event))


def is_accepted(event: Json) -> bool:
    result = read_event(json.dumps(event).encode(), NOW).event
    return not isinstance(result, NotifierError)


def test_every_accepted_type_has_a_schema_and_an_example() -> None:
    mapping = document()["components"]["schemas"]["Event"]["discriminator"]["mapping"]
    assert mapping.keys() == REQUIRED_SCOPE.keys() == EXAMPLES.keys() == body(SINGLE_CONTENT_TYPE)["examples"].keys()
    one_of = document()["components"]["schemas"]["Event"]["oneOf"]
    assert [entry["$ref"] for entry in one_of] == [*mapping.values()]
    assert body(SINGLE_CONTENT_TYPE) == body("application/json")


@pytest.mark.parametrize("type", EXAMPLES)
def test_every_example_is_accepted_and_matches_only_its_own_schema(type: str) -> None:
    example = body(SINGLE_CONTENT_TYPE)["examples"][type]["value"]
    assert is_accepted(example)
    assert is_allowed(example)
    schemas = document()["components"]["schemas"]
    mapping = schemas["Event"]["discriminator"]["mapping"]
    matching = [
        name
        for name, reference in mapping.items()
        if Draft202012Validator(schemas[reference.rpartition("/")[2]]).is_valid(example)
    ]
    assert matching == [type]
    assert schemas[mapping[type].rpartition("/")[2]]["examples"] == [example]


def test_batch_of_all_types_is_an_example() -> None:
    [example] = body(BATCH_CONTENT_TYPE)["examples"].values()
    assert is_allowed(example["value"], BATCH_CONTENT_TYPE)
    assert not is_allowed([], BATCH_CONTENT_TYPE)
    assert not any(
        isinstance(item.event, NotifierError) for item in read_batch(json.dumps(example["value"]).encode(), NOW)
    )


@pytest.mark.parametrize("type", EXAMPLES)
def test_missing_and_too_long_fields_are_treated_alike(type: str) -> None:
    example = EXAMPLES[type]
    optional = {"text", "protected", "verified", "vip", "deleted"} - ({"text"} if type == EDITED_TYPE else set())
    for name in example.keys() | example["data"].keys():
        event = changed(example, name, None)
        assert (is_accepted(event), is_allowed(event)) == (name in optional, name in optional), name
        if name in NAMES:
            for value in ("", "x" * 257, 7):
                event = changed(example, name, value)
                assert (is_accepted(event), is_allowed(event)) == (False, False), (name, value)
    assert (is_accepted({**example, "other": [1]}), is_allowed({**example, "other": [1]})) == (True, True)


@pytest.mark.parametrize(
    ("type", "name", "value", "accepted"),
    [
        (MENTIONED_TYPE, "mentions", [], False),
        (MENTIONED_TYPE, "mentions", ["nova", ""], False),
        (MENTIONED_TYPE, "mentions", [f"u{n}" for n in range(101)], False),
        (MENTIONED_TYPE, "mentions", [f"u{n}" for n in range(100)], True),
        (EDITED_TYPE, "mentions", [], True),
        (EDITED_TYPE, "sequence", 0, False),
        (EDITED_TYPE, "sequence", 2**53 - 1, True),
        (EDITED_TYPE, "sequence", 2**53, False),
        (MENTIONED_TYPE, "text", "x" * 5_000, True),
        (MENTIONED_TYPE, "protected", "no", False),
        (CHANGED_TYPE, "vip", 1, False),
    ],
)
def test_gateway_and_schema_have_the_same_limits(type: str, name: str, value: object, accepted: bool) -> None:
    event = changed(EXAMPLES[type], name, value)
    assert (is_accepted(event), is_allowed(event)) == (accepted, accepted)


@pytest.mark.parametrize(
    ("flags", "accepted"), [({}, False), ({"vip": None}, False), ({"vip": None, "deleted": False}, True)]
)
def test_account_change_needs_at_least_one_flag(flags: Json, accepted: bool) -> None:
    event = {**EXAMPLES[CHANGED_TYPE], "data": {"user": "ada", "sequence": 1, **flags}}
    assert (is_accepted(event), is_allowed(event)) == (accepted, accepted)


def test_events_in_the_http_documentation_are_the_examples() -> None:
    shown = [json.loads(text) for kind, text in Page("docs/http.md").blocks if kind == "json" and "specversion" in text]
    assert shown == [EXAMPLES[event["type"]] for event in shown]
    assert {name for name in EXAMPLES if f"`{name}`" not in Page("docs/http.md").text} <= {
        event["type"] for event in shown
    }


def changed(example: Json, name: str, value: object) -> dict[str, Any]:
    """Return the example with another value of a field, or without the field if the value is None."""
    event, in_data = {**example, "data": {**example["data"]}}, name in example["data"]
    holder = event["data"] if in_data else event
    if value is None:
        del holder[name]
    else:
        holder[name] = value
    return event
