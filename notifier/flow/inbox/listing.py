"""A listing: all that stands in a person's list, newest first, merged of what is told singly and of digests."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from notifier.domain.bursts.burst import Burst
from notifier.flow.inbox.burst_walk import place_of
from notifier.flow.inbox.digests import Digests
from notifier.flow.inbox.page import Entry
from notifier.ports.inbox import Place


class Steps(Protocol):
    """A walk through bursts, newest first, a run at a time."""

    ended: bool
    after: Place | None
    """Behind the last burst given."""

    async def step(self) -> Sequence[Burst]:
        """Return the next run, possibly empty. Raises StoreUnavailable."""
        ...


@dataclass(slots=True, kw_only=True)
class Listing:
    """One of the two goes a step at a time: the one that hasn't come as far down. What both have passed is given."""

    walk: Steps
    digests: Digests
    _waiting: list[Entry] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return self.walk.ended and self.digests.ended

    @property
    def after(self) -> Place | None:
        """Everything that stands before it was given. None at the beginning, and at the end."""
        open_ends = [end.after for end in (self.walk, self.digests) if not end.ended]
        return None if None in open_ends else max((after for after in open_ends if after), default=None)

    def passed(self, moment: datetime) -> bool:
        """Whether what is left opened at the moment or before."""
        return self.ended or (self.after is not None and self.after.opened_at <= moment)

    async def step(self) -> Sequence[Entry]:
        """The next run, possibly empty. Raises StoreUnavailable."""
        if not self.digests.subjects:
            return await self.walk.step()
        self._waiting += await (self.digests.step() if self._digests_behind() else self.walk.step())
        waiting = sorted(self._waiting, key=place_of, reverse=True)
        self._waiting = [] if self.ended else [entry for entry in waiting if not self._given(place_of(entry))]
        return waiting[: len(waiting) - len(self._waiting)]

    def _given(self, place: Place) -> bool:
        return self.after is not None and place >= self.after

    def _digests_behind(self) -> bool:
        if self.walk.ended or self.digests.ended:
            return self.walk.ended
        return self.walk.after is not None and self.digests.after is not None and self.walk.after <= self.digests.after
