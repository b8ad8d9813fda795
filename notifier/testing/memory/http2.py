"""A transport without a network: whoever is asked is a function."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from notifier.ports.push import Post, Reply, Silence

Answering = Callable[[Post], Reply | Silence]


@dataclass(frozen=True, slots=True)
class MemoryTransport:
    answering: Answering

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | Silence]]:
        for post in posts:
            yield post, self.answering(post)
