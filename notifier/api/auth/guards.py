"""Who may use a route; asked before anything of the body is read."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from hmac import compare_digest
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from notifier.api.auth.dev_mode import Insecure
from notifier.api.auth.identity import Identity
from notifier.api.auth.scopes import Scope
from notifier.api.auth.service_keys import Keys
from notifier.api.container import Edge
from notifier.domain.errors import BadToken, Forbidden, TooManyRequests, WrongType
from notifier.domain.token_bucket import RequestLimit, seconds

READING = ("GET", "HEAD")
PREPAID = "notifier.prepaid"
"""In the scope of a request: what was taken of its limit before it came to the routes, and what is left."""
INBOX = "/v1/inbox"
"""Whoever asks for it reads it now, and not ahead."""
LEFT = "left"
"""In the state of a request: what is left of its limit."""

Connection = ASGIConnection[Any, Any, Any, Any]
Guard = Callable[[Connection, BaseRouteHandler], Awaitable[None]]


def services(edge: Edge, *scopes: Scope) -> Guard:
    """Those with any of the scopes. The caller is `request.user` from here on."""

    async def guard(connection: Connection, _: BaseRouteHandler) -> None:
        identity = await _asked(edge, connection)
        caller = await identity.service(connection.headers.get("authorization"), edge.clock.now())
        caller.require(*scopes)
        _meter(edge, connection, edge.metering.requests, caller.key)
        connection.scope["user"] = caller

    return guard


def people(edge: Edge) -> Guard:
    """The person is `request.user` from here on, and `request.auth` the moment at which the token ends."""

    async def guard(connection: Connection, _: BaseRouteHandler) -> None:
        identity, now = await _asked(edge, connection), edge.clock.now()
        authorization = connection.headers.get("authorization")
        is_first = not edge.identity.knows(authorization, now)
        holder = await identity.person(authorization, now)
        _meter(edge, connection, _of_people(edge, connection), holder.user)
        if is_first and not connection.url.path.startswith(INBOX):
            edge.warm_up.add(holder.user)
        connection.scope["user"], connection.scope["auth"] = holder.user, holder.ends_at

    return guard


async def _asked(edge: Edge, connection: Connection) -> Identity | Insecure:
    """Who judges what a request brings; the other one only where the settings say so, and for nobody from elsewhere: a
    page in a browser that runs here may send requests, too."""
    if edge.system.settings.insecure_dev:
        with suppress(Forbidden):
            await at_home(connection)
            return Insecure(edge.identity)
    return edge.identity


def _of_people(edge: Edge, connection: Connection) -> RequestLimit | None:
    return edge.metering.reads if connection.scope.get("method") in READING else edge.metering.writes


def _meter(edge: Edge, connection: Connection, limit: RequestLimit | None, who: str) -> None:
    """The answer tells what is left, also where it refuses for another reason. Raises TooManyRequests."""
    if limit is None:
        return
    granted, left = connection.scope.pop(PREPAID, None) or edge.metering.take(limit, who)  # type: ignore[misc] # our own key
    connection.scope["state"][LEFT] = left
    if not granted:
        words = f"{limit.most} {limit.name} in {seconds(limit.window)} seconds are the limit."
        raise TooManyRequests(words, left.again_after)


def neighbours_or_services(edge: Edge) -> Guard:
    """Open on loopback; from elsewhere it takes a service key that may read metrics.

    By a loopback name alone: a page in a browser that runs here may have had its own name pointed at this machine.
    """
    only_services = services(edge, Scope.METRICS)

    async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
        if not (_is_loopback(connection) and _names_loopback(f"//{connection.headers.get('host', '')}")):
            await only_services(connection, handler)

    return guard


async def at_home(connection: Connection, _: BaseRouteHandler | None = None) -> None:
    """For what must not be reached from elsewhere, nor by a page from elsewhere in a browser that runs here.

    A foreign page's request has another Origin; one whose name was pointed at this machine afterwards has another Host.
    """
    host = connection.headers.get("host", "")
    if not (_is_loopback(connection) and _names_loopback(f"//{host}")):
        raise Forbidden("The demo is for this machine alone: open it as localhost or 127.0.0.1.")
    origin = connection.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        raise Forbidden("The demo takes no requests from other pages.")


def demo_token(keys: Keys) -> str:
    """For the buttons of the demo's page. Whoever may open that page can read it there."""
    return keys.derived("the demo's buttons").hex()[:32]


def visitors(edge: Edge) -> Guard:
    """Somebody at this machine, with the demo's token."""

    async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
        await at_home(connection, handler)
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not compare_digest(token.encode(errors="replace"), wanted):
            raise BadToken("It takes the token that `notifier demo` printed.")

    wanted = demo_token(edge.keys).encode()
    return guard


def operators(edge: Edge) -> Guard:
    """Services that operate; in a demo its visitors, too."""
    only_services, only_visitors = services(edge, Scope.OPERATE), visitors(edge)

    async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
        if edge.system.settings.demo:
            with suppress(BadToken, Forbidden):
                return await only_visitors(connection, handler)
        return await only_services(connection, handler)

    return guard


async def takes_plain(connection: Connection, _: BaseRouteHandler) -> None:
    """Nothing is unpacked: 64 KiB that were compressed may be any size, and sizes are judged as they are sent."""
    if connection.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise WrongType("It takes bodies that aren't compressed.")


async def takes_json(connection: Connection, handler: BaseRouteHandler) -> None:
    await takes_plain(connection, handler)
    if media_type(connection) != "application/json":
        raise WrongType("It takes application/json.")


def media_type(connection: Connection) -> str:
    """Without its parameters."""
    return connection.headers.get("content-type", "").partition(";")[0].strip().lower()


def _names_loopback(address: str) -> bool:
    try:
        name = urlsplit(address).hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def _is_loopback(connection: Connection) -> bool:
    try:
        return connection.client is not None and ip_address(connection.client.host).is_loopback
    except ValueError:  # a name or a path instead of an address
        return False
