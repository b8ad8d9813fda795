"""Compute a page and the badge of the same moment from one walk."""

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

# Listing: individual bursts and digests, merged newest first.


class Steps(Protocol):
    """A walk through bursts, newest first, one run at a time."""

    ended: bool
    after: InboxPosition | None
    """Position of the last burst returned."""

    async def step(self) -> Sequence[Burst]:
        """Return the next run, possibly empty. Raises StoreUnavailable."""
        ...


@dataclass(slots=True, kw_only=True)
class Listing:
    """Merge of a burst walk and a digest walk, newest first.

    Each step advances the walk that has not come as far down, and returns the entries that both have passed.
    """

    walk: Steps
    digests: Digests
    _waiting: list[Entry] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return self.walk.ended and self.digests.ended

    @property
    def after(self) -> InboxPosition | None:
        """Return the position above which everything was returned. None at the beginning and at the end."""
        open_ends = [end.after for end in (self.walk, self.digests) if not end.ended]
        return None if None in open_ends else max((after for after in open_ends if after), default=None)

    def passed(self, moment: datetime) -> bool:
        """Return whether all remaining entries opened at or before `moment`."""
        return self.ended or (self.after is not None and self.after.opened_at <= moment)

    async def step(self) -> Sequence[Entry]:
        """Return the next run, possibly empty. Raises StoreUnavailable."""
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
"""Maximum runs that a page reads; the next page goes on from there."""


class Entries(Protocol):
    """Source of single entries."""

    def entries(self, look: InboxView, keys: Collection[BurstKey], /) -> Awaitable[Mapping[BurstKey, Entry]]:
        """Return the entries, visible or not; of digests only the viewer's own. Raises StoreUnavailable."""
        ...

    def pointed_to(self, look: InboxView, after: InboxPosition | None, limit: int, /) -> Awaitable[Collection[Entry]]:
        """Return the entries that the viewer's inbox rows point to. Raises StoreUnavailable."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Evaluates what a viewer sees at one moment, by the visibility predicate alone."""

    look: InboxView
    after: InboxPosition | None
    limit: int
    source: Entries

    async def page(self, listing: Listing) -> tuple[Page, Sequence[Entry]]:
        """Return the page, and all admitted entries that were walked past.

        Raises StoreUnavailable if not even a partial page can be read.
        """
        admitted = list[Entry]()
        try:
            for _ in range(STEPS):
                admitted += [entry for entry in await listing.step() if self.look.admits(entry)]
                if len(admitted) > self.limit or listing.ended:
                    break
        except StoreUnavailable:
            return await self.partial(admitted), admitted
        shown = admitted[: self.limit]
        more = place_of(shown[-1]) if len(admitted) > self.limit else listing.after
        page = Page(
            items=[self.look.shown(entry) for entry in shown],
            next=None if listing.ended and len(admitted) <= self.limit else more,
            seen=seen_token(self.look, shown, self.after),
            partial=False,
            look=self.look,
        )
        return page, admitted

    async def unread(self, listing: Listing, admitted: Sequence[Entry] = ()) -> Mapping[BurstKey, Entry]:
        """Return all unread entries, or more of them than a badge counts. Raises StoreUnavailable.

        `admitted` are the entries that the listing returned before.
        """
        viewer = self.look.viewer
        unread_entries = await self._marked_unread()
        unread_entries |= {entry.key: entry for entry in admitted if unread(entry, viewer)}
        seen_at = viewer.marks.seen_at
        while len(unread_entries) <= BADGE_MOST and not listing.ended:
            if seen_at is not None and listing.passed(seen_at):
                break
            run = await listing.step()
            unread_entries |= {entry.key: entry for entry in run if self.look.admits(entry) and unread(entry, viewer)}
        return unread_entries

    async def _marked_unread(self) -> dict[BurstKey, Entry]:
        """Return the visible entries that the viewer marked as unread, however old."""
        keys = [key for key, mark in self.look.viewer.marks.by_burst.items() if mark is Mark.UNREAD]
        known = await self.source.entries(self.look, keys) if keys else {}
        return {entry.key: entry for entry in known.values() if self.look.admits(entry)}

    async def partial(self, found: Sequence[Entry] = ()) -> Page:
        """Return a partial page of the entries read so far, and those that the inbox rows point to.

        Raises StoreUnavailable.
        """
        more = await self.source.pointed_to(self.look, self.after, self.limit)
        return partial_page(self.look, [*found, *more], self.limit)


def partial_page(look: InboxView, entries: Collection[Entry], limit: int) -> Page:
    """Return a page that does not claim completeness: it has no cursor and marks nothing as seen."""
    known = {entry.key: entry for entry in entries if look.admits(entry)}
    newest = sorted(known.values(), key=place_of, reverse=True)[:limit]
    return Page(items=[look.shown(entry) for entry in newest], next=None, seen=None, partial=True, look=look)


def seen_token(look: InboxView, shown: Sequence[Entry], after: InboxPosition | None) -> SeenToken:
    """Return a token that covers what had certainly become visible when the page was made.

    On later pages it covers nothing newer than the top of the page.
    """
    as_of = look.now - SETTLED_AFTER
    if after is not None:
        as_of = min(as_of, after.opened_at)
    newer = frozenset(entry.key for entry in shown if entry.opened_at > as_of)
    return SeenToken(viewer=look.viewer.user, as_of=as_of, newer=newer)
