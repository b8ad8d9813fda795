"""The canonical bursts and the inbox rows, as the read path knows them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from notifier.domain.audience.inbox_rows import InboxRow
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Member, Subject, UserId


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a list that is newest first: bursts are ordered by opening, then by key."""

    opened_at: datetime
    burst: BurstKey


class Timeline(Protocol):
    """Asynchronous. Raises StoreUnavailable."""

    async def bursts(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]: ...

    async def before(
        self,
        subjects: Collection[Subject],
        place: Place | None,
        limit: int,
        authors: Collection[UserId] | None = None,
        since: datetime | None = None,
    ) -> Sequence[Burst]:
        """The newest bursts of these subjects behind the place, newest first, none left out: all of them, or the public
        ones and those restricted to the followers of one of the authors, as if there were no others; and only those
        that opened at or after `since`, which costs as much as there are.

        Fewer than `limit` means that there are no more within the retention. This alone makes a page right.
        """
        ...

    async def rows(
        self, member: Member, subjects: Collection[Subject], place: Place | None, limit: int
    ) -> Sequence[InboxRow]:
        """The newest rows of these subjects that reach the member behind the place, newest first.

        The cost follows the number of subjects and of their bursts, whoever else shares the partition. Rows never prove
        absence.
        """
        ...
