"""Headers of every answer: no browser takes one for a page, unless it is one of ours, and what is left of a limit."""

from dataclasses import dataclass

from litestar.datastructures import MutableScopeHeaders
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from notifier.api.auth.guards import LEFT
from notifier.domain.token_bucket import RequestAllowance, seconds

NO_PAGE = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
"""Unless the answer says otherwise, as our own pages do. An answer that carries strangers' words is never a page."""


@dataclass(frozen=True, slots=True)
class AnswerHeaders:
    """Around the routes, refusals included."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            return await self.app(scope, receive, send)

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableScopeHeaders.from_message(message)
                for name, value in NO_PAGE.items():
                    headers.setdefault(name, value)
                for name, value in limit_headers(scope["state"].get(LEFT)):
                    headers[name] = value
            await send(message)

        return await self.app(scope, receive, complete)


def limit_headers(left: RequestAllowance | None) -> list[tuple[str, str]]:
    """What is left of the caller's limit, so that a client can slow down before it is refused."""
    if left is None:
        return []
    policy = f'"{left.limit.name}";q={left.limit.most};w={seconds(left.limit.window)}'
    rate = f'"{left.limit.name}";r={left.left};t={seconds(left.full_after)}'
    return [("RateLimit-Policy", policy), ("RateLimit", rate)]
