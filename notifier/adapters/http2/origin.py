"""An origin, as `https://api.push.apple.com`: whom to look up, where to connect, and what each request says of it."""

from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from notifier.adapters.http2.hpack import encoded
from notifier.ports.http2 import Post

PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    host: str
    port: int
    secure: bool
    head: bytes
    """The headers that every request to it begins with."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Raises ValueError of what isn't one."""
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port or PORTS.get(parts.scheme, 0)
        if parts.scheme not in PORTS or not (host and text.isascii() and text.isprintable()):
            raise ValueError(f"{text[:80]!r} is no origin")
        if parts.path or parts.query or parts.fragment or "@" in parts.netloc or any(mark in host for mark in "% \\"):
            raise ValueError(f"{text[:80]!r} is more than an origin")
        shown = f"[{host}]" if ":" in host else host
        authority = shown if port == PORTS[parts.scheme] else f"{shown}:{port}"
        head = encoded([(":method", "POST"), (":scheme", parts.scheme), (":authority", authority)])
        return cls(host=host, port=port, secure=parts.scheme == "https", head=head)


def speakable(post: Post) -> bool:
    """Whether it can be said. What can't is an error of the whole connection to some, with all that is on its way."""
    path = post.path
    if not (path[:1] == "/" and path.isascii() and path.isprintable() and " " not in path):
        return False
    return all(value.isprintable() for _, value in post.headers)
