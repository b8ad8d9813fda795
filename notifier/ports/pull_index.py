"""The pull index: the newest bursts of every subject, in a cache that may be emptied at any moment."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.inbox import InboxPosition

FRESH_FOR = timedelta(seconds=3)
"""An index that nobody has compared with the store for so long proves nothing: announcements may have been missed, by
a cache that hung or a writer that died. The reconcilers compare every second."""


class PullIndex(Protocol):
    """Disposable. Raises CacheUnavailable; the caller goes on, because the store alone makes a page right.

    What is missing is known by the store, and nobody needs to remember it: whoever has announced all that the store
    held at a moment says so with `compared`, and without that word, repeated, the index proves nothing.
    """

    def announce(self, bursts: Sequence[Burst]) -> None:
        """Adds or renews entries. A list that has a gap before a new entry starts again with it.

        Where it fails on a cache that still answers, the index proves nothing until it is compared again.
        """
        ...

    def generation(self) -> str | None:
        """None after a wipe or a gap, until somebody has rebuilt the index.

        To be called before a rebuild reads its bursts: what is lost from here on makes the rebuild fail.
        """
        ...

    def rebuilt(self, pages: Iterable[Sequence[Burst]], since: datetime, as_of: datetime) -> None:
        """Adds the bursts, all opened since then and readable at `as_of`, and declares the index complete.

        The pages come newest first, one is in memory at a time, and announcements go on between any two. A burst
        announced meanwhile stays. Raises CacheUnavailable, too, when something was lost since generation(); then the
        rebuild begins again, and until its end the index as a whole isn't complete.
        """
        ...

    def compared(self, since: datetime, as_of: datetime) -> None:
        """Says that every burst readable at `as_of` has been announced; lists older than `since` may be let go.

        The last word stands, also where it is of an earlier moment. One of a moment that is still to come, because the
        clock was set back, proves nothing until then. Raises CacheUnavailable, too, when something was lost since
        generation().
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """What the index proves of some subjects: it lists every burst of theirs that opened at or after `complete_since`.

    `complete_since` is None when it proves nothing.
    """

    places: Sequence[InboxPosition]
    complete_since: datetime | None
    as_of: datetime | None = None
    """When it was last compared with the store; a burst that became readable later may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectList:
    """What the index proves of one subject: all its bursts that opened at or after `complete_since`, newest first."""

    complete_since: datetime
    places: Sequence[tuple[datetime, BurstKey]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectLists:
    """One consistent look at some subjects. Subjects of which the index proves nothing are left out."""

    lists: Mapping[Subject, SubjectList]
    as_of: datetime
    """When the index was last compared with the store; a burst that became readable later may be missing."""


class PullReader(Protocol):
    """Asynchronous. Raises CacheUnavailable."""

    async def subject_lists(self, subjects: Collection[Subject]) -> SubjectLists | None:
        """Return the list of each subject; None when the index was not compared lately and so proves nothing."""
        ...

    async def news(self, subjects: Collection[Subject]) -> Pulled:
        """All in one consistent look: an index emptied meanwhile proves nothing."""
        ...
