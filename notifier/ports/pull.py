"""The pull index: the newest bursts of every subject, in a cache that may be emptied at any moment."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.burst import Burst
from notifier.domain.subject import Subject
from notifier.ports.timeline import Place


class PullIndex(Protocol):
    """Disposable. Raises CacheUnavailable; the caller goes on, because the store alone makes a page right."""

    def announce(self, bursts: Sequence[Burst]) -> None:
        """Adds or renews entries. A list that has a gap before a new entry starts again with it."""
        ...

    def generation(self) -> str | None:
        """None after a wipe or a gap, until somebody has rebuilt the index.

        To be called before a rebuild reads its bursts: what is lost from here on makes the rebuild fail.
        """
        ...

    def rebuilt(self, bursts: Sequence[Burst], since: datetime) -> None:
        """Adds the bursts, all that were opened since then, and declares the index complete from there on.

        A burst announced meanwhile stays. Raises CacheUnavailable, too, when something was lost since generation();
        then the rebuild begins again.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """What the index proves of some subjects: it lists every burst of theirs that opened at or after `complete_since`.

    `complete_since` is None when it proves nothing.
    """

    places: Sequence[Place]
    complete_since: datetime | None


class PullReader(Protocol):
    """Asynchronous. Raises CacheUnavailable."""

    async def news(self, subjects: Collection[Subject]) -> Pulled:
        """All in one consistent look: an index emptied meanwhile proves nothing."""
        ...
