"""Litestar application: routes, guards, error handlers and middleware."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.types import ControllerRouterHandler

from notifier.api.auth.authenticators import Authenticator
from notifier.api.auth.cors import with_cors
from notifier.api.auth.guards import (
    allow_demo_visitors,
    allow_loopback_or_services,
    allow_operators,
    allow_services,
    allow_users,
    require_loopback,
)
from notifier.api.auth.service_and_installation_keys import InstallationKeys, Scope
from notifier.api.background.activity_recorder import Pause
from notifier.api.container import ApiContainer, build_container
from notifier.api.demo import routes as demo
from notifier.api.demo.routes import DemoControls, demo_controls
from notifier.api.http_server import HUB_KEY
from notifier.api.problems import EXCEPTION_HANDLERS, ResponseHeaders
from notifier.api.routes import devices, events, inbox, inbox_stream, missed_bursts, preferences, static
from notifier.api.routes import system as system_routes
from notifier.api.routes.fast_inbox import FastInbox
from notifier.api.schemas.openapi import SERVICE_SCHEME, USER_SCHEME, OpenApiDocument, generate_document
from notifier.config.settings_and_environment import installed_version
from notifier.ports.all_ports import ReadPorts
from notifier.wiring.shared_parts import System


def create(
    system: System,
    reads: ReadPorts,
    keys: InstallationKeys,
    pause: Pause = asyncio.sleep,
    flush_redis: Callable[[], bool] = lambda: False,
    *,
    authenticator: Authenticator | None = None,
) -> Litestar:
    """Build the application, without connecting to anything. Raises BadSetting.

    `flush_redis` flushes the Redis that this service started itself, and returns False if it can't. `authenticator`
    replaces the one that is built from the settings.
    """
    container = build_container(system, reads, keys, pause, authenticator)
    controls = demo_controls(container, flush_redis)
    openapi_document = OpenApiDocument(
        generate=lambda: generate_document(_routes(container), dependencies, installed_version())
    )
    dependencies = _dependencies(container, openapi_document, controls)

    async def start_traffic() -> None:
        if system.settings.demo:
            controls.traffic.start_trickle()

    def close() -> None:
        controls.traffic.stop()
        container.close()

    app = Litestar(
        [*_routes(container), *_demo_routes(container)],
        dependencies=dependencies,
        exception_handlers=EXCEPTION_HANDLERS,
        on_startup=[start_traffic],
        on_shutdown=[close],
        state=State({HUB_KEY: container.hub}),
        openapi_config=None,
        logging_config=None,
        debug=False,
        pdb_on_exception=False,
    )
    app.asgi_handler = ResponseHeaders(missed_bursts.RawSubjectPaths(app.asgi_handler))
    # FastInbox needs tokens. With `insecure_dev`, requests may name their user without one, so the routes answer them.
    if not system.settings.insecure_dev:
        app.asgi_handler = FastInbox(app.asgi_handler, container, container.authenticator)
    app.asgi_handler = with_cors(app.asgi_handler, system.settings.origins)
    return app


def _routes(container: ApiContainer) -> list[ControllerRouterHandler]:
    """Build the routers. Every application needs new ones, because a router belongs to one application."""
    return [
        Router(
            "/v1/events",
            route_handlers=[events.accept, events.event_status],
            guards=[allow_services(container, *events.SCOPES)],
            security=[{SERVICE_SCHEME: [scope]} for scope in events.SCOPES],
            tags=["events"],
        ),
        Router(
            "/v1/inbox",
            route_handlers=[inbox.page, inbox.unread, inbox.seen, inbox.marks, inbox_stream.live],
            guards=[allow_users(container)],
            security=[{USER_SCHEME: []}],
            tags=["inbox"],
        ),
        Router(
            "/v1/subjects",
            route_handlers=[missed_bursts.bursts],
            guards=[allow_users(container)],
            security=[{USER_SCHEME: []}],
            tags=["inbox"],
        ),
        Router(
            "/v1/preferences",
            route_handlers=[
                preferences.preferences,
                preferences.change_subject_preference,
                preferences.change_account_preferences,
            ],
            guards=[allow_users(container)],
            security=[{USER_SCHEME: []}],
            tags=["preferences"],
        ),
        Router(
            "/v1/devices",
            route_handlers=[devices.devices, devices.register, devices.unregister],
            guards=[allow_users(container)],
            security=[{USER_SCHEME: []}],
            tags=["devices"],
        ),
        Router(
            "/v1/system",
            route_handlers=[system_routes.overview, system_routes.stream],
            guards=[allow_operators(container)],
            security=[{SERVICE_SCHEME: [Scope.OPERATE]}],
            tags=["operations"],
        ),
        Router(
            "/",
            route_handlers=[system_routes.healthz, system_routes.readyz, system_routes.openapi, static.static],
            tags=["operations"],
        ),
        Router(
            "/",
            route_handlers=[system_routes.metrics],
            guards=[allow_loopback_or_services(container)],
            tags=["operations"],
        ),
    ]


def _demo_routes(container: ApiContainer) -> list[ControllerRouterHandler]:
    """Return the routes of the demo page, which the OpenAPI document omits."""
    if not container.system.settings.demo:
        return []
    routes = [demo.people, demo.phones, demo.storm, demo.pause, demo.lift, demo.kill, demo.empty_redis]
    return [
        Router("/", route_handlers=[demo.page], guards=[require_loopback]),
        Router("/demo", route_handlers=routes, guards=[allow_demo_visitors(container)]),
    ]


def _dependencies(
    container: ApiContainer, openapi_document: OpenApiDocument, controls: DemoControls
) -> dict[str, Provide]:
    """Return the providers of the values that the framework passes to routes, by parameter name."""
    values: Mapping[str, ApiContainer | OpenApiDocument | DemoControls] = {
        "container": container,
        "openapi_document": openapi_document,
        "controls": controls,
    }
    return {name: _provider(value) for name, value in values.items()}


def _provider(value: ApiContainer | OpenApiDocument | DemoControls) -> Provide:
    def provide() -> Any:
        return value

    return Provide(provide, sync_to_thread=False)
