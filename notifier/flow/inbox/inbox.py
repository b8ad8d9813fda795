"""Inbox pages, badges and marks, with caches (`Inbox`) or without (`UncachedInbox`)."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from notifier.concurrency_and_time_limits import TooManyWaiting
from notifier.domain.bursts.burst import Burst, expires_at
from notifier.domain.errors import NotFound, StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, UserId
from notifier.domain.users.visibility import Mark, SeenToken
from notifier.flow.inbox.burst_walk import BurstWalk
from notifier.flow.inbox.cached_burst_walk import CachedWalk
from notifier.flow.inbox.digest_walk import DigestWalk, next_digest_due, read_digests
from notifier.flow.inbox.last_known_and_shared_pages import (
    MAX_PAGE_AGE,
    LastKnownPages,
    PageRenderer,
    adopt_page,
    page_to_remember,
)
from notifier.flow.inbox.newest_bursts_and_change_times import SubjectPositions
from notifier.flow.inbox.page import Badge, Entry, InboxView, OpenedInbox, Page, badge_of
from notifier.flow.inbox.page_and_unread_entries import Evaluation, Listing, partial_page, seen_token
from notifier.flow.inbox.page_deadline_and_breaker import ReadDeadline, StoreBreaker
from notifier.flow.inbox.shared_loads import SharedLoads
from notifier.flow.inbox.subject_cache import SubjectCache
from notifier.flow.inbox.viewer_and_page_cache import CachedViewer, InboxAnswer, ViewerCache
from notifier.flow.inbox.viewer_facts import ViewerFactsReader
from notifier.metrics import Metrics
from notifier.ports.inbox import InboxPosition, Timeline
from notifier.ports.inbox_cache_freshness import VersionLookup
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.pull_index import PullReader
from notifier.ports.viewers_preferences_user_blocks import People

FirstPageKey = tuple[UserId, int, int, bool]
"""A user, the page's size, `id()` of the proved viewer facts or of None, and whether there is a fallback page."""


