"""One walk through what a viewer may see gives the page and the badge of the same moment."""

from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.domain.users.visibility import SETTLED_AFTER, Mark, SeenToken, unread
from notifier.flow.inbox.burst_walk import place_of
from notifier.flow.inbox.digests import Digests
from notifier.flow.inbox.page import BADGE_MOST, Entry, InboxView, Page
from notifier.ports.inbox import InboxPosition

# A listing: all that stands in a person's list, newest first, merged of what is told singly and of digests.


class Steps(Protocol):
    """A walk through bursts, newest first, a run at a time."""

    ended: bool
    after: InboxPosition | None
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
    def after(self) -> InboxPosition | None:
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

    def _given(self, place: InboxPosition) -> bool:
        return self.after is not None and place >= self.after

    def _digests_behind(self) -> bool:
        if self.walk.ended or self.digests.ended:
            return self.walk.ended
        return self.walk.after is not None and self.digests.after is not None and self.walk.after <= self.digests.after


STEPS = 20
"""Runs that a page reads at most; the next page goes on from there."""


class Entries(Protocol):
    """Where single entries are read."""

    def entries(self, look: InboxView, keys: Collection[BurstKey], /) -> Awaitable[Mapping[BurstKey, Entry]]:
        """Return the entries, visible or not; of digests only the viewer's own. Raises StoreUnavailable."""
        ...

    def pointed_to(self, look: InboxView, after: InboxPosition | None, limit: int, /) -> Awaitable[Collection[Entry]]:
        """Return what the viewer's inbox rows point to. Raises StoreUnavailable."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What a viewer sees at one moment, by the predicate alone."""

    look: InboxView
    after: InboxPosition | None
    limit: int
    source: Entries

    async def page(self, listing: Listing) -> tuple[Page, Sequence[Entry]]:
        """Return the page and all entries that were walked past and admitted. Raises StoreUnavailable where not even a
        partial page can be had."""
        found = list[Entry]()
        try:
            for _ in range(STEPS):
                found += [entry for entry in await listing.step() if self.look.admits(entry)]
                if len(found) > self.limit or listing.ended:
                    break
        except StoreUnavailable:
            return await self.partial(found), found
        shown = found[: self.limit]
        more = place_of(shown[-1]) if len(found) > self.limit else listing.after
        page = Page(
            items=[self.look.shown(entry) for entry in shown],
            next=None if listing.ended and len(found) <= self.limit else more,
            seen=seen_token(self.look, shown, self.after),
            partial=False,
            look=self.look,
        )
        return page, found

    async def unread(self, listing: Listing, admitted: Sequence[Entry] = ()) -> Mapping[BurstKey, Entry]:
        """Return everything unread, or more than a badge counts. Raises StoreUnavailable.

        `admitted` are the entries that the listing gave before.
        """
        viewer = self.look.viewer
        found = await self._marked_unread()
        found |= {entry.key: entry for entry in admitted if unread(entry, viewer)}
        seen_at = viewer.marks.seen_at
        while len(found) <= BADGE_MOST and not listing.ended:
            if seen_at is not None and listing.passed(seen_at):
                break
            run = await listing.step()
            found |= {entry.key: entry for entry in run if self.look.admits(entry) and unread(entry, viewer)}
        return found

    async def _marked_unread(self) -> dict[BurstKey, Entry]:
        """What the viewer marked as unread, however old."""
        keys = [key for key, mark in self.look.viewer.marks.by_burst.items() if mark is Mark.UNREAD]
        known = await self.source.entries(self.look, keys) if keys else {}
        return {entry.key: entry for entry in known.values() if self.look.admits(entry)}

    async def partial(self, found: Sequence[Entry] = ()) -> Page:
        """Return what could be read, and what the inbox rows point to; some may be missing. Raises StoreUnavailable."""
        more = await self.source.pointed_to(self.look, self.after, self.limit)
        return partial_page(self.look, [*found, *more], self.limit)


def partial_page(look: InboxView, entries: Collection[Entry], limit: int) -> Page:
    """A page that claims nothing about what is missing: it has no cursor and marks nothing as seen."""
    known = {entry.key: entry for entry in entries if look.admits(entry)}
    newest = sorted(known.values(), key=place_of, reverse=True)[:limit]
    return Page(items=[look.shown(entry) for entry in newest], next=None, seen=None, partial=True, look=look)


def seen_token(look: InboxView, shown: Sequence[Entry], after: InboxPosition | None) -> SeenToken:
    """Covers what had surely become visible when the page was made; on older pages, nothing newer than their top."""
    as_of = look.now - SETTLED_AFTER
    if after is not None:
        as_of = min(as_of, after.opened_at)
    newer = frozenset(entry.key for entry in shown if entry.opened_at > as_of)
    return SeenToken(viewer=look.viewer.user, as_of=as_of, newer=newer)
