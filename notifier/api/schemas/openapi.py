"""The description of the API: generated from the routes, with the events' bodies, as the codec reads them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from litestar import Litestar
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import (
    Components,
    Example,
    OpenAPIMediaType,
    OpenAPIType,
    Operation,
    Reference,
    RequestBody,
    Schema,
    SecurityScheme,
)

from notifier.api.schemas.events import EVENT, EXAMPLES, PLACE, event_schemas
from notifier.codec.cloudevents import BATCH, LARGEST_BATCH, ONE

PERSON, SERVICE = "person", "service"


@dataclass(slots=True, kw_only=True)
class Description:
    """Made when somebody first asks for it, and once: it takes longer than all the rest of an application."""

    make: Callable[[], dict[str, Any]]
    made: dict[str, Any] | None = None
    lock: Lock = field(default_factory=Lock)

    def document(self) -> dict[str, Any]:
        """For a thread: the first who asks waits for some 0.1 s of work."""
        with self.lock:
            if self.made is None:
                self.made = self.make()
            return self.made


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


def describe(routes: Sequence[Any], dependencies: Mapping[str, Provide], version: str) -> dict[str, Any]:
    """By an application that serves nothing: Litestar's own pages about it would come with routes of their own."""
    described = Litestar(
        routes, dependencies=dependencies, openapi_config=config(version), logging_config=None, debug=False
    )
    document = described.openapi_schema.to_schema()
    document["components"]["schemas"] |= event_schemas()
    return document


_EVENT = Reference(ref=PLACE + EVENT)
_EVENTS = Schema(type=OpenAPIType.ARRAY, items=_EVENT, min_items=1, max_items=LARGEST_BATCH)
_EACH = {type: Example(value=example) for type, example in EXAMPLES.items()}
_SOME = {"batch": Example(value=[*EXAMPLES.values()])}


@dataclass
class EventsOperation(Operation):
    """The route reads its body itself, by its content type, so it says itself what that is."""

    def __post_init__(self) -> None:
        self.request_body = RequestBody(
            required=True,
            content={
                ONE: OpenAPIMediaType(schema=_EVENT, examples={**_EACH}),
                "application/json": OpenAPIMediaType(schema=_EVENT, examples={**_EACH}),
                BATCH: OpenAPIMediaType(schema=_EVENTS, examples={**_SOME}),
            },
        )
