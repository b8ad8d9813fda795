"""Ports of the pull index: the newest bursts of every subject, in a disposable cache."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.inbox import InboxPosition

MAX_COMPARISON_AGE = timedelta(seconds=3)
"""Maximum age of the last comparison with the store. An older comparison proves nothing.

After the comparison the index may have missed announcements, because the cache stalled or a writer crashed. The
reconciler compares every second.
"""


class PullIndex(Protocol):
    """Newest bursts of each subject, in a cache that may be emptied at any time. Blocking.

    Raises CacheUnavailable. Publishers announce each burst. The reconciler announces bursts that the index may have
    missed, and then calls `record_comparison`. Without a recent comparison the index does not prove that it has all
    bursts.
    """

    def announce(self, bursts: Sequence[Burst]) -> None:
        """Add or update entries. A subject's list that may lack older entries is replaced by the new entry alone.

        If this call fails, the index proves nothing until the next comparison. Readers know this at once, or within
        MAX_COMPARISON_AGE.
        """
        ...

    def generation(self) -> str | None:
        """Return the current generation; None if the cache has lost entries and the index has not been rebuilt since.

        Call this before a rebuild reads its bursts: any loss after this call makes the rebuild fail.
        """
        ...

    def rebuild(self, pages: Iterable[Sequence[Burst]], since: datetime, as_of: datetime) -> None:
        """Add all bursts that opened since `since` and were readable at `as_of`, and declare the index complete.

        Pages come newest first, with one in memory at a time. Bursts that are announced meanwhile stay. Raises
        CacheUnavailable, also if anything was lost since the last call of `generation`: the rebuild must then start
        over.
        """
        ...

    def record_comparison(self, since: datetime, as_of: datetime) -> None:
        """Record that every burst readable at `as_of` has been announced. Bursts opened before `since` may be dropped.

        The last call wins, even if its `as_of` is earlier. If `as_of` is in the future, because the clock was set back,
        the index proves nothing until then. Raises CacheUnavailable, also if anything was lost since the last call of
        `generation`.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestPositions:
    """Proven content of the index for some subjects: all their bursts that opened at or after `complete_since`.

    `complete_since` is None if the index proves nothing.
    """

    positions: Sequence[InboxPosition]
    complete_since: datetime | None
    as_of: datetime | None = None
    """Time of the last comparison with the store. A burst that became readable later may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectList:
    """Proven content of the index for one subject: bursts opened at or after `complete_since`, newest first."""

    complete_since: datetime
    positions: Sequence[tuple[datetime, BurstKey]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectLists:
    """Lists of several subjects, without those for which the index proves nothing."""

    lists: Mapping[Subject, SubjectList]
    as_of: datetime
    """Time of the last comparison with the store. A burst that became readable later may be missing."""


class PullReader(Protocol):
    """The pull index as the read path reads it. Asynchronous. Raises CacheUnavailable."""

    async def subject_lists(self, subjects: Collection[Subject]) -> SubjectLists | None:
        """Return the list of each subject; None if the last comparison with the store is too old to prove anything."""
        ...

    async def read_newest(self, subjects: Collection[Subject]) -> NewestPositions:
        """Return the subjects' newest bursts, as far as the index proves them."""
        ...
