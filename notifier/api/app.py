"""The application: the routes, who may use them, and what a refusal looks like."""

import asyncio
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.types import ControllerRouterHandler

from notifier.api import events, inbox, ops, stream
from notifier.api.edge import Edge, edge
from notifier.api.guards import neighbours_or_services, people, services
from notifier.api.keys import Keys
from notifier.api.listening import HUB
from notifier.api.noting import Pause
from notifier.api.openapi import PERSON, SERVICE, Description, describe
from notifier.api.problems import HANDLERS
from notifier.system import Reads, System


def create(system: System, reads: Reads, keys: Keys, pause: Pause = asyncio.sleep) -> Litestar:
    """Connects to nothing and starts nothing before the first request."""
    wired = edge(system, reads, keys, pause)
    description = describe(_routes(wired), _dependencies(wired, Description({})), _version())

    def close() -> None:
        wired.hub.close()
        wired.threads.shutdown(cancel_futures=True)

    return Litestar(
        _routes(wired),
        dependencies=_dependencies(wired, description),
        exception_handlers=HANDLERS,
        on_shutdown=[close],
        state=State({HUB: wired.hub}),
        openapi_config=None,
        logging_config=None,
        debug=False,
        pdb_on_exception=False,
    )


def _routes(wired: Edge) -> list[ControllerRouterHandler]:
    """Anew for every application: a router belongs to one."""
    return [
        Router(
            "/v1/events",
            route_handlers=[events.accept, events.fate],
            guards=[services(wired)],
            security=[{SERVICE: []}],
            tags=["events"],
        ),
        Router(
            "/v1/inbox",
            route_handlers=[inbox.page, inbox.unread, inbox.seen, inbox.marks, stream.live],
            guards=[people(wired)],
            security=[{PERSON: []}],
            tags=["inbox"],
        ),
        Router("/", route_handlers=[ops.healthz, ops.readyz, ops.openapi], tags=["operations"]),
        Router("/", route_handlers=[ops.metrics], guards=[neighbours_or_services(wired)], tags=["operations"]),
    ]


def _dependencies(wired: Edge, description: Description) -> dict[str, Provide]:
    return {"edge": _given(wired), "description": _given(description)}


def _given(value: Edge | Description) -> Provide:
    def give() -> Any:
        return value

    return Provide(give, sync_to_thread=False)


def _version() -> str:
    try:
        return version("notifier")
    except PackageNotFoundError:
        return "0"
