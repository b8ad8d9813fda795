"""Parts of responses: headers, pre-encoded JSON, ETags, and pages with a cursor."""

from collections.abc import Mapping
from datetime import timedelta
from hashlib import blake2b
from typing import Annotated, Any, TypeVar, cast
from urllib.parse import urlencode

from litestar import Request, Response
from litestar.params import QueryParameter

T = TypeVar("T")

JSON = "application/json"
NO_STORE_HEADERS = {"Cache-Control": "no-store"}
PRIVATE_HEADERS = {"Cache-Control": "private, no-store"}
"""Headers of a response with data of one user. Pages of items have PAGE_HEADERS instead."""

POLL_INTERVAL = timedelta(seconds=30)
"""Interval at which a client without a live stream should reload its page."""
PAGE_HEADERS = {
    "Cache-Control": "private, no-cache",
    "Vary": "Authorization",
    "X-Poll-Interval": str(int(POLL_INTERVAL.total_seconds())),
}
"""Headers of a page of one user, besides its `ETag`."""


def page_headers(tag: str) -> dict[str, str]:
    return {"ETag": tag, **PAGE_HEADERS}


def pre_encoded(body_type: type[T], json: bytes) -> T:
    """Return the JSON itself, but with the type of the body that it encodes.

    The type is for OpenAPI. The framework sends bytes unchanged; the caller must set the media type JSON.
    """
    return cast("T", json)


# ETags (RFC 9110, section 8.8.3).


def etag(content: bytes, *, weak: bool = False) -> str:
    """Return the tag of the content. A weak tag may be shared by responses with insignificant differences."""
    tag = f'"{blake2b(content, digest_size=12).hexdigest()}"'
    return f"W/{tag}" if weak else tag


def matches_etag(if_none_match: str, tag: str) -> bool:
    """Return whether the value of `If-None-Match` contains this tag, by weak comparison, or `*`."""
    tags = [candidate.strip().removeprefix("W/") for candidate in if_none_match.split(",")]
    return "*" in tags or tag.removeprefix("W/") in tags


def conditional_response(
    request: Request[Any, Any, Any], body: T, headers: Mapping[str, str], media_type: str = JSON
) -> Response[T | None]:
    """Return the body, or 304 if the `If-None-Match` of the request contains the `ETag` of `headers`."""
    if matches_etag(request.headers.get("if-none-match", ""), headers["ETag"]):
        return Response(None, status_code=304, headers=headers, media_type=media_type)
    return Response(body, headers=headers, media_type=media_type)


# Pagination.

MAX_PAGE_SIZE = 100
DEFAULT_PAGE_SIZE = 20
"""Default number of items on an inbox page."""

Cursor = Annotated[str | None, QueryParameter(max_length=2_000)]
Limit = Annotated[int, QueryParameter(ge=1, le=MAX_PAGE_SIZE)]


def next_link(path: str, **query: object) -> str:
    """Return the `Link` header of the next page.

    Parameters that are None are left out. A trailing underscore of a name is removed: `from_` stands for `from`.
    """
    parameters = {name.rstrip("_"): value for name, value in query.items() if value is not None}
    return f'<{path}?{urlencode(parameters)}>; rel="next"'
