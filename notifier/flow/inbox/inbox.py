"""The inbox: pages, badges and marks of viewers, from caches that are proved current for every single request."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from notifier.bounded_executor import Crowded
from notifier.domain.bursts.burst import Burst, expires_at
from notifier.domain.errors import NotFound, StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, UserId
from notifier.domain.users.visibility import Mark, SeenToken
from notifier.flow.inbox.burst_walk import Walk
from notifier.flow.inbox.cached_walk import CachedWalk
from notifier.flow.inbox.digests import Digests, digests_by, due_next
from notifier.flow.inbox.evaluation import Evaluation, Listing, partial_page, seen_token
from notifier.flow.inbox.last_known_pages import Lately, PageRenderer, adopted, remembered_page
from notifier.flow.inbox.page import Badge, Entry, InboxView, OpenedInbox, Page, badge_of
from notifier.flow.inbox.store_breaker import ReadDeadline, StoreBreaker
from notifier.flow.inbox.subject_cache import SubjectCache
from notifier.flow.inbox.subject_news import SubjectNews
from notifier.flow.inbox.viewer_cache import CachedFirstPage, CachedViewer, ViewerCache
from notifier.flow.inbox.viewer_facts import ViewerFacts
from notifier.metrics import Metrics
from notifier.ports.coordination import Clock
from notifier.ports.inbox import InboxPosition, Timeline
from notifier.ports.inbox_versions import VersionLook
from notifier.ports.pull_index import PullReader
from notifier.ports.users import People

# The tab: what a person sees, each page and badge at one moment, judged by the predicate alone.


class OpeningObserver(Protocol):
    def observe(self, opened: OpenedInbox) -> None:
        """Called with every answer before it is sent. Returns at once and raises nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    people: People
    timeline: Timeline
    pull: PullReader
    clock: Clock
    observers: Sequence[OpeningObserver] = ()
    lately: Lately = field(default_factory=Lately)

    async def page(self, user: UserId, *, after: InboxPosition | None = None, limit: int = 20) -> Page:
        """Raises NotFound for a user that doesn't exist, StoreUnavailable when not even a partial page can be had."""
        return await self._page(await self._look(user), after=after, limit=limit)

    async def badge(self, user: UserId) -> Badge:
        """As many as a walk through all pages of the same moment would show unread."""
        look = await self._look(user)
        badge = await self._badge(look)
        self.observe(OpenedInbox(look=look, after=None, page=None, badge=badge))
        return badge

    async def open(
        self, user: UserId, *, after: InboxPosition | None = None, limit: int = 20
    ) -> tuple[Page, Badge | None]:
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
        self.observe(OpenedInbox(look=page.look, after=after, page=page, badge=badge))
        return page, badge

    def observe(self, opened: OpenedInbox) -> None:
        """Pass an answer to the observers."""
        for observer in self.observers:
            observer.observe(opened)

    async def _badge_or_none(self, look: InboxView) -> Badge | None:
        try:
            return await self._badge(look)
        except StoreUnavailable:
            return None

    async def _page(self, look: InboxView, *, after: InboxPosition | None, limit: int) -> Page:
        page, _ = await self._evaluation(look, after, limit).page(self._listing(look, after))
        return page

    async def _badge(self, look: InboxView) -> Badge:
        return badge_of(await self.unread(look))

    async def unread(self, look: InboxView) -> set[BurstKey]:
        """Everything unread, or more than a badge counts. Raises StoreUnavailable."""
        return {*await self._evaluation(look, None, 0).unread(self._listing(look, None))}

    async def entries(self, look: InboxView, keys: Collection[BurstKey]) -> Mapping[BurstKey, Entry]:
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

    async def _look(self, user: UserId) -> InboxView:
        member = await self.people.member(user)
        if member is None:
            raise NotFound(f"The user is {user}.")
        return InboxView(viewer=await self.people.viewer(user, member), member=member, now=self.clock.now())

    def _listing(self, look: InboxView, after: InboxPosition | None) -> Listing:
        digests = Digests(timeline=self.timeline, look=look, after=after)
        return Listing(walk=self._walk(look, after), digests=digests)

    def _walk(self, look: InboxView, after: InboxPosition | None) -> Walk:
        return Walk(
            timeline=self.timeline,
            pull=self.pull,
            subjects=look.subjects,
            authors=look.viewer.authors,
            member=look.member,
            now=look.now,
            after=after,
        )

    async def pointed_to(self, look: InboxView, after: InboxPosition | None, limit: int) -> Collection[Entry]:
        """What the inbox rows point to. Raises StoreUnavailable."""
        rows = await self.timeline.rows(look.member, look.subjects, after, limit)
        return (await self.timeline.bursts([row.burst for row in rows])).values()

    def _evaluation(self, look: InboxView, after: InboxPosition | None, limit: int) -> Evaluation:
        return Evaluation(look=look, after=after, limit=limit, source=self)

    def _markable(self, look: InboxView, entry: Entry) -> bool:
        hidden = look.viewer.marks.by_burst.get(entry.key) is Mark.HIDDEN
        return hidden or look.admits(entry)


