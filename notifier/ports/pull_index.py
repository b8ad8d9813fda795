"""Ports of the pull index: the newest bursts of every subject, in a disposable cache."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.inbox import InboxPosition

MAX_COMPARISON_AGE = timedelta(seconds=3)
"""Maximum age of the last comparison with the store. After that the index proves nothing.

It may lack announcements, because the cache stalled or a writer crashed. The reconciler compares every second.
"""


class PullIndex(Protocol):
    """Disposable. Blocking. Raises CacheUnavailable; the caller continues, because the store alone completes a page.

    The store has every burst, so no process has to remember a failed announcement. A process that has announced
    everything in the store at some time calls `record_comparison`. Without this call, repeated regularly, the index
    proves nothing.
    """

    def announce(self, bursts: Sequence[Burst]) -> None:
        """Add or update entries. A list that may lack older entries starts over with the new entry.

        If this fails on a cache that still answers, the index proves nothing until it is compared again.
        """
        ...

    def generation(self) -> str | None:
        """Return the current generation; None after a wipe or a gap, until the index has been rebuilt.

        Call this before a rebuild reads its bursts: any loss after this call makes the rebuild fail.
        """
        ...

    def rebuild(self, pages: Iterable[Sequence[Burst]], since: datetime, as_of: datetime) -> None:
        """Add the bursts, all opened since `since` and readable at `as_of`, and declare the index complete.

        Pages come newest first, with one in memory at a time; announcements continue between pages, and bursts
        announced meanwhile stay. The index is not complete before the rebuild ends. Raises CacheUnavailable, also if
        anything was lost since `generation`: the rebuild must then start over.
        """
        ...

    def record_comparison(self, since: datetime, as_of: datetime) -> None:
        """Record that every burst readable at `as_of` has been announced; lists older than `since` may be dropped.

        The last call wins, even if its time is earlier. After the clock was set back, `as_of` may be in the future:
        until then the index proves nothing. Raises CacheUnavailable, also if anything was lost since `generation`.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledPositions:
    """Proven content of the index for some subjects: every burst of theirs that opened at or after `complete_since`.

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
    """One consistent read of several subjects, without those for which the index proves nothing."""

    lists: Mapping[Subject, SubjectList]
    as_of: datetime
    """Time of the last comparison with the store. A burst that became readable later may be missing."""


class PullReader(Protocol):
    """Asynchronous. Raises CacheUnavailable."""

    async def subject_lists(self, subjects: Collection[Subject]) -> SubjectLists | None:
        """Return the list of each subject; None if the last comparison with the store is too old to prove anything."""
        ...

    async def read_newest(self, subjects: Collection[Subject]) -> PulledPositions:
        """Return the subjects' newest bursts in one consistent read. An index emptied meanwhile proves nothing."""
        ...
