"""`/v1/subjects`: the bursts of one subject that a client missed."""

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote, unquote

import msgspec
from litestar import Response, get
from litestar.enums import ScopeType
from litestar.params import FromPath, QueryParameter
from litestar.types import ASGIApp, Receive, Scope, Send

from notifier.api.container import UserRequest, WiredContainer
from notifier.api.problems import problem_responses
from notifier.api.response_parts import Cursor, Limit, conditional_response, etag, next_link, page_headers
from notifier.api.schemas.inbox_items import ItemBody, item_body
from notifier.domain.errors import Refused
from notifier.domain.ids import Subject
from notifier.flow.inbox.gap_fetch import MAX_SEQ, SeqRange

PATH_PREFIX = "/v1/subjects/"

FromSeq = Annotated[int, QueryParameter(name="from", ge=0, le=MAX_SEQ)]
ToSeq = Annotated[int | None, QueryParameter(name="to", ge=0, le=MAX_SEQ)]


class BurstsBody(msgspec.Struct, kw_only=True):
    """Items of one subject. `next` is the cursor of the next page.

    `partial` means that the store did not answer in time, so items may be missing.
    """

    items: list[ItemBody]
    next: str | None
    partial: bool


@get("/{subject:str}/bursts", responses=problem_responses(400, 401, 403, 404, 429, 503))
async def bursts(
    *,
    subject: FromPath[str],
    request: UserRequest,
    container: WiredContainer,
    first: FromSeq,
    last: ToSeq = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response[BurstsBody | None]:
    """Return the subject's items from one `seq` to another, both inclusive, newest first.

    The list is empty if the subject does not exist or has no items for this user.
    """
    user, parsed_subject = request.user, Subject.parse(unquote(subject))
    if last is not None and first > last:
        raise Refused("from: must not be greater than `to`.")
    after = container.opaque_ids.gap_position(user, parsed_subject, cursor) if cursor is not None else None
    seqs = SeqRange(first=first, last=last)
    page = await container.gap_fetch.fetch(user, parsed_subject, seqs, after=after, limit=limit)
    body = BurstsBody(
        items=[item_body(item, container.opaque_ids.id(user, item.entry.key), page.view.now) for item in page.items],
        next=container.opaque_ids.gap_cursor(user, page.next) if page.next else None,
        partial=page.partial,
    )
    # The tag excludes the cursor, which can change while the viewer's items stay the same.
    content = msgspec.json.encode((user, body.items, body.partial, body.next is None))
    headers = page_headers(etag(content, weak=True))
    if body.next:
        path = f"{PATH_PREFIX}{quote(str(parsed_subject), safe='')}/bursts"
        headers["Link"] = next_link(path, from_=first, to=last, limit=limit, cursor=body.next)
    return conditional_response(request, body, headers)


@dataclass(frozen=True, slots=True)
class RawSubjectPaths:
    """ASGI middleware that makes the router use the raw path of `/v1/subjects/…`.

    User ids may contain slashes: in the decoded path, `mention%3Aa%2Fb` would be two segments.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP and scope["path"].startswith(PATH_PREFIX):
            scope["path"] = scope["raw_path"].partition(b"?")[0].decode("latin-1")
        await self.app(scope, receive, send)
