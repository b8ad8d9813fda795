"""Pages of other origins: the named ones may ask for what is a person's own and the element's files, and nothing else.

A browser lets a page read what another origin answers only where the answer says so. Cookies never come into it: who
asks brings a person's token in a header, and a page that has none learns nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

SHARED = (
    *("/v1/inbox", "/v1/subjects", "/v1/preferences", "/v1/devices"),
    *("/static/notifier-inbox", "/static/notifier-inbox.js"),
)
"""Each with what is below it. What services, operators and the demo use is for no browser on another page."""
METHODS = "GET, PUT, PATCH, DELETE"
SENT = "Authorization, Content-Type, If-None-Match, Last-Event-ID"
"""What the element sends beyond what any page may send."""
READ = "ETag, Link, RateLimit, RateLimit-Policy, Retry-After, WWW-Authenticate, X-Poll-Interval"
"""What it reads beyond what any page may read."""
REMEMBERED = timedelta(hours=2)
"""How long a browser needn't ask again whether it may; the longest that Chromium heeds."""
VARIES = (b"vary", b"Origin")
"""Also where nobody is granted anything: no cache gives one page's answer to another."""

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Origins:
    """Around the whole application, so that its refusals can be read as well: an expired token, or that it is full."""

    app: ASGIApp
    named: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or not shared(scope["path"]):
            return await self.app(scope, receive, send)
        origin = _header(scope, b"origin")
        granted = _granted(origin) if origin in self.named else []
        if granted and scope["method"] == "OPTIONS" and _header(scope, b"access-control-request-method"):
            return await _may(send, granted)

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *granted, VARIES]
            await send(message)

        return await self.app(scope, receive, marked)


def origins(app: ASGIApp, setting: str) -> ASGIApp:
    """The application as it is where no origin is named."""
    return Origins(app, frozenset(setting.split(","))) if setting else app


def shared(path: str) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in SHARED)


def _granted(origin: str) -> Headers:
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", READ.encode()),
    ]


async def _may(send: Send, granted: Headers) -> None:
    """The answer to a browser that asks before it sends; of no use to anybody else, and so without a token."""
    headers = [
        *granted,
        (b"access-control-allow-methods", METHODS.encode()),
        (b"access-control-allow-headers", SENT.encode()),
        (b"access-control-max-age", b"%d" % REMEMBERED.total_seconds()),
        VARIES,
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _header(scope: HTTPScope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name), "")
