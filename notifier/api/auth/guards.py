"""Route guards: authenticate, authorize and meter a request before its body is read."""

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
"""Key in the request scope: the result of metering that happened before the routes, and the remaining limit."""
INBOX = "/v1/inbox"
"""Requests for the inbox need no warm-up, because they load it themselves."""
LEFT = "left"
"""Key in the request state: the caller's remaining limit."""

Connection = ASGIConnection[Any, Any, Any, Any]
Guard = Callable[[Connection, BaseRouteHandler], Awaitable[None]]


def services(edge: Edge, *scopes: Scope) -> Guard:
    """Allow services that have at least one of the scopes. Sets `request.user` to the caller."""

    async def guard(connection: Connection, _: BaseRouteHandler) -> None:
        identity = await _asked(edge, connection)
        caller = await identity.service(connection.headers.get("authorization"), edge.clock.now())
        caller.require(*scopes)
        _meter(edge, connection, edge.metering.requests, caller.key)
        connection.scope["user"] = caller

    return guard


def people(edge: Edge) -> Guard:
    """Allow users. Sets `request.user` to the user and `request.auth` to the time when the token expires."""

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
    """Return the identity that authenticates the request.

    The insecure one requires the setting and a request from this machine. It excludes foreign pages, because a page in
    a local browser can send requests from this machine too.
    """
    if edge.system.settings.insecure_dev:
        with suppress(Forbidden):
            await at_home(connection)
            return Insecure(edge.identity)
    return edge.identity


def _of_people(edge: Edge, connection: Connection) -> RequestLimit | None:
    return edge.metering.reads if connection.scope.get("method") in READING else edge.metering.writes


def _meter(edge: Edge, connection: Connection, limit: RequestLimit | None, who: str) -> None:
    """Count the request against the limit. Raises TooManyRequests.

    The response reports the remaining limit even if the request fails for another reason.
    """
    if limit is None:
        return
    granted, left = connection.scope.pop(PREPAID, None) or edge.metering.take(limit, who)  # type: ignore[misc] # our own key
    connection.scope["state"][LEFT] = left
    if not granted:
        detail = f"{limit.most} {limit.name} in {seconds(limit.window)} seconds are the limit."
        raise TooManyRequests(detail, left.again_after)


def neighbours_or_services(edge: Edge) -> Guard:
    """Allow loopback requests, and services with the metrics scope from elsewhere.

    The Host header must be a loopback name too. Otherwise a foreign page could use DNS rebinding: it points its own
    name at this machine.
    """
    only_services = services(edge, Scope.METRICS)

    async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
        if not (_is_loopback(connection) and _names_loopback(f"//{connection.headers.get('host', '')}")):
            await only_services(connection, handler)

    return guard


async def at_home(connection: Connection, _: BaseRouteHandler | None = None) -> None:
    """Allow only requests from this machine that were not made by a foreign page in a local browser.

    A foreign page's request has a different Origin. After DNS rebinding it has a different Host. Raises Forbidden.
    """
    host = connection.headers.get("host", "")
    if not (_is_loopback(connection) and _names_loopback(f"//{host}")):
        raise Forbidden("The demo is for this machine alone: open it as localhost or 127.0.0.1.")
    origin = connection.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        raise Forbidden("The demo takes no requests from other pages.")


def demo_token(keys: Keys) -> str:
    """Return the token for the buttons of the demo page. The page contains it, so every visitor of the page has it."""
    return keys.derived("the demo's buttons").hex()[:32]


def visitors(edge: Edge) -> Guard:
    """Allow requests from this machine that carry the demo's token."""

    async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
        await at_home(connection, handler)
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not compare_digest(token.encode(errors="replace"), wanted):
            raise BadToken("It takes the token that `notifier demo` printed.")

    wanted = demo_token(edge.keys).encode()
    return guard


def operators(edge: Edge) -> Guard:
    """Allow services with the operate scope and, in a demo, its visitors."""
    only_services, only_visitors = services(edge, Scope.OPERATE), visitors(edge)

    async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
        if edge.system.settings.demo:
            with suppress(BadToken, Forbidden):
                return await only_visitors(connection, handler)
        return await only_services(connection, handler)

    return guard


async def takes_plain(connection: Connection, _: BaseRouteHandler) -> None:
    """Reject compressed bodies with WrongType.

    Size limits apply to the body as sent, and 64 KiB of compressed data can decompress to any size.
    """
    if connection.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise WrongType("It takes bodies that aren't compressed.")


async def takes_json(connection: Connection, handler: BaseRouteHandler) -> None:
    """Reject compressed bodies and bodies of another type than JSON with WrongType."""
    await takes_plain(connection, handler)
    if media_type(connection) != "application/json":
        raise WrongType("It takes application/json.")


def media_type(connection: Connection) -> str:
    """Return the media type of the request without its parameters."""
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
    except ValueError:  # the client has a name or a socket path instead of an address
        return False
