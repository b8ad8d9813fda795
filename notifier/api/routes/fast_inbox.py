"""ASGI fast path for the first inbox page and the unread count.

It bypasses the framework, which takes a third of a page's time. Requests with a query, and those that the fast path
can't answer, go to the routes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPResponseBodyEvent, HTTPResponseStartEvent, HTTPScope, Receive, Scope, Send

from notifier.api.auth.authenticators import Authenticator
from notifier.api.auth.guards import METERING_RESULT_KEY
from notifier.api.container import ApiContainer
from notifier.api.problems import SECURITY_HEADERS, limit_headers
from notifier.api.response_parts import DEFAULT_PAGE_SIZE, PAGE_HEADERS, matches_etag
from notifier.api.routes.inbox import FAST_PATH_ERROR_KEY, UNREAD_HEADERS
from notifier.api.schemas.page_rendering import RenderedPage, badge_json
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import UserId
from notifier.domain.token_bucket import RequestAllowance

PAGE_PATH, UNREAD_PATH = "/v1/inbox", "/v1/inbox/unread"

Header = tuple[bytes, bytes]
HttpResponse = tuple[int, list[Header], bytes]
"""Status, headers and body of a response."""


def _encoded(headers: Iterable[tuple[str, str]]) -> list[Header]:
    return [(name.lower().encode(), value.encode()) for name, value in headers]


_JSON_TYPE = (b"content-type", b"application/json")
_PAGE_HEADERS = [*_encoded(PAGE_HEADERS.items()), *_encoded(SECURITY_HEADERS.items())]
_UNREAD_HEADERS = [*_encoded(UNREAD_HEADERS.items()), *_encoded(SECURITY_HEADERS.items())]


@dataclass(frozen=True, slots=True)
class FastInbox:
    """ASGI middleware that answers the two requests itself if it can, and passes all others to `routes`."""

    routes: ASGIApp
    container: ApiContainer
    authenticator: Authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP and _is_fast_path_request(scope) and await self._try_answer(scope, send):
            return
        await self.routes(scope, receive, send)

    async def _try_answer(self, scope: HTTPScope, send: Send) -> bool:
        """Answer the request. Return False, without an answer, if the routes must answer."""
        authorization = if_none_match = None
        for name, value in scope["headers"]:
            if name == b"authorization":
                if authorization is not None:  # sent twice: the routes decide which value counts
                    return False
                authorization = value.decode("latin-1")
            elif name == b"if-none-match":
                if_none_match = value.decode("latin-1")
        if authorization is None:
            return False
        try:
            holder = await self.authenticator.user(authorization, self.container.clock.now())
            limit = self.container.request_meter.read_limit
            allowance = None
            if limit is not None:
                granted, allowance = self.container.request_meter.take(limit, holder.user)
                scope[METERING_RESULT_KEY] = granted, allowance  # type: ignore[literal-required] # our own key
                if not granted:
                    return False
            if scope["path"] == PAGE_PATH:
                response = await self._page(holder.user, if_none_match, allowance)
            else:
                response = await self._unread(holder.user, allowance)
        except StoreUnavailable as error:  # the routes report this error without reading the store again
            scope[FAST_PATH_ERROR_KEY] = error  # type: ignore[literal-required] # our own key
            return False
        except Exception:  # the routes repeat the request, and report the error
            return False
        await _send(send, *response)
        return True

    async def _page(self, user: UserId, if_none_match: str | None, allowance: RequestAllowance | None) -> HttpResponse:
        started_at = self.container.clock.now()
        try:
            answer = await self.container.inbox.open(user, limit=DEFAULT_PAGE_SIZE)
        finally:
            self.container.page_latency.record(started_at)
        rendered = self.container.renderer.first_page(user, answer)
        headers = [(b"etag", rendered.tag.encode()), *_PAGE_HEADERS, *_encoded(limit_headers(allowance))]
        if rendered.next is not None:
            headers.append((b"link", _link(rendered)))
        if if_none_match is not None and matches_etag(if_none_match, rendered.tag):
            return 304, headers, b""
        return 200, headers, rendered.body

    async def _unread(self, user: UserId, allowance: RequestAllowance | None) -> HttpResponse:
        badge = await self.container.inbox.badge(user)
        return 200, [*_UNREAD_HEADERS, *_encoded(limit_headers(allowance))], badge_json(badge)


def _is_fast_path_request(scope: HTTPScope) -> bool:
    return scope["method"] == "GET" and scope["path"] in (PAGE_PATH, UNREAD_PATH) and not scope["query_string"]


def _link(rendered: RenderedPage) -> bytes:
    assert rendered.next is not None
    return b'<%s?cursor=%s&limit=%d>; rel="next"' % (PAGE_PATH.encode(), rendered.next.strip(b'"'), DEFAULT_PAGE_SIZE)


async def _send(send: Send, status: int, headers: list[Header], body: bytes) -> None:
    if status != 304:
        headers += [_JSON_TYPE, (b"content-length", b"%d" % len(body))]
    start: HTTPResponseStartEvent = {"type": "http.response.start", "status": status, "headers": headers}
    await send(start)
    end: HTTPResponseBodyEvent = {"type": "http.response.body", "body": body, "more_body": False}
    await send(end)
