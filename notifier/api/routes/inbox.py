"""`/v1/inbox`: a user's inbox pages, badge and marks."""

import msgspec
from litestar import Response, get, put
from litestar.params import JSONBody

from notifier.api.auth.guards import require_json
from notifier.api.container import UserRequest, WiredContainer
from notifier.api.problems import problem_responses
from notifier.api.response_parts import (
    DEFAULT_PAGE_SIZE,
    PAGE_HEADERS,
    PRIVATE_HEADERS,
    Cursor,
    Limit,
    conditional_response,
    next_link,
    page_headers,
    pre_encoded,
)
from notifier.api.schemas.inbox_items import ItemBody
from notifier.domain.errors import BadMark
from notifier.domain.users.visibility import Mark
from notifier.flow.inbox.page import Badge

UNREAD_HEADERS = {**PRIVATE_HEADERS, "X-Poll-Interval": PAGE_HEADERS["X-Poll-Interval"]}
MAX_BODY_BYTES = 64 * 1024
MAX_MARKED_BURSTS = 100
"""Maximum bursts per request: as many as the largest page shows."""

FAST_PATH_ERROR_KEY = "notifier.failed"
"""Key in the request scope under which the fast path (fast_inbox.py) leaves an error of the store.

The route then raises the error without reading the store again.
"""


class BadgeBody(msgspec.Struct, kw_only=True):
    """Number of unread items. `more` means that further unread items were not counted."""

    count: int
    more: bool


class InboxBody(msgspec.Struct, kw_only=True):
    """A page of the inbox.

    - `next` is the cursor of the next page.
    - `seen` is the token for `PUT /v1/inbox/seen`; null on a partial page.
    - `live` is the `Last-Event-ID` with which a stream continues from this page. Only a complete first page has one.
    - `badge` is null on a partial page, and if the store failed before the unread items were counted.
    - `partial` means that the store did not answer in time, so items may be missing.
    """

    items: list[ItemBody]
    next: str | None
    seen: str | None
    live: str | None
    badge: BadgeBody | None
    partial: bool


class Seen(msgspec.Struct, kw_only=True):
    """The `seen` token of a page."""

    token: str


class Marking(msgspec.Struct, kw_only=True):
    """Up to 100 items, by their `burst`, and their new mark: `read`, `unread`, `hidden`, or `none` to remove a mark."""

    bursts: list[str]
    mark: str


@get("/", responses=problem_responses(400, 401, 403, 404, 429, 503))
async def page(
    request: UserRequest, container: WiredContainer, cursor: Cursor = None, limit: Limit = DEFAULT_PAGE_SIZE
) -> Response[InboxBody | None]:
    """Return a page of the inbox, newest item first, and the badge of the same moment."""
    _raise_fast_path_error(request)
    user = request.user
    after = container.opaque_ids.inbox_position(user, cursor) if cursor is not None else None
    started_at = container.clock.now()
    try:
        answer = await container.inbox.open(user, after=after, limit=limit)
    finally:
        container.page_latency.record(started_at)
    if after is None:
        rendered = container.renderer.first_page(user, answer)
    else:
        rendered = container.renderer.page(user, answer.page, answer.badge, is_first_page=False)
    headers = page_headers(rendered.tag)
    if rendered.next is not None:
        cursor = rendered.next.strip(b'"').decode()
        headers["Link"] = next_link(request.url.path.rstrip("/"), cursor=cursor, limit=limit)
    return conditional_response(request, pre_encoded(InboxBody, rendered.body), headers)


@get("/unread", responses=problem_responses(401, 403, 404, 429, 503))
async def unread(request: UserRequest, container: WiredContainer) -> Response[BadgeBody]:
    """Return the number of unread items."""
    _raise_fast_path_error(request)
    badge = await container.inbox.badge(request.user)
    return Response(badge_body(badge), headers=UNREAD_HEADERS)


@put(
    "/seen",
    status_code=204,
    guards=[require_json],
    request_max_body_size=MAX_BODY_BYTES,
    responses=problem_responses(400, 401, 403, 404, 413, 415, 429, 503, 507),
)
async def seen(request: UserRequest, container: WiredContainer, data: JSONBody[Seen]) -> None:
    """Mark as seen the items of this token's page, and all that opened more than 5 s before it."""
    await container.inbox.see(request.user, container.opaque_ids.seen_token(request.user, data.token))
    container.hub.publish_marks(request.user)


@put(
    "/marks",
    status_code=204,
    guards=[require_json],
    request_max_body_size=MAX_BODY_BYTES,
    responses=problem_responses(400, 401, 403, 404, 413, 415, 429, 503, 507),
)
async def marks(request: UserRequest, container: WiredContainer, data: JSONBody[Marking]) -> None:
    """Mark items as read, unread or hidden, or remove their marks."""
    if data.mark not in set(Mark):
        raise BadMark(f"Invalid mark: {data.mark!r}."[:80])
    if not 0 < len(data.bursts) <= MAX_MARKED_BURSTS:
        raise BadMark(f"Send 1 to {MAX_MARKED_BURSTS} bursts.")
    bursts = [container.opaque_ids.burst(request.user, id) for id in dict.fromkeys(data.bursts)]
    await container.inbox.mark(request.user, bursts, Mark(data.mark))
    container.hub.publish_marks(request.user, bursts)


def _raise_fast_path_error(request: UserRequest) -> None:
    # Remove the error from the scope, because the error's traceback refers to the scope (a reference cycle).
    if (error := request.scope.pop(FAST_PATH_ERROR_KEY, None)) is not None:  # type: ignore[misc] # our own key
        raise error


def badge_body(badge: Badge) -> BadgeBody:
    return BadgeBody(count=badge.count, more=badge.more)
