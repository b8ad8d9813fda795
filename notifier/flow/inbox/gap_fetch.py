"""Gap fetch: returns the visible bursts of a subject that opened between two times.

A seq in this module is the Unix second of a burst's opening. `BurstKey.seq` is the number of a burst.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from notifier.domain.bursts.burst import RETENTION
from notifier.domain.errors import NotFound, StoreUnavailable
from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.users.subject_preferences import ALWAYS
from notifier.flow.inbox.burst_walk import LOWEST_KEY, position_of
from notifier.flow.inbox.page import BurstItem, Entry, InboxView
from notifier.ports.inbox import InboxPosition, Timeline
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.viewers_preferences_user_blocks import People

MAX_BURSTS_READ = 200
"""Maximum bursts per read: 2 ms of CPU in SQLite. The largest page shows 100."""

MAX_SEQ = 253_402_300_799
"""Highest seq: the last second that a `datetime` can hold, at the end of the year 9999."""

NO_SUBJECT = Subject(Kind.MENTION, UserId(""))
"""A subject that cannot exist. It is read in place of a subject whose bursts the viewer can't see: the response time
must not reveal whether the requested subject exists."""


def opening_second(entry: Entry, now: datetime) -> datetime:
    """Return the second of the opening as items show it, which is never in the future.

    Bursts that are numbered together open a millisecond apart, so the last of many bursts can open in the future. The
    true time would reveal how many bursts there were.
    """
    return min(entry.opened_second, now.replace(microsecond=0))


def seq_of(entry: Entry, now: datetime) -> int:
    """Return the seq of an entry. Clients get the seq, and not the burst's number.

    Gaps between numbers would reveal how many bursts by protected accounts there are.
    """
    return _seq(opening_second(entry, now))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeqRange:
    """Seqs of a request, both ends included."""

    first: int
    last: int | None = None
    """None: up to the newest burst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapPage:
    """One page of the bursts of a seq range, newest first."""

    items: Sequence[BurstItem]
    next: InboxPosition | None
    """Position after which the next page starts. None on the last page and on a partial page."""
    partial: bool
    """True if the store failed, so that items may be missing."""
    view: InboxView


@dataclass(frozen=True, slots=True, kw_only=True)
class _Query:
    subject: Subject
    end: InboxPosition | None
    """Only bursts older than this position are read. None: start at the newest burst."""
    since: datetime
    """Only bursts that opened at this time or later are read."""

    def covers(self, entry: Entry) -> bool:
        is_in_range = entry.opened_at >= self.since and (self.end is None or position_of(entry) < self.end)
        return is_in_range and entry.key.subject == self.subject


@dataclass(frozen=True, slots=True, kw_only=True)
class GapFetch:
    """Reads bursts from the store, without caches or the pull index."""

    people: People
    timeline: Timeline
    clock: Clock
    max_bursts_read: int = MAX_BURSTS_READ

    async def fetch(
        self, user: UserId, subject: Subject, seqs: SeqRange, *, after: InboxPosition | None = None, limit: int = 50
    ) -> GapPage:
        """Return the page that starts after the position `after`.

        Raises NotFound for a user that does not exist, and StoreUnavailable if not even a partial page can be read.
        """
        view = await self._view(user)
        query = _query(view, subject, seqs, after)
        try:
            run = await self.timeline.older_than(
                [query.subject], query.end, self.max_bursts_read, view.viewer.readable_authors, query.since
            )
        except StoreUnavailable:
            return await self._partial(view, query, limit)
        visible = [burst for burst in run if view.is_visible(burst)]
        if len(visible) > limit:
            next_position: InboxPosition | None = position_of(visible[limit - 1])
        else:
            next_position = position_of(run[-1]) if len(run) == self.max_bursts_read else None
        items = [view.burst_item(burst) for burst in visible[:limit]]
        return GapPage(items=items, next=next_position, partial=False, view=view)

    async def _view(self, user: UserId) -> InboxView:
        member = await self.people.member(user)
        if member is None:
            raise NotFound(f"Unknown user: {user}.")
        return InboxView(viewer=await self.people.viewer(user, member), member=member, now=self.clock.now())

    async def _partial(self, view: InboxView, query: _Query, limit: int) -> GapPage:
        """Return a page of the bursts that the viewer's inbox rows point to. Not every burst has a row."""
        rows = await self.timeline.rows(view.member, [query.subject], query.end, self.max_bursts_read)
        bursts = await self.timeline.bursts([row.burst for row in rows])
        visible = [burst for burst in bursts.values() if query.covers(burst) and view.is_visible(burst)]
        newest = sorted(visible, key=position_of, reverse=True)[:limit]
        return GapPage(items=[view.burst_item(burst) for burst in newest], next=None, partial=True, view=view)


def _query(view: InboxView, subject: Subject, seqs: SeqRange, after: InboxPosition | None) -> _Query:
    """Return the query, limited to the time in which the viewer's inbox lists the subject's bursts."""
    current_seq = _seq(view.now)
    since = _visible_since(view, subject)
    if since is None or seqs.first > current_seq:
        return _Query(subject=NO_SUBJECT, end=None, since=view.now)
    # A burst that opens in the future is shown with the current second (`opening_second`). So a request for the
    # current second must include it.
    end = (
        None if seqs.last is None or seqs.last >= current_seq else InboxPosition(_opened_at(seqs.last + 1), LOWEST_KEY)
    )
    return _Query(
        subject=subject,
        end=min((position for position in (end, after) if position is not None), default=None),
        since=max(since, _opened_at(seqs.first), view.now - RETENTION),
    )


def _visible_since(view: InboxView, subject: Subject) -> datetime | None:
    """Return the time since which the inbox lists the subject's bursts individually; None if it lists none of them."""
    viewer = view.viewer
    if subject not in view.subjects:
        return None
    if subject.kind is Kind.MENTION and subject.owner in viewer.blocked:
        return None
    return viewer.follows.get(subject, ALWAYS)


def _seq(opened_at: datetime) -> int:
    return int(opened_at.timestamp())


def _opened_at(seq: int) -> datetime:
    return datetime.fromtimestamp(seq, UTC)
