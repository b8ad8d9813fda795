"""Requests over HTTP/2, many at once on few connections: what every sender of alerts is made from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    origin: str
    """`https://api.push.apple.com:443`; each has connections of its own."""
    path: str
    headers: Sequence[tuple[str, str]]
    """Names in small letters, without those that begin with a colon."""
    body: bytes
    suspect: bool = False
    """Travels on a connection apart: a provider that refuses it may narrow the one that it came on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in small letters."""
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """No answer."""

    reason: str
    left: bool
    """Whether the request may have reached somebody who acts on it. False: it is safe to say that nobody did."""


class Transport(Protocol):
    """Blocking, for one thread at a time; never sleeps for longer than an answer may take, and sends nothing twice that
    may have arrived."""

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | Silence]]:
        """Each post with its answer, in the order in which answers come. Takes posts as there is room for them on their
        way, so that memory doesn't grow with how many there are. Raises nothing for what the other side does."""
        ...
