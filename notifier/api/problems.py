"""Error responses (RFC 9457), and the mapping from errors to HTTP statuses."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.datastructures import MutableScopeHeaders
from litestar.enums import ScopeType
from litestar.exceptions import HTTPException
from litestar.openapi.datastructures import ResponseSpec
from litestar.types import ASGIApp, ExceptionHandlersMap, Message, Receive, Scope, Send

from notifier.api.auth.guards import ALLOWANCE_KEY
from notifier.api.response_parts import NO_STORE_HEADERS
from notifier.domain import errors
from notifier.domain.errors import NotifierError
from notifier.domain.token_bucket import RequestAllowance, whole_seconds

LOGGER = logging.getLogger("notifier.api")

MEDIA_TYPE = "application/problem+json"


class NoSuchMethod(errors.Refused):
    """The route exists, but not with this method."""

    code = "method_not_allowed"


STATUSES: Mapping[type[NotifierError], int] = {
    errors.WrongType: 415,
    errors.TooLarge: 413,
    errors.EventConflict: 409,
    errors.NotFound: 404,
    NoSuchMethod: 405,
    errors.BadSeenToken: 400,
    errors.BadToken: 401,
    errors.Forbidden: 403,
    errors.TooManyStreams: 429,
    errors.TooManyRequests: 429,
    errors.Refused: 400,
    errors.Unavailable: 503,
    errors.DiskFull: 507,
    NotifierError: 500,
}
"""An error class that is not listed has the status of its nearest listed base class."""

STATUS_HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": 'Bearer realm="notifier"'},
    429: {"Retry-After": "10"},
    503: {"Retry-After": "1"},
    507: {"Retry-After": "10"},
}
"""Headers of a problem, by its status. The `retry_after` of an error replaces `Retry-After`."""


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Error response in the format of RFC 9457. Match on `code`, which is stable; the texts may change."""

    type: str
    title: str
    status: int
    code: str
    detail: str = ""


def status_of(error: NotifierError) -> int:
    return next(STATUSES[error_type] for error_type in type(error).__mro__ if error_type in STATUSES)


def problem_body(error: NotifierError) -> Problem:
    status = status_of(error)
    return Problem(
        type=f"/problems/{error.code}",
        title=error.title,
        status=status,
        code=error.code,
        # Details of internal errors belong in the log only.
        detail=error.detail if status != STATUSES[NotifierError] else "",
    )


def problem_responses(*statuses: int) -> dict[int, ResponseSpec]:
    """Return the OpenAPI descriptions of the problem responses with these statuses."""
    titles = {status: (error_type.__doc__ or "").split("\n")[0] for error_type, status in STATUSES.items()}
    return {
        status: ResponseSpec(Problem, description=titles[status], media_type=MEDIA_TYPE, generate_examples=False)
        for status in statuses
    }


def _problem_response(error: NotifierError, headers: Mapping[str, str] | None = None) -> Response[Problem]:
    body = problem_body(error)
    response_headers = {**STATUS_HEADERS.get(body.status, {}), **(headers or {}), **NO_STORE_HEADERS}
    return Response(body, status_code=body.status, media_type=MEDIA_TYPE, headers=response_headers)


def on_notifier_error(request: Request[Any, Any, Any], error: NotifierError) -> Response[Problem]:
    if status_of(error) == STATUSES[NotifierError]:
        LOGGER.error("%s %s failed", request.method, request.url.path, exc_info=error)
    if error.retry_after is not None:
        return _problem_response(error, {"Retry-After": str(whole_seconds(error.retry_after))})
    return _problem_response(error)


def on_http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    match error.status_code:
        case 404:
            return _problem_response(errors.NotFound("Unknown route."))
        case 405:
            return _problem_response(NoSuchMethod(), error.headers)
        case 413:
            return _problem_response(errors.TooLarge())
        case 415:
            return _problem_response(errors.WrongType())
        case status if status < STATUSES[NotifierError]:
            return _problem_response(errors.Refused(_field_messages(error)))
        case _:
            return on_unexpected_error(request, error)


def on_unexpected_error(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    LOGGER.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _problem_response(NotifierError())


def on_recursion_error(_: Request[Any, Any, Any], __: RecursionError) -> Response[Problem]:
    """Blame the body for too deep a recursion: nothing else in the API recurses deeply."""
    return _problem_response(errors.Refused("The body is nested too deeply."))


def _field_messages(error: HTTPException) -> str:
    """Return what is wrong with each invalid field. The framework's own message would quote the whole URL."""
    faults: Sequence[Mapping[str, str]] = error.extra if isinstance(error.extra, list) else ()
    return " ".join(f"{fault.get('key', 'The body')}: {fault['message']}." for fault in faults if "message" in fault)


EXCEPTION_HANDLERS: ExceptionHandlersMap = {
    NotifierError: on_notifier_error,
    HTTPException: on_http_error,
    RecursionError: on_recursion_error,
    Exception: on_unexpected_error,
}


# Security headers, and headers with the caller's remaining allowance.

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
"""Headers that make a browser treat a response as data. Our own pages have a content policy that allows scripts.

Responses may contain text of other users, which must never run as a script.
"""


@dataclass(frozen=True, slots=True)
class ResponseHeaders:
    """ASGI middleware that adds security headers, and `RateLimit` headers if the request was metered."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            return await self.app(scope, receive, send)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableScopeHeaders.from_message(message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                for name, value in limit_headers(scope["state"].get(ALLOWANCE_KEY)):
                    headers[name] = value
            await send(message)

        return await self.app(scope, receive, send_with_headers)


def limit_headers(allowance: RequestAllowance | None) -> list[tuple[str, str]]:
    """Return the `RateLimit` headers. They let a client slow down before its requests are rejected."""
    if allowance is None:
        return []
    policy = f'"{allowance.limit.name}";q={allowance.limit.max_requests};w={whole_seconds(allowance.limit.window)}'
    rate = f'"{allowance.limit.name}";r={allowance.remaining};t={whole_seconds(allowance.full_after)}'
    return [("RateLimit-Policy", policy), ("RateLimit", rate)]
