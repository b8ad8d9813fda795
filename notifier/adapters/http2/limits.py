"""How much a transport may have on its way, and how long it waits for what."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Self
from urllib.parse import urlsplit

from notifier.adapters.http2.hpack import encoded
from notifier.ports.push import Post


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Limits:
    connections: int = 2
    """To one origin, at most; beside them one for what is suspect. FCM gives each 100 streams: at 50 ms that is 2,000 a
    second, and 10,000 a second take six."""
    connections_in_all: int = 64
    """To all origins; Web Push has many. Who rests gives way."""
    streams: int = 1_000
    """On one connection, where its peer allows as many."""
    waiting: int = 256
    """Posts that are taken before there is room for them, so that one slow origin isn't waited for by the others."""
    answer: timedelta = timedelta(seconds=10)
    """What a post is given on its way. Google asks for no less than 10 s before a request is tried again."""
    opening: timedelta = timedelta(seconds=10)
    """Look-up, connection and TLS together."""
    crowded: timedelta = timedelta(milliseconds=50)
    """How long a post waits for room before another connection is opened for it: longer than streams take to come free
    where answers are prompt, shorter than it takes anybody to notice."""
    quiet: timedelta = timedelta(seconds=3)
    """With something on its way and nothing heard for so long, a connection is asked for a sign of life."""
    pong: timedelta = timedelta(seconds=3)
    """In which that has to come."""
    rest: timedelta = timedelta(seconds=15)
    """After so long a rest, a connection gives a sign of life before anything is sent on it: where it was forgotten
    meanwhile, as address translators do after minutes, nothing is lost then."""
    barred: timedelta = timedelta(seconds=1)
    """An origin that couldn't be reached isn't tried again before."""
    tries: int = 3
    """How often a post that certainly didn't arrive is sent before its sender is told so."""


# An origin, as `https://api.push.apple.com`: whom to look up, where to connect, and what each request says of it.

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
