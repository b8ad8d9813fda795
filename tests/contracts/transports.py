"""The transports that the contracts of HTTP/2 are asked of, each before somebody who answers by a function."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from notifier.adapters.http2 import Http2Limits, Http2Transport
from notifier.devkit.http2.behaviour import Conduct
from notifier.devkit.http2.server import Http2Server, serving
from notifier.ports.push import Post, Reply, Silence, Transport
from tests.support.fakes.push import MemoryTransport
from tests.support.test_ca import Authority

SOON = Http2Limits(
    answer=timedelta(seconds=0.4),
    quiet=timedelta(seconds=0.1),
    pong=timedelta(seconds=0.1),
    barred=timedelta(seconds=0.2),
    crowded=timedelta(seconds=1),
)
"""Waits that a test can wait for."""
PATIENT = replace(SOON, answer=timedelta(seconds=20), pong=timedelta(seconds=20))
"""Where nobody is to be late, however busy the machine is."""
PLAIN = replace(PATIENT, answer=timedelta(seconds=3))
"""The same where one test waits for an answer that never comes."""


@dataclass(slots=True)
class Heard:
    """Answers everything, or as it is told, and remembers whom."""

    answer: Callable[[Post], Reply | Silence] = lambda post: Reply(status=200)
    posts: list[Post] = field(default_factory=list)

    def __call__(self, post: Post) -> Reply | Silence:
        self.posts.append(post)
        return self.answer(post)

    @property
    def paths(self) -> list[str]:
        return [post.path for post in self.posts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    transport: Transport
    origin: str
    heard: Heard

    def post(self, number: int = 0, *, body: bytes = b"{}", suspect: bool = False, **headers: str) -> Post:
        said = [*headers.items()]
        return Post(origin=self.origin, path=f"/3/device/{number}", headers=said, body=body, suspect=suspect)

    def posts(self, many: int) -> list[Post]:
        return [self.post(number) for number in range(many)]


@contextmanager
def by_a_function(folder: Path) -> Iterator[Wire]:
    heard = Heard()
    yield Wire(transport=MemoryTransport(heard), origin="https://push.example", heard=heard)


@contextmanager
def in_clear_text(folder: Path) -> Iterator[Wire]:
    heard = Heard()
    with serving(heard) as server, closing(Http2Transport(limits=PLAIN, clear=True)) as transport:
        yield Wire(transport=transport, origin=server.origin, heard=heard)


@contextmanager
def over_tls(folder: Path) -> Iterator[Wire]:
    heard, authority = Heard(), Authority.made(folder, "authority")
    transport = Http2Transport(limits=PLAIN, authorities=authority.file)
    with serving(heard, certificate=authority.server()) as server, closing(transport):
        yield Wire(transport=transport, origin=server.origin, heard=heard)


WIRES: list[Callable[[Path], AbstractContextManager[Wire]]] = [by_a_function, in_clear_text, over_tls]


@dataclass(frozen=True, slots=True, kw_only=True)
class Faulty(Wire):
    server: Http2Server
    transport: Http2Transport


@contextmanager
def faulty(
    conduct: Conduct,
    limits: Http2Limits = PATIENT,
    answer: Callable[[Post], Reply | Silence] | None = None,
    authority: Authority | None = None,
) -> Iterator[Faulty]:
    """A server that behaves as it is told to, and ours before it; over TLS with an authority."""
    heard = Heard(answer) if answer else Heard()
    file, certificate = (authority.file, authority.server()) if authority else (None, None)
    transport = Http2Transport(limits=limits, clear=True, authorities=file)
    with closing(transport), serving(heard, conduct, certificate=certificate) as server:
        yield Faulty(transport=transport, origin=server.origin, heard=heard, server=server)
