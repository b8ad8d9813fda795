"""OpenAPI document, generated from the routes and the event schemas."""

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

from notifier.api.schemas.event_json_schemas import EVENT, EXAMPLES, SCHEMA_PREFIX, event_schemas
from notifier.codec.cloudevents import BATCH_CONTENT_TYPE, MAX_BATCH_EVENTS, SINGLE_CONTENT_TYPE

USER_SCHEME, SERVICE_SCHEME = "person", "service"
"""Names of the security schemes in the document."""


@dataclass(slots=True, kw_only=True)
class OpenApiDocument:
    """The OpenAPI document, generated at first use: generation takes longer than building the application."""

    generate: Callable[[], dict[str, Any]]
    cached: dict[str, Any] | None = None
    lock: Lock = field(default_factory=Lock)

    def content(self) -> dict[str, Any]:
        """Return the document. Call in a thread, because the first call takes about 0.1 s."""
        with self.lock:
            if self.cached is None:
                self.cached = self.generate()
            return self.cached


def _openapi_config(version: str) -> OpenAPIConfig:
    schemes: dict[str, Any] = {
        USER_SCHEME: SecurityScheme(type="http", scheme="bearer", bearer_format="JWT", description="A user token."),
        SERVICE_SCHEME: SecurityScheme(type="http", scheme="bearer", description="A service key."),
    }
    return OpenAPIConfig(
        title="Notifier",
        version=version,
        summary="Celebrity mention notifications: accepts events and serves inboxes.",
        components=Components(security_schemes=schemes),
        use_handler_docstrings=True,
    )


def generate_document(routes: Sequence[Any], dependencies: Mapping[str, Provide], version: str) -> dict[str, Any]:
    """Generate the document from a second application, which serves nothing.

    Litestar would add routes for its own documentation pages to the application that generates the document.
    """
    app = Litestar(
        routes, dependencies=dependencies, openapi_config=_openapi_config(version), logging_config=None, debug=False
    )
    document = app.openapi_schema.to_schema()
    document["components"]["schemas"] |= event_schemas()
    return document


_EVENT = Reference(ref=SCHEMA_PREFIX + EVENT)
_EVENTS = Schema(type=OpenAPIType.ARRAY, items=_EVENT, min_items=1, max_items=MAX_BATCH_EVENTS)
_EXAMPLE_PER_TYPE = {type: Example(value=example) for type, example in EXAMPLES.items()}
_BATCH_EXAMPLE = {"batch": Example(value=[*EXAMPLES.values()])}


@dataclass
class EventsOperation(Operation):
    """Describes the request body of `POST /v1/events`, which the route itself decodes by content type."""

    def __post_init__(self) -> None:
        self.request_body = RequestBody(
            required=True,
            content={
                SINGLE_CONTENT_TYPE: OpenAPIMediaType(schema=_EVENT, examples={**_EXAMPLE_PER_TYPE}),
                "application/json": OpenAPIMediaType(schema=_EVENT, examples={**_EXAMPLE_PER_TYPE}),
                BATCH_CONTENT_TYPE: OpenAPIMediaType(schema=_EVENTS, examples={**_BATCH_EXAMPLE}),
            },
        )
