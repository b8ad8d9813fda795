"""Who may use a route; asked before anything of the body is read."""

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from notifier.api.edge import Edge
from notifier.api.identity import person, require_service
from notifier.domain.errors import WrongType

Connection = ASGIConnection[Any, Any, Any, Any]
Guard = Callable[[Connection, BaseRouteHandler], None]


def services(edge: Edge) -> Guard:
    def guard(connection: Connection, _: BaseRouteHandler) -> None:
        require_service(edge.keys, connection.headers.get("authorization"), edge.clock.now())

    return guard


def people(edge: Edge) -> Guard:
    """The person is `request.user` from here on."""

    def guard(connection: Connection, _: BaseRouteHandler) -> None:
        connection.scope["user"] = person(edge.keys, connection.headers.get("authorization"), edge.clock.now())

    return guard


def neighbours_or_services(edge: Edge) -> Guard:
    """Open on loopback; from elsewhere it takes the service key."""
    only_services = services(edge)

    def guard(connection: Connection, handler: BaseRouteHandler) -> None:
        if not _is_loopback(connection):
            only_services(connection, handler)

    return guard


def takes_plain(connection: Connection, _: BaseRouteHandler) -> None:
    """Nothing is unpacked: 64 KiB that were compressed may be any size, and sizes are judged as they are sent."""
    if connection.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise WrongType("It takes bodies that aren't compressed.")


def takes_json(connection: Connection, handler: BaseRouteHandler) -> None:
    takes_plain(connection, handler)
    if media_type(connection) != "application/json":
        raise WrongType("It takes application/json.")


def media_type(connection: Connection) -> str:
    """Without its parameters."""
    return connection.headers.get("content-type", "").partition(";")[0].strip().lower()


def _is_loopback(connection: Connection) -> bool:
    try:
        return connection.client is not None and ip_address(connection.client.host).is_loopback
    except ValueError:  # a name or a path instead of an address
        return False
