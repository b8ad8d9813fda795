"""Route guards: authenticate, authorize and meter requests before reading their bodies."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from hmac import compare_digest
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from notifier.api.auth.authenticators import Authenticator, InsecureAuthenticator
from notifier.api.auth.service_and_installation_keys import Scope, demo_token
from notifier.api.container import ApiContainer
from notifier.domain.errors import BadToken, Forbidden, TooManyRequests, WrongType
from notifier.domain.token_bucket import RequestLimit, whole_seconds

READ_METHODS = ("GET", "HEAD")
METERING_RESULT_KEY = "notifier.metering_result"
"""Key in the request scope under which the fast path (fast_inbox.py) leaves the result of `RequestMeter.take`.

The route's guard then does not count the request again.
"""
INBOX_PATH = "/v1/inbox"
"""Requests below this path start no warm-up (a read of the inbox in advance): most of them read the inbox anyway."""
ALLOWANCE_KEY = "allowance"
"""Key in the request state under which a guard leaves the caller's remaining allowance, for the `RateLimit` headers."""

Connection = ASGIConnection[Any, Any, Any, Any]
Guard = Callable[[Connection, BaseRouteHandler], Awaitable[None]]


def allow_services(container: ApiContainer, *scopes: Scope) -> Guard:
    """Allow services that have at least one of the scopes. Sets `request.user` to the caller."""

    async def guard(connection: Connection, _: BaseRouteHandler) -> None:
        authenticator = await _authenticator_for(container, connection)
        caller = await authenticator.service_caller(connection.headers.get("authorization"), container.clock.now())
        caller.require(*scopes)
        _meter(container, connection, container.request_meter.service_limit, caller.key_id)
        connection.scope["user"] = caller

    return guard


def allow_users(container: ApiContainer) -> Guard:
    """Allow users. Sets `request.user` to the user and `request.auth` to the time from which the token is invalid."""

    async def guard(connection: Connection, _: BaseRouteHandler) -> None:
        authenticator, now = await _authenticator_for(container, connection), container.clock.now()
        authorization = connection.headers.get("authorization")
        is_new_token = not container.authenticator.has_verified(authorization, now)
        holder = await authenticator.user(authorization, now)
        _meter(container, connection, _user_limit(container, connection), holder.user)
        if is_new_token and not connection.url.path.startswith(INBOX_PATH):
            container.warm_up.add(holder.user)
        connection.scope["user"], connection.scope["auth"] = holder.user, holder.ends_at

    return guard


async def _authenticator_for(container: ApiContainer, connection: Connection) -> Authenticator | InsecureAuthenticator:
    """Return the insecure authenticator in `--insecure-dev` mode, for local requests without a foreign Origin or Host.

    A page of another site must not be able to act as a user.
    """
    if container.system.settings.insecure_dev:
        with suppress(Forbidden):
            await require_loopback(connection)
            return InsecureAuthenticator(container.authenticator)
    return container.authenticator


def _user_limit(container: ApiContainer, connection: Connection) -> RequestLimit | None:
    return (
        container.request_meter.read_limit
        if connection.scope.get("method") in READ_METHODS
        else container.request_meter.write_limit
    )


def _meter(container: ApiContainer, connection: Connection, limit: RequestLimit | None, caller: str) -> None:
    """Count the request against the limit. Raises TooManyRequests."""
    if limit is None:
        return
    granted, allowance = connection.scope.pop(METERING_RESULT_KEY, None) or container.request_meter.take(limit, caller)  # type: ignore[misc] # our own key
    connection.scope["state"][ALLOWANCE_KEY] = allowance
    if not granted:
        detail = f"The limit is {limit.max_requests} {limit.name} in {whole_seconds(limit.window)} seconds."
        raise TooManyRequests(detail, allowance.retry_after)


def allow_loopback_or_services(container: ApiContainer) -> Guard:
    """Allow loopback requests with a local Host, and otherwise services with the metrics scope.

    Without the check of Host, a page in a local browser could read the response (DNS rebinding).
    """
    only_services = allow_services(container, Scope.METRICS)

    async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
        if not (_is_loopback(connection) and _names_loopback(f"//{connection.headers.get('host', '')}")):
            await only_services(connection, handler)

    return guard


async def require_loopback(connection: Connection, _: BaseRouteHandler | None = None) -> None:
    """Allow only requests from this machine. Raises Forbidden.

    Also rejects a foreign Origin or Host, with which a page in a local browser could attack (DNS rebinding).
    """
    host = connection.headers.get("host", "")
    if not (_is_loopback(connection) and _names_loopback(f"//{host}")):
        raise Forbidden("The demo only accepts requests from this machine: open it as localhost or 127.0.0.1.")
    origin = connection.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        raise Forbidden("The demo does not accept requests from other pages.")


def allow_demo_visitors(container: ApiContainer) -> Guard:
    """Allow requests from this machine that carry the demo's token."""

    async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
        await require_loopback(connection, handler)
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not compare_digest(token.encode(errors="replace"), expected):
            raise BadToken("Use the token that `notifier demo` printed.")

    expected = demo_token(container.keys).encode()
    return guard


def allow_operators(container: ApiContainer) -> Guard:
    """Allow services with the operate scope and, in a demo, its visitors."""
    only_services, only_visitors = allow_services(container, Scope.OPERATE), allow_demo_visitors(container)

    async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
        if container.system.settings.demo:
            with suppress(BadToken, Forbidden):
                return await only_visitors(connection, handler)
        return await only_services(connection, handler)

    return guard


async def require_uncompressed(connection: Connection, _: BaseRouteHandler) -> None:
    """Reject compressed bodies with WrongType.

    Size limits apply to the body as sent, and compressed data can decompress to a thousand times its size.
    """
    if connection.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise WrongType("Compressed bodies are not accepted.")


async def require_json(connection: Connection, handler: BaseRouteHandler) -> None:
    """Reject bodies that are compressed or not JSON, with WrongType."""
    await require_uncompressed(connection, handler)
    if media_type(connection) != "application/json":
        raise WrongType("The content type must be application/json.")


def media_type(connection: Connection) -> str:
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
