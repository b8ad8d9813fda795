"""The tab: what a person sees, each page and badge at one moment, judged by the predicate alone."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from notifier.domain.errors import NotFound, StoreUnavailable
from notifier.domain.marks import SETTLED_AFTER, Mark, SeenToken
from notifier.domain.subject import BurstKey, Kind, UserId
from notifier.domain.visible import unread
from notifier.flow.digests import Digests, digests_by
from notifier.flow.lately import Lately
from notifier.flow.listing import Listing
from notifier.flow.page import BADGE_MOST, Badge, Entry, Look, Opened, Page, badge_of
from notifier.flow.walk import Walk, place_of
from notifier.ports.clock import Clock
from notifier.ports.people import People
from notifier.ports.pull import PullReader
from notifier.ports.timeline import Place, Timeline

STEPS = 20
"""A page walks past so many runs of bursts that the viewer may not see, or reads so many days for their digests; the
next page goes on from there."""

Watch = Callable[[Opened], None]
"""Told of every answer before it is given; returns at once and raises nothing."""


def unwatched(_: Opened) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    people: People
    timeline: Timeline
    pull: PullReader
    clock: Clock
    watch: Watch = unwatched
    lately: Lately = field(default_factory=Lately)

    async def page(self, user: UserId, *, after: Place | None = None, limit: int = 20) -> Page:
        """Raises NotFound for a user that doesn't exist, StoreUnavailable when not even a partial page can be had."""
        return await self._page(await self._look(user), after=after, limit=limit)

    async def badge(self, user: UserId) -> Badge:
        """As many as a walk through all pages of the same moment would show unread."""
        look = await self._look(user)
        badge = await self._badge(look)
        self.watch(Opened(look=look, after=None, page=None, badge=badge))
        return badge

    async def open(self, user: UserId, *, after: Place | None = None, limit: int = 20) -> tuple[Page, Badge | None]:
        """A page and the badge of the same moment; no badge where the store stopped answering before it was counted.

        Where it answers nothing at all, what the person was last shown, as a partial page. Raises as `page` does.
        """
        try:
            page = await self.page(user, after=after, limit=limit)
        except StoreUnavailable:
            if after is not None or (again := self.lately.again(user, self.clock.now(), limit)) is None:
                raise
            page = again
        if after is None and not page.partial:
            self.lately.keep(page)
        badge = None if page.partial else await self._badge_or_none(page.look)
        self.watch(Opened(look=page.look, after=after, page=page, badge=badge))
        return page, badge

    async def _badge_or_none(self, look: Look) -> Badge | None:
        try:
            return await self._badge(look)
        except StoreUnavailable:
            return None

    async def _page(self, look: Look, *, after: Place | None, limit: int) -> Page:
        listing, found = self._listing(look, after), list[Entry]()
        try:
            for _ in range(STEPS):
                found += [entry for entry in await listing.step() if look.admits(entry)]
                if len(found) > limit or listing.ended:
                    break
        except StoreUnavailable:
            return await self._partial(look, found, after=after, limit=limit)
        more = place_of(found[limit - 1]) if len(found) > limit else listing.after
        return Page(
            items=[look.shown(entry) for entry in found[:limit]],
            next=None if listing.ended and len(found) <= limit else more,
            seen=_token(look, found[:limit], after),
            partial=False,
            look=look,
        )

    async def _badge(self, look: Look) -> Badge:
        return badge_of(await self.unread(look))

    async def unread(self, look: Look) -> set[BurstKey]:
        """Everything unread, or more than a badge counts. Raises StoreUnavailable."""
        marks, listing = look.viewer.marks, self._listing(look, None)
        found = await self._kept_unread(look)
        while not listing.ended and len(found) <= BADGE_MOST:
            run = await listing.step()
            found |= {entry.key for entry in run if look.admits(entry) and unread(entry, look.viewer)}
            if marks.seen_at is not None and listing.passed(marks.seen_at):
                break
        return found

    async def entries(self, look: Look, keys: Collection[BurstKey]) -> Mapping[BurstKey, Entry]:
        """What these keys name, whether the viewer sees it or not, but for digests: there are the viewer's own alone.
        Raises StoreUnavailable."""
        days = {key for key in keys if key.subject.kind is Kind.DIGEST}
        known: dict[BurstKey, Entry] = dict(await self.timeline.bursts({*keys} - days) if {*keys} - days else {})
        return known | await digests_by(self.timeline, look, days)

    async def see(self, user: UserId, token: SeenToken) -> None:
        look = await self._look(user)
        await self.people.see(look.member, token.as_of, token.newer)
        self.lately.seen(user, token)

    async def mark(self, user: UserId, bursts: Collection[BurstKey], mark: Mark) -> None:
        """Raises NotFound for a burst that the person doesn't see: a mark is no way to ask what exists."""
        look = await self._look(user)
        known = await self.entries(look, bursts)
        for key in bursts:
            if key not in known or not self._markable(look, known[key]):
                raise NotFound("A burst is not in the person's inbox.")
        await self.people.mark(look.member, bursts, mark)
        self.lately.marked(user, bursts, mark)

    async def _look(self, user: UserId) -> Look:
        member = await self.people.member(user)
        if member is None:
            raise NotFound(f"The user is {user}.")
        return Look(viewer=await self.people.viewer(user, member), member=member, now=self.clock.now())

    def _listing(self, look: Look, after: Place | None) -> Listing:
        digests = Digests(timeline=self.timeline, look=look, after=after)
        return Listing(walk=self._walk(look, after), digests=digests)

    def _walk(self, look: Look, after: Place | None) -> Walk:
        return Walk(
            timeline=self.timeline,
            pull=self.pull,
            subjects=look.subjects,
            authors=look.viewer.authors,
            member=look.member,
            now=look.now,
            after=after,
        )

    async def _kept_unread(self, look: Look) -> set[BurstKey]:
        """What the person marked unread, however old."""
        keys = [key for key, mark in look.viewer.marks.by_burst.items() if mark is Mark.UNREAD]
        known = await self.entries(look, keys) if keys else {}
        return {entry.key for entry in known.values() if look.admits(entry)}

    async def _partial(self, look: Look, found: list[Entry], *, after: Place | None, limit: int) -> Page:
        """What could be read, then what the rows point to; it may miss some, and says so."""
        rows = await self.timeline.rows(look.member, after, limit)
        more = (await self.timeline.bursts([row.burst for row in rows])).values()
        known = {entry.key: entry for entry in (*found, *more) if look.admits(entry)}
        newest = sorted(known.values(), key=place_of, reverse=True)[:limit]
        return Page(items=[look.shown(entry) for entry in newest], next=None, seen=None, partial=True, look=look)

    def _markable(self, look: Look, entry: Entry) -> bool:
        hidden = look.viewer.marks.by_burst.get(entry.key) is Mark.HIDDEN
        return hidden or look.admits(entry)


def _token(look: Look, shown: Sequence[Entry], after: Place | None) -> SeenToken:
    """Covers what had surely become visible when the page was made; on older pages, nothing newer than their top."""
    as_of = look.now - SETTLED_AFTER
    if after is not None:
        as_of = min(as_of, after.opened_at)
    newer = frozenset(entry.key for entry in shown if entry.opened_at > as_of)
    return SeenToken(viewer=look.viewer.user, as_of=as_of, newer=newer)