LAST_KNOWN_FOR = timedelta(minutes=15)
"""As long a block that was set elsewhere, after the page was made, goes unnoticed while the store is away. Nobody is
shown what they were not shown before."""
TOKENS_KEPT = timedelta(seconds=10)
"""A `seen` token may be so much older than its answer: it covers a little less, and never too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    people: People
    facts: ViewerFacts
    subjects: SubjectCache
    viewers: ViewerCache
    deadline: ReadDeadline
    breaker: StoreBreaker
    clock: Clock
    metrics: Metrics
    observers: Sequence[OpeningObserver] = ()
    renderer: PageRenderer | None = None
    """Renders pages for other processes to send; without one they are not kept rendered."""
    maker: bytes = b""
    """Names the software and the secret by which pages are made: those of another one are not shown."""

    async def open(self, user: UserId, *, after: InboxPosition | None = None, limit: int = 20) -> CachedFirstPage:
        """Return a page and the badge of the same moment; without a badge where the store stopped answering in between.

        Where the store does not answer, what this process showed the viewer last, as a partial page. Raises NotFound
        for a user that does not exist, and StoreUnavailable where not even that can be had.
        """
        cached = self.viewers.get(user)
        try:
            opening = await self._tried(user, cached, after, limit)
        except Crowded:
            raise
        except StoreUnavailable:
            if after is not None:
                raise
            self.metrics.inbox_partial.inc()
            opening = self._last_known(user, limit) or await self._from_rows(user, limit)
        self.observe(OpenedInbox(look=opening.page.look, after=after, page=opening.page, badge=opening.badge))
        return opening

    async def page(self, user: UserId, *, after: InboxPosition | None = None, limit: int = 20) -> Page:
        """Return a page without a badge. Raises as `open` does."""
        viewer = await self.facts.current(user)
        listing = await self._listing(self._look(viewer), after)
        page, _ = await self._evaluation(self._look(viewer), after, limit).page(listing)
        return page

    async def badge(self, user: UserId) -> Badge:
        """Return how many items a walk through all pages of this moment would show as unread. Raises as `open` does."""
        cached = self.viewers.get(user)
        opening = await self._tried(user, cached, None, next(iter(cached.openings), 20) if cached else 20)
        if opening.badge is None:
            raise StoreUnavailable("The badge could not be counted.")
        look = replace(opening.page.look, now=self.clock.now())
        self.observe(OpenedInbox(look=look, after=None, page=None, badge=opening.badge))
        return opening.badge

    def observe(self, opened: OpenedInbox) -> None:
        """Pass an answer to the observers."""
        for observer in self.observers:
            observer.observe(opened)

    async def see(self, user: UserId, token: SeenToken) -> None:
        viewer = await self.facts.current(user)
        await self.people.see(viewer.member, token.as_of, token.newer)
        self.viewers.remark(user, viewer.viewer.marks.with_seen(token))

    async def mark(self, user: UserId, bursts: Collection[BurstKey], mark: Mark) -> None:
        """Raises NotFound for a burst that the viewer does not see: a mark is no way to ask what exists."""
        viewer = await self.facts.current(user)
        look = self._look(viewer)
        known = await self.entries(look, bursts)
        for key in bursts:
            if key not in known or not _markable(look, known[key]):
                raise NotFound("A burst is not in the person's inbox.")
        await self.people.mark(viewer.member, bursts, mark)
        self.viewers.remark(user, viewer.viewer.marks.with_mark(bursts, mark))

    async def entries(self, look: InboxView, keys: Collection[BurstKey]) -> Mapping[BurstKey, Entry]:
        """Return the entries, visible or not; of digests only the viewer's own. Raises StoreUnavailable."""
        days = {key for key in keys if key.subject.kind is Kind.DIGEST}
        known: dict[BurstKey, Entry] = dict(await self.subjects.bodies([*{*keys} - days]))
        return known | await digests_by(self.subjects.timeline, look, days)

    async def pointed_to(self, look: InboxView, after: InboxPosition | None, limit: int) -> Collection[Entry]:
        """Return what the viewer's inbox rows point to. Raises StoreUnavailable."""
        rows = await self.subjects.timeline.rows(look.member, look.subjects, after, limit)
        return (await self.subjects.bodies([row.burst for row in rows])).values()

    async def _tried(
        self, user: UserId, cached: CachedViewer | None, after: InboxPosition | None, limit: int
    ) -> CachedFirstPage:
        """As `_open`, but while the store fails, whoever was shown a page before is not kept waiting."""
        now = self.clock.now()
        has_something = after is None and _last_page(cached, now) is not None
        if has_something and not self.breaker.allows(now):
            raise StoreUnavailable("It has failed just now.")
        try:
            # Whoever pages on has been let in before.
            if has_something or (cached is not None and after is not None):
                opening = await self._open(user, after, limit, now, has_something=has_something)
            else:
                async with self.deadline.turn():
                    opening = await self._open(user, after, limit, now, has_something=False)
        except Crowded:
            raise
        except StoreUnavailable:
            self.breaker.failed(self.clock.now())
            raise
        self.breaker.worked(now)
        return opening

    async def _open(
        self, user: UserId, after: InboxPosition | None, limit: int, began: datetime, *, has_something: bool
    ) -> CachedFirstPage:
        """`has_something`: a page to show instead, so it is not waited for as long."""
        viewer, found = await self._known(user, has_something=has_something)
        if viewer is not None and after is None and (opening := self._holding(viewer, limit, began)) is not None:
            return self._renewed(viewer, opening, limit, began)
        async with self.deadline.limit(cold=not has_something):
            viewer = viewer or await self.facts.read(user, found)
            if after is not None:
                return await self._later(viewer, after, limit)
            opening = await self._first(viewer, limit, began)
        if self.facts.remembers(viewer):
            page = remembered_page(opening, limit, self.renderer, self.maker)
            if page is not None:
                await self.facts.remember(viewer, page)
        return opening

    async def _later(self, viewer: CachedViewer, after: InboxPosition, limit: int) -> CachedFirstPage:
        look = self._look(viewer)
        page, _ = await self._evaluation(look, after, limit).page(await self._listing(look, after))
        unread = None if page.partial else await self._unread_or_none(look, await self._listing(look, None))
        return CachedFirstPage(
            page=page, badge=_badge(unread), turn=self.subjects.turn, current_at=look.now, valid_until=look.now
        )

    async def _known(self, user: UserId, *, has_something: bool) -> tuple[CachedViewer | None, VersionLook | None]:
        if has_something:
            return await self.facts.known(user, patient=False)
        async with self.deadline.limit(cold=True):
            return await self.facts.known(user, patient=True)

    def _holding(self, viewer: CachedViewer, limit: int, began: datetime) -> CachedFirstPage | None:
        """The first page as it was evaluated before, where that still holds."""
        opening = viewer.openings.get(limit) or self._adopted(viewer, limit, began)
        now, subjects = self.clock.now(), self.subjects
        if opening is None or not viewer.versions or not opening.holds(now, subjects.turn, subjects.changes):
            self.viewers.page_hits.missed.inc()
            return None
        self.viewers.page_hits.hit.inc()
        return opening

    def _adopted(self, viewer: CachedViewer, limit: int, began: datetime) -> CachedFirstPage | None:
        """The first page as another process evaluated it, where nothing has changed since."""
        page, viewer.page = viewer.page, None
        if page is None or page.limit != limit or page.maker != self.maker:
            return None
        look = InboxView(viewer=viewer.viewer, member=viewer.member, now=began)
        if not self.subjects.changes.proves(look.subjects, page.current_at):
            return None
        opening = adopted(page, look, self.subjects.turn)
        viewer.keep(limit, opening)
        self.viewers.measure(viewer)
        return opening

    def _renewed(self, viewer: CachedViewer, opening: CachedFirstPage, limit: int, now: datetime) -> CachedFirstPage:
        """Tell an opening that was proved after `now` anew: its `seen` token covers what could be shown by then."""
        if now - opening.page.look.now < TOKENS_KEPT:
            return opening
        look = replace(opening.page.look, now=now)
        seen = seen_token(look, [item.entry for item in opening.page.items], None)
        renewed = replace(opening, page=replace(opening.page, look=look, seen=seen))
        viewer.keep(limit, renewed)
        return renewed

    async def _first(self, viewer: CachedViewer, limit: int, began: datetime) -> CachedFirstPage:
        look = self._look(viewer)
        turn = self.subjects.turn  # before anything is read: what changes from here on is noticed the next time
        subjects = [*look.subjects, *look.digested]
        news = await self.subjects.read(subjects)
        evaluation, listing = self._evaluation(look, None, limit), await self._listing(look, None, news)
        page, admitted = await evaluation.page(listing)
        unread = None if page.partial else await self._unread_or_none(look, listing, admitted)
        before = viewer.openings.get(limit)
        opening = CachedFirstPage(
            page=page,
            badge=_badge(unread),
            turn=turn,
            current_at=began,
            valid_until=_valid_until(page, [*admitted, *(unread or {}).values()]),
            subjects=subjects,
            # What another process rendered is of its page, and of no later one.
            rendered=None if before is None or isinstance(before.rendered, bytes) else before.rendered,
        )
        if unread is not None and viewer.versions and all(one.followed for one in news):
            viewer.keep(limit, opening)
            self.viewers.measure(viewer)
        return opening

    async def _unread_or_none(
        self, look: InboxView, listing: Listing, admitted: Sequence[Entry] = ()
    ) -> Mapping[BurstKey, Entry] | None:
        try:
            return await self._evaluation(look, None, 0).unread(listing, admitted)
        except StoreUnavailable:
            return None

    async def _from_rows(self, user: UserId, limit: int) -> CachedFirstPage:
        """What a viewer's inbox rows point to, where this process knows nothing else. Raises as `open` does."""
        async with self.deadline.turn(), self.deadline.limit(cold=True):
            viewer = await self.facts.read(user, None)
            page = await self._evaluation(self._look(viewer), None, limit).partial()
        return CachedFirstPage(page=page, badge=None, turn=0, current_at=page.look.now, valid_until=page.look.now)

    def _last_known(self, user: UserId, limit: int) -> CachedFirstPage | None:
        """What the viewer was shown last, judged by what was known then; some may be missing, and the page says so."""
        cached, now = self.viewers.get(user), self.clock.now()
        if cached is None or (last := _last_page(cached, now)) is None:
            return None
        # A digest's bursts may have been taken back since, and it would take the store to tell.
        entries = [self.subjects.latest(item.entry) for item in last.items if isinstance(item.entry, Burst)]
        page = partial_page(InboxView(viewer=cached.viewer, member=cached.member, now=now), entries, limit)
        return CachedFirstPage(page=page, badge=None, turn=0, current_at=now, valid_until=now)

    def _look(self, viewer: CachedViewer) -> InboxView:
        return InboxView(viewer=viewer.viewer, member=viewer.member, now=self.clock.now())

    async def _listing(
        self, look: InboxView, after: InboxPosition | None, news: Sequence[SubjectNews] | None = None
    ) -> Listing:
        subjects = look.subjects
        if news is None:
            news = await self.subjects.read(subjects)
        walk = CachedWalk(
            cache=self.subjects,
            news=news[: len(subjects)],
            subjects=subjects,
            authors=look.viewer.authors,
            after=after,
        )
        return Listing(walk=walk, digests=Digests(timeline=self.subjects.timeline, look=look, after=after))

    def _evaluation(self, look: InboxView, after: InboxPosition | None, limit: int) -> Evaluation:
        return Evaluation(look=look, after=after, limit=limit, source=self)


def _last_page(cached: CachedViewer | None, now: datetime) -> Page | None:
    last = cached.last if cached else None
    return last if last and now - last.look.now <= LAST_KNOWN_FOR else None


def _badge(unread: Mapping[BurstKey, Entry] | None) -> Badge | None:
    return None if unread is None else badge_of(unread)


def _valid_until(page: Page, counted: Sequence[Entry]) -> datetime:
    """When time alone may change the page or its badge: an entry expires, one that is ahead of the clock arrives, a
    digest falls due."""
    look = page.look
    ends = [expires_at(entry.opened_at) for entry in counted]
    ends += [entry.opened_at for entry in counted if entry.opened_at > look.now]
    if (due := due_next(look, look.now)) is not None:
        ends.append(due)
    return min(ends, default=look.now + timedelta(days=1))


def _markable(look: InboxView, entry: Entry) -> bool:
    hidden = look.viewer.marks.by_burst.get(entry.key) is Mark.HIDDEN
    return hidden or look.admits(entry)
