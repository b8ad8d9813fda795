"""JSON schemas of events, generated from the decoder's structs and value limits."""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from notifier.codec.cloudevents import CloudEventStruct
from notifier.domain.audience.account_flags import Flag
from notifier.domain.upstream.validation import (
    BLOCKED_TYPE,
    CHANGED_TYPE,
    DELETED_TYPE,
    EDITED_TYPE,
    ERASED_TYPE,
    FOLLOW_APPROVED_TYPE,
    FOLLOWED_TYPE,
    HIGHEST_SEQUENCE,
    MAX_ID_LENGTH,
    MAX_MENTIONED_ACCOUNTS,
    MENTIONED_TYPE,
    PROTECTED_TYPE,
    SEEN_TYPE,
    UNBLOCKED_TYPE,
    UNFOLLOWED_TYPE,
)

# An example event of every type, for the OpenAPI document and docs/http.md.

TWEET_SOURCE, GRAPH_SOURCE = "//tweets.example", "//graph.example"
ACCOUNT_SOURCE, LOGIN_SOURCE = "//accounts.example", "//logins.example"


def _event(type: str, source: str, id: str, data: Mapping[str, Any], time: str = "12:00:00") -> Mapping[str, Any]:
    return {
        "specversion": "1.0",
        "type": type,
        "source": source,
        "id": id,
        "time": f"2026-01-05T{time}Z",
        "data": data,
    }


_TWEET = {"tweet": "t1843", "author": "ada"}
_EDIT = {**_TWEET, "mentions": ["nova"], "text": "@nova hello again", "sequence": 1}
_FOLLOW = {"follower": "ada", "followed": "nova", "sequence": 3}
_BLOCK = {"blocker": "ada", "blocked": "eve", "sequence": 3}
_ADA = {"user": "ada"}

EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    example["type"]: example
    for example in (
        _event(
            MENTIONED_TYPE,
            TWEET_SOURCE,
            "1843",
            {**_TWEET, "mentions": ["nova"], "text": "@nova hello", "protected": False},
        ),
        _event(DELETED_TYPE, TWEET_SOURCE, "1902", _TWEET, "12:05:00"),
        _event(EDITED_TYPE, TWEET_SOURCE, "1901", _EDIT, "12:04:00"),
        _event(FOLLOWED_TYPE, GRAPH_SOURCE, "77120", _FOLLOW),
        _event(FOLLOW_APPROVED_TYPE, GRAPH_SOURCE, "77122", _FOLLOW),
        _event(UNFOLLOWED_TYPE, GRAPH_SOURCE, "77123", {**_FOLLOW, "sequence": 4}),
        _event(BLOCKED_TYPE, GRAPH_SOURCE, "77121", _BLOCK),
        _event(UNBLOCKED_TYPE, GRAPH_SOURCE, "77124", {**_BLOCK, "sequence": 4}),
        _event(
            CHANGED_TYPE,
            ACCOUNT_SOURCE,
            "5120",
            {**_ADA, "sequence": 4, "verified": True, "vip": True, "deleted": False},
        ),
        _event(PROTECTED_TYPE, ACCOUNT_SOURCE, "5121", _ADA),
        _event(ERASED_TYPE, ACCOUNT_SOURCE, "5122", _ADA),
        _event(SEEN_TYPE, LOGIN_SOURCE, "90412", _ADA),
    )
}

Json = dict[str, Any]

SCHEMA_PREFIX = "#/components/schemas/"
EVENT = "Event"
"""Name of the schema that accepts an event of any type."""

_ID_LIMITS = {"minLength": 1, "maxLength": MAX_ID_LENGTH}
_LIMITS: Mapping[str, Mapping[str, object]] = {
    **dict.fromkeys(
        ("id", "source", "tweet", "author", "user", "follower", "followed", "blocker", "blocked"), _ID_LIMITS
    ),
    "time": {"format": "date-time"},
    "sequence": {"minimum": 1, "maximum": HIGHEST_SEQUENCE},
    "mentions": {"items": {"type": "string", **_ID_LIMITS}, "maxItems": MAX_MENTIONED_ACCOUNTS},
}
"""Schema constraints by field name, for every event with that field."""


def event_schemas() -> Mapping[str, Json]:
    """Return the schemas by name: one per event type, and one for any event with `type` as the discriminator."""
    _, components = msgspec.json.schema_components(get_args(CloudEventStruct), ref_template="{name}")
    structs = {tag: components[name] for tag, name in _struct_names().items()}
    schemas = {_schema_name(name): _schema(tag, structs[tag], components) for tag, name in _struct_names().items()}
    mapping = {tag: SCHEMA_PREFIX + _schema_name(name) for tag, name in _struct_names().items()}
    return schemas | {EVENT: _one_of(mapping)}


def _struct_names() -> Mapping[str, str]:
    return {str(struct.__struct_config__.tag): struct.__name__ for struct in get_args(CloudEventStruct)}


def _schema_name(struct: str) -> str:
    return f"{struct.removeprefix('_')}{EVENT}"


def _one_of(mapping: Mapping[str, str]) -> Json:
    return {
        "description": "A CloudEvent 1.0, by type; other members are ignored.",
        "oneOf": [{"$ref": reference} for reference in mapping.values()],
        "discriminator": {"propertyName": "type", "mapping": mapping},
    }


def _schema(tag: str, event: Json, schemas: Mapping[str, Json]) -> Json:
    members = {**event["properties"], "type": {"const": tag}, "specversion": {"const": "1.0"}}
    data = _with_limits(schemas[members.pop("data")["$ref"]])
    if tag == MENTIONED_TYPE:
        data["properties"]["mentions"]["minItems"] = 1
    if tag == CHANGED_TYPE:
        data["anyOf"] = [_required_flag(str(flag)) for flag in Flag]
    schema: Json = _with_limits(event | {"properties": members})
    schema["properties"]["data"] = data
    return schema | {"examples": [EXAMPLES[tag]]}


def _with_limits(struct: Json) -> Json:
    """Return a struct's schema with the constraints of its fields, and without the title, an internal class name."""
    members = {name: {**schema, **_LIMITS.get(name, {})} for name, schema in struct["properties"].items()}
    return {"type": "object", "required": struct["required"], "properties": members}


def _required_flag(flag: str) -> Json:
    return {"required": [flag], "properties": {flag: {"type": "boolean"}}}
