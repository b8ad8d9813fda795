"""Compute an inbox page, and the badge of the same moment."""

from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.domain.users.visibility import CERTAINLY_VISIBLE_AGE, Mark, SeenToken, is_unread
from notifier.flow.inbox.burst_walk import position_of
from notifier.flow.inbox.digest_walk import DigestWalk
from notifier.flow.inbox.page import BADGE_LIMIT, Entry, InboxView, Page
from notifier.ports.inbox import InboxPosition


class BurstRuns(Protocol):
    """A walk through bursts, newest first, one run at a time."""

    has_ended: bool
    after: InboxPosition | None
    """Position that the walk has reached. The next run continues after it."""

    async def step(self) -> Sequence[Burst]:
        """Return the next run, possibly empty. Raises StoreUnavailable."""
        ...


@dataclass(slots=True, kw_only=True)
class Listing:
    """Merge of a burst walk and a digest walk, newest first.

    Each step advances the walk whose position is newer, and returns the entries that both walks have passed.
    """

    walk: BurstRuns
    digest_walk: DigestWalk
    _not_passed: list[Entry] = field(default_factory=list)

    @property
    def has_ended(self) -> bool:
        return self.walk.has_ended and self.digest_walk.has_ended

    @property
    def after(self) -> InboxPosition | None:
        """Return the position that both walks have reached. None at the start of the list, and after its end."""
        positions = [walk.after for walk in (self.walk, self.digest_walk) if not walk.has_ended]
        return None if None in positions else max((after for after in positions if after), default=None)

    def has_passed(self, opened_at: datetime) -> bool:
        """Return whether all remaining entries opened at or before `opened_at`."""
        return self.has_ended or (self.after is not None and self.after.opened_at <= opened_at)

    async def step(self) -> Sequence[Entry]:
        if not self.digest_walk.subjects:
            return await self.walk.step()
        self._not_passed += await (self.digest_walk.step() if self._is_digest_turn() else self.walk.step())
        entries = sorted(self._not_passed, key=position_of, reverse=True)
        self._not_passed = (
            [] if self.has_ended else [entry for entry in entries if not self._is_passed_by_both(position_of(entry))]
        )
        return entries[: len(entries) - len(self._not_passed)]

    def _is_passed_by_both(self, position: InboxPosition) -> bool:
        return self.after is not None and position >= self.after

    def _is_digest_turn(self) -> bool:
        if self.walk.has_ended or self.digest_walk.has_ended:
            return self.walk.has_ended
        return (
            self.walk.after is not None
            and self.digest_walk.after is not None
            and self.walk.after <= self.digest_walk.after
        )


MAX_RUNS = 20
"""Maximum runs that a page reads. The next page continues after the last run."""


class EntrySource(Protocol):
    """Reads entries without a walk: by key, or by the viewer's inbox rows."""

    def entries(self, view: InboxView, keys: Collection[BurstKey], /) -> Awaitable[Mapping[BurstKey, Entry]]:
        """Return the entries, visible or not. Digests of other users are left out. Raises StoreUnavailable."""
        ...

    def row_entries(self, view: InboxView, limit: int, /) -> Awaitable[Collection[Entry]]:
        """Return the entries that the viewer's inbox rows point to. Raises StoreUnavailable."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Computes what a viewer sees at one moment."""

    view: InboxView
    after: InboxPosition | None
    limit: int
    source: EntrySource

    async def page(self, listing: Listing) -> tuple[Page, Sequence[Entry]]:
        """Return the page, and all visible entries that the listing returned for it.

        Raises StoreUnavailable if a read for a later page fails, or if not even a partial first page can be read.
        """
        visible = list[Entry]()
        try:
            for _ in range(MAX_RUNS):
                visible += [entry for entry in await listing.step() if self.view.is_visible(entry)]
                if len(visible) > self.limit or listing.has_ended:
                    break
        except StoreUnavailable:
            if self.after is not None:  # a partial page has no cursor: a client would take it for the last page
                raise
            return await self.partial(visible), visible
        shown = visible[: self.limit]
        next_position = position_of(shown[-1]) if len(visible) > self.limit else listing.after
        page = Page(
            items=[self.view.to_item(entry) for entry in shown],
            next=None if listing.has_ended and len(visible) <= self.limit else next_position,
            seen=seen_token(self.view, shown, self.after),
            partial=False,
            view=self.view,
        )
        return page, visible

    async def unread_entries(self, listing: Listing, visible: Sequence[Entry] = ()) -> Mapping[BurstKey, Entry]:
        """Return the unread entries; not all, if there are more than BADGE_LIMIT. Raises StoreUnavailable.

        `visible` are the visible entries that the listing has returned already.
        """
        viewer = self.view.viewer
        unread_entries = await self._marked_unread()
        unread_entries |= {entry.key: entry for entry in visible if is_unread(entry, viewer)}
        seen_at = viewer.marks.seen_at
        while len(unread_entries) <= BADGE_LIMIT and not listing.has_ended:
            if seen_at is not None and listing.has_passed(seen_at):
                break
            run = await listing.step()
            unread_entries |= {
                entry.key: entry for entry in run if self.view.is_visible(entry) and is_unread(entry, viewer)
            }
        return unread_entries

    async def _marked_unread(self) -> dict[BurstKey, Entry]:
        """Return the visible entries that the viewer marked as unread, however old."""
        keys = [key for key, mark in self.view.viewer.marks.by_burst.items() if mark is Mark.UNREAD]
        entries = await self.source.entries(self.view, keys) if keys else {}
        return {entry.key: entry for entry in entries.values() if self.view.is_visible(entry)}

    async def partial(self, entries: Sequence[Entry] = ()) -> Page:
        """Return a partial page of these entries and those that the inbox rows point to. Raises StoreUnavailable."""
        from_rows = await self.source.row_entries(self.view, self.limit)
        return partial_page(self.view, [*entries, *from_rows], self.limit)


def partial_page(view: InboxView, entries: Collection[Entry], limit: int) -> Page:
    """Return a page that may lack entries: it has no cursor, and no token to mark it as seen."""
    visible = {entry.key: entry for entry in entries if view.is_visible(entry)}
    newest = sorted(visible.values(), key=position_of, reverse=True)[:limit]
    return Page(items=[view.to_item(entry) for entry in newest], next=None, seen=None, partial=True, view=view)


def seen_token(view: InboxView, shown: Sequence[Entry], after: InboxPosition | None) -> SeenToken:
    """Return a token for the shown entries, and all entries that were certainly visible when the page was made.

    The token of a page that starts after a position covers nothing newer than that position.
    """
    as_of = view.now - CERTAINLY_VISIBLE_AGE
    if after is not None:
        as_of = min(as_of, after.opened_at)
    newer = frozenset(entry.key for entry in shown if entry.opened_at > as_of)
    return SeenToken(viewer=view.viewer.user, as_of=as_of, newer=newer)
