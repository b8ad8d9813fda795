"""All push services as one of this machine: what is for any of them goes to the fake that stands for them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from notifier.ports.http2 import Post, Reply, Silence, Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerouted:
    """A Transport. Posts come back as they were sent, with the fake's origin. Whom they are for still stands in their
    authorization."""

    transport: Transport
    origin: str

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | Silence]]:
        return self.transport.exchange(replace(post, origin=self.origin) for post in posts)
