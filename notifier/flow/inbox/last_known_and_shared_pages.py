"""Last known pages for store outages, and VIPs' pages shared through Redis."""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol, overload

from notifier.codec import pack, unpack
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.users.visibility import Mark, Marks, SeenToken
from notifier.flow.inbox.page import Badge, DigestItem, Entry, InboxItem, InboxView, Page
from notifier.flow.inbox.page_and_unread_entries import seen_token
from notifier.flow.inbox.viewer_and_page_cache import InboxAnswer
from notifier.ports.inbox_cache_freshness import RememberedPage

MAX_PAGE_AGE = timedelta(minutes=15)
"""Maximum age of a last known page. The page may ignore what changed since, such as a user block set through another
process. But it shows only bursts that the user was shown before."""
MAX_USERS = 2_000
"""Maximum users with a last known page."""
MAX_ITEMS = 20
"""Maximum items kept of a page."""


@dataclass(frozen=True, slots=True)
class LastKnownPages:
    """First pages that this process made, with the marks set through this process since."""

    _pages: OrderedDict[UserId, Page] = field(default_factory=OrderedDict)

    def put(self, page: Page) -> None:
        user, now = page.view.viewer.user, page.view.now
        items = [_without_digest_bursts(item) for item in page.items[:MAX_ITEMS]]
        self._pages[user] = replace(page, items=items, view=_reduced_view(page.view, [item.entry for item in items]))
        self._pages.move_to_end(user)
        while len(self._pages) > MAX_USERS or now - next(iter(self._pages.values())).view.now > MAX_PAGE_AGE:
            self._pages.popitem(last=False)

    def partial_page(self, user: UserId, now: datetime, limit: int) -> Page | None:
        """Return the last known page as a partial page, without entries that are no longer visible."""
        page = self._pages.get(user)
        if page is None or now - page.view.now > MAX_PAGE_AGE:
            return None
        view = replace(page.view, now=now)
        shown = [view.to_item(item.entry) for item in page.items if view.is_visible(item.entry)]
        return Page(items=shown[:limit], next=None, seen=None, partial=True, view=view)

    def apply_seen(self, user: UserId, token: SeenToken) -> None:
        if page := self._pages.get(user):
            self._set_marks(page, page.view.viewer.marks.with_seen(token))

    def apply_mark(self, user: UserId, bursts: Collection[BurstKey], mark: Mark) -> None:
        if page := self._pages.get(user):
            self._set_marks(page, page.view.viewer.marks.with_mark(bursts, mark))

    def _set_marks(self, page: Page, marks: Marks) -> None:
        viewer = replace(page.view.viewer, marks=marks)
        self._pages[viewer.user] = replace(page, view=replace(page.view, viewer=viewer))


def _without_digest_bursts(item: InboxItem) -> InboxItem:
    """Drop the bursts inside a digest, to save memory."""
    match item:
        case DigestItem():
            return replace(item, digest=replace(item.digest, newest=()), bursts=())
        case _:
            return item


def _reduced_view(view: InboxView, entries: Sequence[Entry]) -> InboxView:
    """Return the view with only the facts that decide about these entries. A viewer may have thousands of follows."""
    keys, viewer = {entry.key for entry in entries}, view.viewer
    bursts = [entry for entry in entries if isinstance(entry, Burst)]
    authors = {Subject(Kind.MENTION, burst.restricted_to) for burst in bursts if burst.restricted_to is not None}
    subjects = {key.subject for key in keys} | authors
    marks = replace(
        viewer.marks,
        also_seen=viewer.marks.also_seen & keys,
        by_burst={key: mark for key, mark in viewer.marks.by_burst.items() if key in keys},
    )
    reduced_viewer = replace(
        viewer,
        follows={subject: since for subject, since in viewer.follows.items() if subject in subjects},
        volume={subject: volume for subject, volume in viewer.volume.items() if subject in subjects},
        marks=marks,
    )
    return replace(view, viewer=reduced_viewer)


# First pages of VIPs: one process stores them in Redis, and other processes show them without evaluating them again.


class PageRenderer(Protocol):
    def render_for_sharing(self, answer: InboxAnswer) -> bytes:
        """Return the rendered page, from which other processes make their response."""
        ...


class RememberedItems(Sequence[InboxItem]):
    """Items of a remembered page, decoded on first access. A page with a rendering rarely needs them."""

    __slots__ = ("_bursts", "_count", "_decoded", "_view")

    def __init__(self, page: RememberedPage, view: InboxView) -> None:
        self._bursts, self._count, self._view = page.bursts, page.count, view
        self._decoded: Sequence[InboxItem] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> InboxItem: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[InboxItem]: ...
    def __getitem__(self, index: int | slice) -> InboxItem | Sequence[InboxItem]:
        if self._decoded is None:
            self._decoded = [self._view.to_item(burst) for burst in unpack(list[Burst], self._bursts)]
            self._bursts = b""
        return self._decoded[index]


def page_to_remember(
    answer: InboxAnswer, limit: int, renderer: PageRenderer | None, renderer_id: bytes
) -> RememberedPage | None:
    """Return the page to store in Redis; None if other processes could not use it.

    Pages of viewers with digests are not stored: no cache knows the contents of a digest.
    """
    page, badge = answer.page, answer.badge
    bursts = [item.entry for item in page.items if isinstance(item.entry, Burst)]
    if page.partial or badge is None or page.view.digest_subjects or len(bursts) < len(page.items):
        return None
    return RememberedPage(
        limit=limit,
        count=len(bursts),
        bursts=pack(bursts),
        newest=max((burst.opened_at for burst in bursts), default=None),
        next=page.next,
        unread=badge.count,
        more_unread=badge.more,
        current_at=answer.current_at,
        valid_until=answer.valid_until,
        rendered=b"" if renderer is None else renderer.render_for_sharing(answer),
        renderer_id=renderer_id,
    )


def adopt_page(page: RememberedPage, view: InboxView, subject_cache_revision: int) -> InboxAnswer:
    """Return the answer with a remembered page that is proved current at `view.now` and at this revision."""
    items = RememberedItems(page, view)
    seen = seen_token(view, [], None)
    if page.newest is not None and page.newest > seen.as_of:
        seen = seen_token(view, [item.entry for item in items], None)
    return InboxAnswer(
        page=Page(items=items, next=page.next, seen=seen, partial=False, view=view),
        badge=Badge(count=page.unread, more=page.more_unread),
        subject_cache_revision=subject_cache_revision,
        current_at=view.now,
        valid_until=page.valid_until,
        subjects=view.subjects,
        rendered=page.rendered or None,
        remembered_bytes=page.memory_bytes,
    )
