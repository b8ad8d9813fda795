"""The files of the pages that this service brings along: what they are, what a browser may do with them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from litestar import Request, Response, get
from litestar.params import FromPath

from notifier.api.answers import conditional, etag
from notifier.api.problems import described
from notifier.domain.errors import NotFound

TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
"""Nothing else is served, whatever lies in the folder."""

UNNEEDED = re.compile(rb"(?<=\n)[ \t]*//.*$|(?<=\n)[ \t]+|(?<=[\]\[;,(){}])[ \t]+// .*$", re.MULTILINE)
"""Comments and indentation of a script: a sixth of a page's weight, which no browser needs. Lines keep their numbers,
and the first one, which says what the script is, stays. So no script may have a string over several lines in which
spaces at the beginning of a line count."""

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    kind: str
    tag: str
    """Of the content: a browser asks again each time, and gets what it has in one line while nothing changed."""


@get("/static/{path:path}", media_type="application/octet-stream", responses=described(400, 404))
async def static(path: FromPath[str], request: Request[Any, Any, Any]) -> Response[bytes | None]:
    """A file of the pages and of `<notifier-inbox>`."""
    file = known().get(path.strip("/"))
    if file is None:
        raise NotFound("There is no such file.")
    headers = {**HEADERS, "ETag": file.tag, "Cache-Control": "no-cache"}
    return conditional(request, file.content, headers, file.kind)


@cache
def known() -> Mapping[str, File]:
    """By name. Read once: no name in a request ever becomes a path."""
    return dict(_files(files("notifier.api") / "static", ""))


def _files(folder: Traversable, prefix: str) -> list[tuple[str, File]]:
    found: list[tuple[str, File]] = []
    for entry in sorted(folder.iterdir(), key=lambda each: each.name) if folder.is_dir() else []:
        if entry.is_dir():
            found += _files(entry, f"{prefix}{entry.name}/")
        elif (kind := TYPES.get(entry.name[entry.name.rfind(".") :])) is not None:
            content = UNNEEDED.sub(b"", entry.read_bytes()) if kind == TYPES[".js"] else entry.read_bytes()
            found.append((prefix + entry.name, File(content, kind, etag(content))))
    return found