class AnswerObserver(Protocol):
    def observe(self, opened: OpenedInbox) -> None:
        """Receive an answer before the client does. Must not block or raise."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UncachedInbox:
    """Inbox without caches. Last known pages are shown only during store outages."""

    people: People
    timeline: Timeline
    pull: PullReader
    clock: Clock
    observers: Sequence[AnswerObserver] = ()
    last_known_pages: LastKnownPages = field(default_factory=LastKnownPages)

    async def page(self, user: UserId, *, after: InboxPosition | None = None, limit: int = 20) -> Page:
        """Return a page. Raises NotFound and StoreUnavailable."""
        return await self._page(await self._view(user), after=after, limit=limit)

    async def badge(self, user: UserId) -> Badge:
        """Return the number of unread entries on all pages together, up to BADGE_LIMIT."""
        view = await self._view(user)
        badge = await self._badge(view)
        self.observe(OpenedInbox(view=view, after=None, page=None, badge=badge))
        return badge

    async def open(
        self, user: UserId, *, after: InboxPosition | None = None, limit: int = 20
    ) -> tuple[Page, Badge | None]:
        """Return a page and the badge of the same moment.

        The badge is None on a partial page, or if it could not be counted. If no page can be read, a request for the
        first page gets the user's last known page, if recent, marked partial. Raises NotFound and StoreUnavailable.
        """
        try:
            page = await self.page(user, after=after, limit=limit)
        except StoreUnavailable:
            if (
                after is not None
                or (last_known := self.last_known_pages.partial_page(user, self.clock.now(), limit)) is None
            ):
                raise
            page = last_known
        if after is None and not page.partial:
            self.last_known_pages.put(page)
        badge = None if page.partial else await self._badge_or_none(page.view)
        self.observe(OpenedInbox(view=page.view, after=after, page=page, badge=badge))
        return page, badge

    def observe(self, opened: OpenedInbox) -> None:
        for observer in self.observers:
            observer.observe(opened)

    async def _badge_or_none(self, view: InboxView) -> Badge | None:
        try:
            return await self._badge(view)
        except StoreUnavailable:
            return None

    async def _page(self, view: InboxView, *, after: InboxPosition | None, limit: int) -> Page:
        page, _ = await self._evaluation(view, after, limit).page(self._listing(view, after))
        return page

    async def _badge(self, view: InboxView) -> Badge:
        return badge_of(await self.unread_keys(view))

    async def unread_keys(self, view: InboxView) -> set[BurstKey]:
        """Return the keys of the unread entries; not all, if there are more than BADGE_LIMIT."""
        return {*await self._evaluation(view, None, 0).unread_entries(self._listing(view, None))}

    async def entries(self, view: InboxView, keys: Collection[BurstKey]) -> Mapping[BurstKey, Entry]:
        digest_keys = {key for key in keys if key.subject.kind is Kind.DIGEST}
        burst_keys = {*keys} - digest_keys
        entries: dict[BurstKey, Entry] = dict(await self.timeline.bursts(burst_keys) if burst_keys else {})
        return entries | await read_digests(self.timeline, view, digest_keys)

    async def see(self, user: UserId, token: SeenToken) -> None:
        """Mark everything that the token covers as seen. Raises NotFound, StoreUnavailable and DiskFull."""
        view = await self._view(user)
        await self.people.mark_seen(view.member, token.as_of, token.newer)
        self.last_known_pages.apply_seen(user, token)

    async def mark(self, user: UserId, bursts: Collection[BurstKey], mark: Mark) -> None:
        """Set the mark of each burst. Raises NotFound, StoreUnavailable and DiskFull.

        Also raises NotFound for an entry that the user may not mark: marks must not reveal which bursts exist.
        """
        view = await self._view(user)
        entries = await self.entries(view, bursts)
        for key in bursts:
            if key not in entries or not _may_mark(view, entries[key]):
                raise NotFound("A burst is not in the user's inbox.")
        await self.people.mark(view.member, bursts, mark)
        self.last_known_pages.apply_mark(user, bursts, mark)

    async def _view(self, user: UserId) -> InboxView:
        member = await self.people.member(user)
        if member is None:
            raise NotFound(f"Unknown user: {user}.")
        return InboxView(viewer=await self.people.viewer(user, member), member=member, now=self.clock.now())

    def _listing(self, view: InboxView, after: InboxPosition | None) -> Listing:
        digest_walk = DigestWalk(timeline=self.timeline, view=view, after=after)
        return Listing(walk=self._walk(view, after), digest_walk=digest_walk)

    def _walk(self, view: InboxView, after: InboxPosition | None) -> BurstWalk:
        return BurstWalk(
            timeline=self.timeline,
            pull=self.pull,
            subjects=view.subjects,
            visible_from=view.viewer.follows,
            authors=view.viewer.readable_authors,
            member=view.member,
            now=view.now,
            after=after,
        )

    async def row_entries(self, view: InboxView, limit: int) -> Collection[Entry]:
        rows = await self.timeline.rows(view.member, view.subjects, None, limit)
        return (await self.timeline.bursts([row.burst for row in rows])).values()

    def _evaluation(self, view: InboxView, after: InboxPosition | None, limit: int) -> Evaluation:
        return Evaluation(view=view, after=after, limit=limit, source=self)


SEEN_TOKEN_MAX_AGE = timedelta(seconds=10)
"""A cached page with a `seen` token of this age gets a new token, which covers more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """Inbox with caches. A page is made from cached data that is proved current, or from the store, or is partial."""

    people: People
    facts: ViewerFactsReader
    subject_cache: SubjectCache
    viewers: ViewerCache
    first_pages: SharedLoads[FirstPageKey, InboxAnswer]
    deadline: ReadDeadline
    breaker: StoreBreaker
    clock: Clock
    metrics: Metrics
    observers: Sequence[AnswerObserver] = ()
    renderer: PageRenderer | None = None
    """Renders a VIP's page for other processes. None: pages are stored in Redis without a rendering."""
    renderer_id: bytes = b""
    """Identifies the software and the secret that render pages. A remembered page with another id is ignored."""

    async def open(self, user: UserId, *, after: InboxPosition | None = None, limit: int = 20) -> InboxAnswer:
        """Return a page and the badge of the same moment.

        The badge is None on a partial page, or if it could not be counted. If the store fails, a first page is partial:
        the viewer's last cached page, if recent, or a page of the viewer's inbox rows.

        Raises NotFound, and StoreUnavailable if there is no fallback or the process is overloaded.
        """
        cached = self.viewers.get(user)
        try:
            answer = await self._open_with_breaker(user, cached, after, limit)
        except TooManyWaiting:  # the process is overloaded, and a fallback would add work
            raise
        except StoreUnavailable:
            if after is not None:
                raise
            self.metrics.inbox_partial.inc()
            answer = self._last_known(user, limit) or await self._from_rows(user, limit)
        self.observe(OpenedInbox(view=answer.page.view, after=after, page=answer.page, badge=answer.badge))
        return answer

    async def page(self, user: UserId, *, after: InboxPosition | None = None, limit: int = 20) -> Page:
        cached = await self.facts.current(user)
        listing = await self._listing(self._view(cached), after)
        page, _ = await self._evaluation(self._view(cached), after, limit).page(listing)
        return page

    async def badge(self, user: UserId) -> Badge:
        cached = self.viewers.get(user)
        limit = next(iter(cached.first_pages), 20) if cached else 20  # the size of a cached page, if any
        answer = await self._open_with_breaker(user, cached, None, limit)
        if answer.badge is None:
            raise StoreUnavailable("The badge could not be counted.")
        view = replace(answer.page.view, now=self.clock.now())
        self.observe(OpenedInbox(view=view, after=None, page=None, badge=answer.badge))
        return answer.badge

    def observe(self, opened: OpenedInbox) -> None:
        for observer in self.observers:
            observer.observe(opened)

    async def see(self, user: UserId, token: SeenToken) -> None:
        cached = await self.facts.current(user)
        await self.people.mark_seen(cached.member, token.as_of, token.newer)
        self.viewers.set_marks(user, cached.viewer.marks.with_seen(token))

    async def mark(self, user: UserId, bursts: Collection[BurstKey], mark: Mark) -> None:
        cached = await self.facts.current(user)
        view = self._view(cached)
        entries = await self.entries(view, bursts)
        for key in bursts:
            if key not in entries or not _may_mark(view, entries[key]):
                raise NotFound("A burst is not in the user's inbox.")
        await self.people.mark(cached.member, bursts, mark)
        self.viewers.set_marks(user, cached.viewer.marks.with_mark(bursts, mark))

    async def entries(self, view: InboxView, keys: Collection[BurstKey]) -> Mapping[BurstKey, Entry]:
        digest_keys = {key for key in keys if key.subject.kind is Kind.DIGEST}
        entries: dict[BurstKey, Entry] = dict(await self.subject_cache.read_bursts([*{*keys} - digest_keys]))
        return entries | await read_digests(self.subject_cache.timeline, view, digest_keys)

    async def row_entries(self, view: InboxView, limit: int) -> Collection[Entry]:
        rows = await self.subject_cache.timeline.rows(view.member, view.subjects, None, limit)
        return (await self.subject_cache.read_bursts([row.burst for row in rows])).values()

    async def _open_with_breaker(
        self, user: UserId, cached: CachedViewer | None, after: InboxPosition | None, limit: int
    ) -> InboxAnswer:
        """Call `_open`, or raise StoreUnavailable if there is a fallback page and the breaker rejects the call."""
        now = self.clock.now()
        has_fallback = after is None and _last_page(cached, now) is not None
        if has_fallback and not self.breaker.allows(now):
            raise StoreUnavailable("The store failed a moment ago.")
        try:
            # Slots limit concurrent cold reads: first pages without a fallback, and later pages without cached facts.
            if has_fallback or (cached is not None and after is not None):
                answer = await self._open(user, after, limit, now, has_fallback=has_fallback)
            else:
                async with self.deadline.slot():
                    answer = await self._open(user, after, limit, now, has_fallback=False)
        except TooManyWaiting:  # this process is overloaded: no failure of the store
            raise
        except StoreUnavailable as error:
            self.breaker.record_failure(error, self.clock.now())
            raise
        self.breaker.record_success(now)
        return answer

    async def _open(
        self, user: UserId, after: InboxPosition | None, limit: int, began_at: datetime, *, has_fallback: bool
    ) -> InboxAnswer:
        lookup_began_at = self.clock.now()
        cached, lookup = await self._proved_viewer(user, has_fallback=has_fallback)
        if cached is not None and after is None and (answer := self._cached_page(cached, limit, began_at)) is not None:
            self.metrics.inbox_seconds.labels("process").observe((self.clock.now() - began_at).total_seconds())
            return answer

        def limit_time() -> AbstractAsyncContextManager[None]:
            return self.deadline.limit(cold=not has_fallback, spent=self.clock.now() - lookup_began_at)

        async def load_first_page(*, after_another: bool) -> InboxAnswer:
            async with limit_time():
                return await self._load_first_page(user, cached, lookup, limit, began_at, after_another=after_another)

        if after is not None:
            async with limit_time():
                return await self._later_page(cached or await self.facts.read(user, lookup), after, limit)
        # Share a load only with requests that have the same facts. Facts that were proved current for another request
        # may lack a change made before this request. A load without facts reads them after it has begun.
        return await self.first_pages.load_anew((user, limit, id(cached), has_fallback), load_first_page)

    async def _load_first_page(
        self,
        user: UserId,
        cached: CachedViewer | None,
        lookup: VersionLookup | None,
        limit: int,
        began_at: datetime,
        *,
        after_another: bool,
    ) -> InboxAnswer:
        if after_another:  # the other load may have cached what this one needs
            if cached is None and lookup is not None:
                cached, lookup = await self.facts.proved(user, may_wait=True)
            if cached is not None and (answer := self._cached_page(cached, limit, began_at)) is not None:
                return answer
        if cached is None:
            cached = await self.facts.read(user, lookup)
            # The facts are often the same as before: while Redis is down, each request reads them.
            if (answer := self._cached_page(cached, limit, began_at)) is not None:
                return answer
        answer = await self._first_page(cached, limit, began_at)
        if self.facts.should_remember(cached):
            page = page_to_remember(answer, limit, self.renderer, self.renderer_id)
            if page is not None:
                await self.facts.remember(cached, page)
        return answer

    async def _later_page(self, cached: CachedViewer, after: InboxPosition, limit: int) -> InboxAnswer:
        view = self._view(cached)
        page, _ = await self._evaluation(view, after, limit).page(await self._listing(view, after))
        unread = await self._unread_or_none(view, await self._listing(view, None))
        return InboxAnswer(
            page=page,
            badge=_badge(unread),
            subject_cache_revision=self.subject_cache.revision,
            current_at=view.now,
            valid_until=view.now,
        )

    async def _proved_viewer(
        self, user: UserId, *, has_fallback: bool
    ) -> tuple[CachedViewer | None, VersionLookup | None]:
        if has_fallback:
            return await self.facts.proved(user, may_wait=False)
        async with self.deadline.limit(cold=True):
            return await self.facts.proved(user, may_wait=True)

    def _cached_page(self, cached: CachedViewer, limit: int, began_at: datetime) -> InboxAnswer | None:
        """Return the cached or remembered first page, if an evaluation now would show the same page.

        Call this right after the facts were proved or read, without an await in between.
        """
        answer = cached.first_pages.get(limit) or self._adopted_page(cached, limit, began_at)
        now, subject_cache = self.clock.now(), self.subject_cache
        if answer is None or not answer.is_current(now, subject_cache.revision, subject_cache.change_times):
            self.viewers.page_stats.misses.inc()
            return None
        self.viewers.page_stats.hits.inc()
        return self._with_fresh_token(cached, answer, limit, began_at)

    def _adopted_page(self, cached: CachedViewer, limit: int, began_at: datetime) -> InboxAnswer | None:
        """Return the remembered first page of another process, if its subjects have not changed since."""
        page, cached.remembered_page = cached.remembered_page, None
        if page is None or page.limit != limit or page.renderer_id != self.renderer_id:
            return None
        view = InboxView(viewer=cached.viewer, member=cached.member, now=began_at)
        if not self.subject_cache.change_times.are_unchanged_since(view.subjects, page.current_at):
            return None
        answer = adopt_page(page, view, self.subject_cache.revision)
        cached.put_first_page(limit, answer)
        self.viewers.update_size(cached)
        return answer

    def _with_fresh_token(
        self, cached: CachedViewer, answer: InboxAnswer, limit: int, began_at: datetime
    ) -> InboxAnswer:
        """Return the answer, with a new `seen` token if the old token has reached SEEN_TOKEN_MAX_AGE.

        The answer was proved current after `began_at`. So a token made at `began_at` covers nothing that the answer
        lacks.
        """
        if began_at - answer.page.view.now < SEEN_TOKEN_MAX_AGE:
            return answer
        view = replace(answer.page.view, now=began_at)
        seen = seen_token(view, [item.entry for item in answer.page.items], None)
        renewed = replace(answer, page=replace(answer.page, view=view, seen=seen))
        cached.put_first_page(limit, renewed)
        return renewed

    async def _first_page(self, cached: CachedViewer, limit: int, began_at: datetime) -> InboxAnswer:
        view = self._view(cached)
        revision = self.subject_cache.revision  # taken before any read, so that later changes invalidate the page
        subjects = [*view.subjects, *view.digest_subjects]
        lists = await self.subject_cache.read(subjects)
        evaluation, listing = self._evaluation(view, None, limit), await self._listing(view, None, lists)
        page, visible = await evaluation.page(listing)
        unread = None if page.partial else await self._unread_or_none(view, listing, visible)
        previous = cached.first_pages.get(limit)
        answer = InboxAnswer(
            page=page,
            badge=_badge(unread),
            subject_cache_revision=revision,
            current_at=began_at,
            valid_until=_valid_until(page, [*visible, *(unread or {}).values()]),
            subjects=subjects,
            # The renderer reuses parts of the previous page's rendering. Leave out bytes: the renderer would take them
            # for a rendering of this page.
            rendered=None if previous is None or isinstance(previous.rendered, bytes) else previous.rendered,
        )
        if unread is not None and all(subject_list.is_followed for subject_list in lists):
            cached.put_first_page(limit, answer)
            self.viewers.update_size(cached)
        return answer

    async def _unread_or_none(
        self, view: InboxView, listing: Listing, visible: Sequence[Entry] = ()
    ) -> Mapping[BurstKey, Entry] | None:
        try:
            return await self._evaluation(view, None, 0).unread_entries(listing, visible)
        except StoreUnavailable:
            return None

    async def _from_rows(self, user: UserId, limit: int) -> InboxAnswer:
        """Return a partial page of the bursts that the viewer's inbox rows point to."""
        async with self.deadline.slot(), self.deadline.limit(cold=True):
            cached = await self.facts.read(user, None)
            page = await self._evaluation(self._view(cached), None, limit).partial()
        return InboxAnswer(
            page=page, badge=None, subject_cache_revision=0, current_at=page.view.now, valid_until=page.view.now
        )

    def _last_known(self, user: UserId, limit: int) -> InboxAnswer | None:
        """Return the last cached page as a partial page, evaluated again with the cached facts."""
        cached, now = self.viewers.get(user), self.clock.now()
        if cached is None or (last_page := _last_page(cached, now)) is None:
            return None
        # Digests are left out: their bursts may have been retracted since, and only the store knows.
        entries = [
            self.subject_cache.newest_state(item.entry) for item in last_page.items if isinstance(item.entry, Burst)
        ]
        page = partial_page(InboxView(viewer=cached.viewer, member=cached.member, now=now), entries, limit)
        return InboxAnswer(page=page, badge=None, subject_cache_revision=0, current_at=now, valid_until=now)

    def _view(self, cached: CachedViewer) -> InboxView:
        return InboxView(viewer=cached.viewer, member=cached.member, now=self.clock.now())

    async def _listing(
        self, view: InboxView, after: InboxPosition | None, lists: Sequence[SubjectPositions] | None = None
    ) -> Listing:
        subjects = view.subjects
        if lists is None:
            lists = await self.subject_cache.read(subjects)
        walk = CachedWalk(
            cache=self.subject_cache,
            lists=lists[: len(subjects)],
            subjects=subjects,
            visible_from=view.viewer.follows,
            authors=view.viewer.readable_authors,
            after=after,
        )
        return Listing(walk=walk, digest_walk=DigestWalk(timeline=self.subject_cache.timeline, view=view, after=after))

    def _evaluation(self, view: InboxView, after: InboxPosition | None, limit: int) -> Evaluation:
        return Evaluation(view=view, after=after, limit=limit, source=self)


def _last_page(cached: CachedViewer | None, now: datetime) -> Page | None:
    page = cached.last_page if cached else None
    return page if page and now - page.view.now <= MAX_PAGE_AGE else None


def _badge(unread: Mapping[BurstKey, Entry] | None) -> Badge | None:
    return None if unread is None else badge_of(unread)


def _valid_until(page: Page, entries: Sequence[Entry]) -> datetime:
    """Return a time before which the page and its badge change only by a write."""
    view = page.view
    times = [expires_at(entry.opened_at) for entry in entries]
    times += [entry.opened_at for entry in entries if entry.opened_at > view.now]
    if (due := next_digest_due(view, view.now)) is not None:
        times.append(due)
    return min(times, default=view.now + timedelta(days=1))


def _may_mark(view: InboxView, entry: Entry) -> bool:
    """Return whether the viewer sees the entry, or has hidden it by a mark."""
    hidden = view.viewer.marks.by_burst.get(entry.key) is Mark.HIDDEN
    return hidden or view.is_visible(entry)
