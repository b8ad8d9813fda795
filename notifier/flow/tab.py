"""The tab: what a person sees, each page and badge at one moment, judged by the predicate alone."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from notifier.domain.errors import NotFound, StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, UserId
from notifier.domain.users.marks import Mark, SeenToken
from notifier.flow.digests import Digests, digests_by
from notifier.flow.inbox.evaluation import Evaluation
from notifier.flow.lately import Lately
from notifier.flow.listing import Listing
from notifier.flow.page import Badge, Entry, Look, Opened, Page, badge_of
from notifier.flow.walk import Walk
from notifier.ports.clock import Clock
from notifier.ports.inbox import Place, Timeline
from notifier.ports.people import People
from notifier.ports.pull_index import PullReader

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
        page, _ = await self._evaluation(look, after, limit).page(self._listing(look, after))
        return page

    async def _badge(self, look: Look) -> Badge:
        return badge_of(await self.unread(look))

    async def unread(self, look: Look) -> set[BurstKey]:
        """Everything unread, or more than a badge counts. Raises StoreUnavailable."""
        return {*await self._evaluation(look, None, 0).unread(self._listing(look, None))}

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

    async def pointed_to(self, look: Look, after: Place | None, limit: int) -> Collection[Entry]:
        """What the inbox rows point to. Raises StoreUnavailable."""
        rows = await self.timeline.rows(look.member, look.subjects, after, limit)
        return (await self.timeline.bursts([row.burst for row in rows])).values()

    def _evaluation(self, look: Look, after: Place | None, limit: int) -> Evaluation:
        return Evaluation(look=look, after=after, limit=limit, source=self)

    def _markable(self, look: Look, entry: Entry) -> bool:
        hidden = look.viewer.marks.by_burst.get(entry.key) is Mark.HIDDEN
        return hidden or look.admits(entry)
