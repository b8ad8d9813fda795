"""The description of the API: generated from the routes, with the events' body, which the codec reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litestar import Litestar
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import (
    Components,
    OpenAPIFormat,
    OpenAPIMediaType,
    OpenAPIType,
    Operation,
    RequestBody,
    Schema,
    SecurityScheme,
)

from notifier.codec.cloudevents import BATCH, LARGEST_BATCH, ONE
from notifier.domain.event import EVENT_TYPE, LONGEST_ID, MOST_MENTIONED

PERSON, SERVICE = "person", "service"


@dataclass(frozen=True, slots=True)
class Description:
    document: dict[str, Any]


def config(version: str) -> OpenAPIConfig:
    schemes: dict[str, Any] = {
        PERSON: SecurityScheme(type="http", scheme="bearer", bearer_format="JWT", description="A person's token."),
        SERVICE: SecurityScheme(type="http", scheme="bearer", description="The service key."),
    }
    return OpenAPIConfig(
        title="Notifier",
        version=version,
        summary="Celebrity mention notifications: events in, tabs out.",
        components=Components(security_schemes=schemes),
        use_handler_docstrings=True,
    )


def describe(routes: Sequence[Any], dependencies: Mapping[str, Provide], version: str) -> Description:
    """By an application that serves nothing: Litestar's own pages about it would come with routes of their own."""
    described = Litestar(
        routes, dependencies=dependencies, openapi_config=config(version), logging_config=None, debug=False
    )
    return Description(described.openapi_schema.to_schema())


def _text(most: int = LONGEST_ID) -> Schema:
    return Schema(type=OpenAPIType.STRING, min_length=1, max_length=most)


_DATA = Schema(
    type=OpenAPIType.OBJECT,
    required=["tweet", "author", "mentions"],
    properties={
        "tweet": _text(),
        "author": _text(),
        "mentions": Schema(type=OpenAPIType.ARRAY, items=_text(), min_items=1, max_items=MOST_MENTIONED),
        "text": Schema(type=OpenAPIType.STRING, default=""),
        "protected": Schema(type=OpenAPIType.BOOLEAN, default=False),
    },
)

_EVENT = Schema(
    type=OpenAPIType.OBJECT,
    description="A CloudEvent 1.0; other fields are ignored.",
    required=["specversion", "id", "source", "type", "time", "data"],
    properties={
        "specversion": Schema(type=OpenAPIType.STRING, const="1.0"),
        "id": _text(),
        "source": _text(),
        "type": Schema(type=OpenAPIType.STRING, const=EVENT_TYPE),
        "time": Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.DATE_TIME),
        "data": _DATA,
    },
)

_EVENTS = Schema(type=OpenAPIType.ARRAY, items=_EVENT, min_items=1, max_items=LARGEST_BATCH)


@dataclass
class EventsOperation(Operation):
    """The route reads its body itself, by its content type, so it says itself what that is."""

    def __post_init__(self) -> None:
        self.request_body = RequestBody(
            required=True,
            content={
                ONE: OpenAPIMediaType(schema=_EVENT),
                "application/json": OpenAPIMediaType(schema=_EVENT),
                BATCH: OpenAPIMediaType(schema=_EVENTS),
            },
        )
