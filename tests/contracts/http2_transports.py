"""Transports for the HTTP/2 contract tests, each connected to a server that a test controls."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from notifier.adapters.http2 import Http2Limits, Http2Transport
from notifier.devkit.http2.connection import Http2Behavior
from notifier.devkit.http2.server import Http2Server, serving
from notifier.ports.push import NoReply, Post, Reply, Transport
from tests.support.certificate_authority import Authority
from tests.support.fakes.push import MemoryTransport

SOON = Http2Limits(
    answer_timeout=timedelta(seconds=0.4),
    ping_after=timedelta(seconds=0.1),
    pong_timeout=timedelta(seconds=0.1),
    pause_after_failure=timedelta(seconds=0.2),
    max_stream_wait=timedelta(seconds=1),
)
"""Timeouts short enough to wait for in a test."""
PATIENT = replace(SOON, answer_timeout=timedelta(seconds=20), pong_timeout=timedelta(seconds=20))
"""Timeouts that never expire by accident, even on a busy machine."""
PLAIN = replace(PATIENT, answer_timeout=timedelta(seconds=3))
"""Like PATIENT, for tests in which one response never comes."""


@dataclass(slots=True)
class RecordingHandler:
    """Answers every post with `answer`, and records the posts."""

    answer: Callable[[Post], Reply | NoReply] = lambda post: Reply(status=200)
    posts: list[Post] = field(default_factory=list)

    def __call__(self, post: Post) -> Reply | NoReply:
        self.posts.append(post)
        return self.answer(post)

    @property
    def paths(self) -> list[str]:
        return [post.path for post in self.posts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """A transport, and the handler that answers its posts."""

    transport: Transport
    origin: str
    handler: RecordingHandler

    def post(self, number: int = 0, *, body: bytes = b"{}", suspect: bool = False, **headers: str) -> Post:
        header_list = [*headers.items()]
        return Post(
            origin=self.origin, path=f"/3/device/{number}", headers=header_list, body=body, needs_own_connection=suspect
        )

    def posts(self, count: int) -> list[Post]:
        return [self.post(number) for number in range(count)]


@contextmanager
def memory_wire(folder: Path) -> Iterator[Wire]:
    handler = RecordingHandler()
    yield Wire(transport=MemoryTransport(handler), origin="https://push.example", handler=handler)


@contextmanager
def clear_text_wire(folder: Path) -> Iterator[Wire]:
    handler = RecordingHandler()
    with serving(handler) as server, closing(Http2Transport(limits=PLAIN, allow_plaintext=True)) as transport:
        yield Wire(transport=transport, origin=server.origin, handler=handler)


@contextmanager
def tls_wire(folder: Path) -> Iterator[Wire]:
    handler, authority = RecordingHandler(), Authority.create(folder, "authority")
    transport = Http2Transport(limits=PLAIN, ca_file=authority.file)
    with serving(handler, certificate=authority.server()) as server, closing(transport):
        yield Wire(transport=transport, origin=server.origin, handler=handler)


WIRES: list[Callable[[Path], AbstractContextManager[Wire]]] = [memory_wire, clear_text_wire, tls_wire]


@dataclass(frozen=True, slots=True, kw_only=True)
class Faulty(Wire):
    """An HTTP/2 transport with a server whose behavior can change."""

    server: Http2Server
    transport: Http2Transport


@contextmanager
def faulty(
    behavior: Http2Behavior,
    limits: Http2Limits = PATIENT,
    answer: Callable[[Post], Reply | NoReply] | None = None,
    authority: Authority | None = None,
) -> Iterator[Faulty]:
    """Connect our transport to a server with the given behavior; with an authority it uses TLS."""
    handler = RecordingHandler(answer) if answer else RecordingHandler()
    file, certificate = (authority.file, authority.server()) if authority else (None, None)
    transport = Http2Transport(limits=limits, allow_plaintext=True, ca_file=file)
    with closing(transport), serving(handler, behavior, certificate=certificate) as server:
        yield Faulty(transport=transport, origin=server.origin, handler=handler, server=server)
