"""`/static`: files of the built-in pages and the inbox element."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from litestar import Request, Response, get
from litestar.params import FromPath

from notifier.api.problems import problem_responses
from notifier.api.response_parts import conditional_response, etag
from notifier.domain.errors import NotFound

MEDIA_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
"""Served file types. Other files in the folder are ignored."""

COMMENTS = re.compile(rb"^[ \t]*//.*$|(?<=[\]\[;,(){}])[ \t]+// .*$", re.MULTILINE)
INDENTATION = re.compile(rb"^\s+", re.MULTILINE)
STYLE_SHEET = re.compile(rb"replaceSync\(`.*?`\);", re.DOTALL)
STYLE_SPACES = re.compile(rb"(?<=[:;,{}]) +| +(?=[{}])")
"""Text that is removed before a file is served: comments of scripts, and indentation and empty lines of all files.
Style sheets also lose spaces beside punctuation, even if a script passes them to `replaceSync`.

The removed text is a sixth of a page's size. A file must not contain a string that looks like a comment, or a
multi-line string whose indentation matters. A style sheet must not contain a string with such spaces.
"""

CONTENT_SECURITY_POLICY = "; ".join(
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
PAGE_SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is served. `tag` is the ETag."""

    content: bytes
    media_type: str
    tag: str


@get("/static/{path:path}", media_type="application/octet-stream", responses=problem_responses(400, 404))
async def static(path: FromPath[str], request: Request[Any, Any, Any]) -> Response[bytes | None]:
    """Return a file of the built-in pages or of the `<notifier-inbox>` element."""
    file = static_files().get(path.strip("/"))
    if file is None:
        raise NotFound("Unknown file.")
    headers = {**PAGE_SECURITY_HEADERS, "ETag": file.tag, "Cache-Control": "no-cache"}
    return conditional_response(request, file.content, headers, file.media_type)


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Read all files once, and return them by path. So no path in a request is ever used to open a file."""
    return dict(_files(files("notifier.api") / "static", ""))


def _files(folder: Traversable, prefix: str) -> list[tuple[str, StaticFile]]:
    served: list[tuple[str, StaticFile]] = []
    for entry in sorted(folder.iterdir(), key=lambda item: item.name) if folder.is_dir() else []:
        if entry.is_dir():
            served += _files(entry, f"{prefix}{entry.name}/")
        elif (media_type := MEDIA_TYPES.get(entry.name[entry.name.rfind(".") :])) is not None:
            content = _without_unneeded_text(entry.read_bytes(), media_type)
            served.append((prefix + entry.name, StaticFile(content, media_type, etag(content))))
    return served


def _without_unneeded_text(content: bytes, media_type: str) -> bytes:
    if media_type == MEDIA_TYPES[".css"]:
        content = STYLE_SPACES.sub(b"", content)
    if media_type == MEDIA_TYPES[".js"]:
        content = COMMENTS.sub(b"", content)
        content = STYLE_SHEET.sub(lambda sheet: STYLE_SPACES.sub(b"", sheet[0]), content)
    return INDENTATION.sub(b"", content)
