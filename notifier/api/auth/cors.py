"""CORS: lets configured origins use user routes and the inbox element's files.

A browser lets a page read a response from another origin only if the response allows it. The API uses no cookies: a
request carries the user's token in a header, so a page without a token learns nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

SHARED_PATHS = (
    *("/v1/inbox", "/v1/subjects", "/v1/preferences", "/v1/devices"),
    *("/static/notifier-inbox", "/static/notifier-inbox.js"),
)
"""Paths that other origins may use, with all subpaths."""
ALLOWED_METHODS = "GET, PUT, PATCH, DELETE"
ALLOWED_HEADERS = "Authorization, Content-Type, If-None-Match, Last-Event-ID"
"""Request headers of the inbox element that need permission."""
EXPOSED_HEADERS = "ETag, Link, RateLimit, RateLimit-Policy, Retry-After, WWW-Authenticate, X-Poll-Interval"
"""Response headers that a page of another origin may read. Some are for other clients than the inbox element."""
PREFLIGHT_MAX_AGE = timedelta(hours=2)
"""How long a browser may cache a preflight response. Chromium accepts no more."""
VARY_HEADER = (b"vary", b"Origin")
"""Sent with every response of the shared paths, so that no cache serves one origin's response to another origin."""

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class CorsMiddleware:
    """ASGI middleware around the whole application, so that pages can also read its error responses."""

    app: ASGIApp
    allowed_origins: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or not is_shared_path(scope["path"]):
            return await self.app(scope, receive, send)
        origin = _header(scope, b"origin")
        access_headers = _access_headers(origin) if origin in self.allowed_origins else []
        if access_headers and scope["method"] == "OPTIONS" and _header(scope, b"access-control-request-method"):
            return await _send_preflight(send, access_headers)

        async def send_with_cors(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *access_headers, VARY_HEADER]
            await send(message)

        return await self.app(scope, receive, send_with_cors)


def with_cors(app: ASGIApp, origins: str) -> ASGIApp:
    """Add CORS for the comma-separated origins."""
    return CorsMiddleware(app, frozenset(origins.split(","))) if origins else app


def is_shared_path(path: str) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in SHARED_PATHS)


def _access_headers(origin: str) -> Headers:
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", EXPOSED_HEADERS.encode()),
    ]


async def _send_preflight(send: Send, access_headers: Headers) -> None:
    """Answer a preflight request, without asking for a token: the answer contains no data."""
    headers = [
        *access_headers,
        (b"access-control-allow-methods", ALLOWED_METHODS.encode()),
        (b"access-control-allow-headers", ALLOWED_HEADERS.encode()),
        (b"access-control-max-age", b"%d" % PREFLIGHT_MAX_AGE.total_seconds()),
        VARY_HEADER,
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _header(scope: HTTPScope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name), "")
