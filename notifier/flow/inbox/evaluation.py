"""One walk through what a viewer may see gives the page and the badge of the same moment."""

from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.domain.users.visibility import SETTLED_AFTER, Mark, SeenToken, unread
from notifier.flow.inbox.burst_walk import place_of
from notifier.flow.inbox.listing import Listing
from notifier.flow.inbox.page import BADGE_MOST, Entry, Look, Page
from notifier.ports.inbox import Place

STEPS = 20
"""Runs that a page reads at most; the next page goes on from there."""


class Entries(Protocol):
    """Where single entries are read."""

    def entries(self, look: Look, keys: Collection[BurstKey], /) -> Awaitable[Mapping[BurstKey, Entry]]:
        """Return the entries, visible or not; of digests only the viewer's own. Raises StoreUnavailable."""
        ...

    def pointed_to(self, look: Look, after: Place | None, limit: int, /) -> Awaitable[Collection[Entry]]:
        """Return what the viewer's inbox rows point to. Raises StoreUnavailable."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What a viewer sees at one moment, by the predicate alone."""

    look: Look
    after: Place | None
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


def partial_page(look: Look, entries: Collection[Entry], limit: int) -> Page:
    """A page that claims nothing about what is missing: it has no cursor and marks nothing as seen."""
    known = {entry.key: entry for entry in entries if look.admits(entry)}
    newest = sorted(known.values(), key=place_of, reverse=True)[:limit]
    return Page(items=[look.shown(entry) for entry in newest], next=None, seen=None, partial=True, look=look)


def seen_token(look: Look, shown: Sequence[Entry], after: Place | None) -> SeenToken:
    """Covers what had surely become visible when the page was made; on older pages, nothing newer than their top."""
    as_of = look.now - SETTLED_AFTER
    if after is not None:
        as_of = min(as_of, after.opened_at)
    newer = frozenset(entry.key for entry in shown if entry.opened_at > as_of)
    return SeenToken(viewer=look.viewer.user, as_of=as_of, newer=newer)
