"""The timeline over the in-memory bursts and inbox; its coroutines never suspend, so that a simulator can step them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from notifier.domain.audience.inbox_rows import InboxRow, range_of
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Member, Subject, UserId
from notifier.ports.inbox import Place
from notifier.testing.memory.bursts import MemoryBursts
from notifier.testing.memory.inbox import MemoryInbox


class MemoryTimeline:
    def __init__(self, bursts: MemoryBursts, inbox: MemoryInbox) -> None:
        self._bursts = bursts
        self._inbox = inbox

    async def bursts(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        return self._bursts.read(keys)

    async def before(
        self,
        subjects: Collection[Subject],
        place: Place | None,
        limit: int,
        authors: Collection[UserId] | None = None,
        since: datetime | None = None,
    ) -> Sequence[Burst]:
        admitted = [
            burst
            for burst in self._bursts.by_key.values()
            if burst.key.subject in subjects
            if authors is None or burst.restricted_to is None or burst.restricted_to in authors
            if since is None or burst.opened_at >= since
        ]
        found = ((Place(burst.opened_at, burst.key), burst) for burst in admitted)
        behind = [pair for pair in found if place is None or pair[0] < place]
        return [burst for _, burst in sorted(behind, key=lambda pair: pair[0], reverse=True)[:limit]]

    async def rows(
        self, member: Member, subjects: Collection[Subject], place: Place | None, limit: int
    ) -> Sequence[InboxRow]:
        found = (row for row in self._inbox.in_range(range_of(member)) if row.burst.subject in subjects)
        reaching = (row for row in found if row.reaches(member))
        behind = [row for row in reaching if place is None or _place(row) < place]
        return sorted(behind, key=_place, reverse=True)[:limit]


def _place(row: InboxRow) -> Place:
    return Place(row.opened_at, row.burst)
