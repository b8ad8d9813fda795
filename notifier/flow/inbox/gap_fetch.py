"""Gap fetch: return a subject's visible bursts within a range of seqs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from notifier.domain.bursts.burst import RETENTION
from notifier.domain.errors import NotFound, StoreUnavailable
from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.users.subject_preferences import ALWAYS
from notifier.flow.inbox.burst_walk import LOWEST_KEY, position_of
from notifier.flow.inbox.page import BurstItem, Entry, InboxView
from notifier.ports.coordination import Clock
from notifier.ports.inbox import InboxPosition, Timeline
from notifier.ports.users import People

MAX_READ = 200
"""Bursts read per request: 2 ms of CPU in SQLite. The largest page shows 100."""

MAX_SEQ = 253_402_300_799
"""The last second of the year 9999, which is the last second that a `datetime` can hold."""

NO_SUBJECT = Subject(Kind.MENTION, UserId(""))
"""A subject that cannot exist. It is read instead of a subject that shows the viewer nothing, so the response time does
not reveal whether a subject exists."""


def opening_second(entry: Entry, now: datetime) -> datetime:
    """Return the second of the opening, as items show it.

    Bursts that are numbered together open a millisecond apart, so the last of many bursts can open in the future. A
    shown time in the future would reveal how many bursts there were.
    """
    return min(entry.opened_second, now.replace(microsecond=0))


def seq_of(entry: Entry, now: datetime) -> int:
    """Return the item's position in its subject: the second of the opening, in Unix time.

    The number that the sequence head gave the burst is never shown: its gaps count the bursts of protected accounts.
    """
    return _seq(opening_second(entry, now))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeqRange:
    """A range of seqs, both ends included."""

    first: int
    last: int | None = None
    """None: the range reaches to the newest burst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapPage:
    """One page of a range, newest first."""

    items: Sequence[BurstItem]
    next: InboxPosition | None
    """The next page starts behind this position; None at the end of the range."""
    partial: bool
    """True if the store failed, so that items may be missing."""
    view: InboxView


@dataclass(frozen=True, slots=True, kw_only=True)
class _Query:
    """The read that a request makes."""

    subject: Subject
    end: InboxPosition | None
    """Only bursts behind this position are read; None: from the newest burst on."""
    since: datetime

    def covers(self, entry: Entry) -> bool:
        is_in_range = entry.opened_at >= self.since and (self.end is None or position_of(entry) < self.end)
        return is_in_range and entry.key.subject == self.subject


@dataclass(frozen=True, slots=True, kw_only=True)
class GapFetch:
    """Reads the canonical bursts only, so a page needs no cache and no proof.

    Every request makes exactly one read of at most `max_read` bursts, whatever the subject is.
    """

    people: People
    timeline: Timeline
    clock: Clock
    max_read: int = MAX_READ

    async def fetch(
        self, user: UserId, subject: Subject, seqs: SeqRange, *, after: InboxPosition | None = None, limit: int = 50
    ) -> GapPage:
        """Return the page of the range that starts behind `after`.

        Raises NotFound for a user that does not exist, StoreUnavailable if not even a partial page can be read.
        """
        view = await self._view(user)
        query = _query(view, subject, seqs, after)
        try:
            run = await self.timeline.before(
                [query.subject], query.end, self.max_read, view.viewer.authors, query.since
            )
        except StoreUnavailable:
            return await self._partial(view, query, limit)
        visible = [burst for burst in run if view.is_visible(burst)]
        if len(visible) > limit:
            following: InboxPosition | None = position_of(visible[limit - 1])
        else:
            following = position_of(run[-1]) if len(run) == self.max_read else None
        return GapPage(items=[view.item(burst) for burst in visible[:limit]], next=following, partial=False, view=view)

    async def _view(self, user: UserId) -> InboxView:
        member = await self.people.member(user)
        if member is None:
            raise NotFound(f"Unknown user: {user}.")
        return InboxView(viewer=await self.people.viewer(user, member), member=member, now=self.clock.now())

    async def _partial(self, view: InboxView, query: _Query, limit: int) -> GapPage:
        """Return what the viewer's inbox rows point to. Not every burst has a row, so the page is partial."""
        rows = await self.timeline.rows(view.member, [query.subject], query.end, self.max_read)
        bursts = await self.timeline.bursts([row.burst for row in rows])
        visible = [burst for burst in bursts.values() if query.covers(burst) and view.is_visible(burst)]
        newest = sorted(visible, key=position_of, reverse=True)[:limit]
        return GapPage(items=[view.item(burst) for burst in newest], next=None, partial=True, view=view)


def _query(view: InboxView, subject: Subject, seqs: SeqRange, after: InboxPosition | None) -> _Query:
    """Narrow the range to what the viewer may see, so that nothing outside of it is read or counted."""
    current_seq = _seq(view.now)
    since = _visible_since(view, subject)
    if since is None or seqs.first > current_seq:
        return _Query(subject=NO_SUBJECT, end=None, since=view.now)
    # A burst that opens in the future is shown with the current second. A range that includes the current second must
    # include that burst, too.
    end = (
        None if seqs.last is None or seqs.last >= current_seq else InboxPosition(_opened_at(seqs.last + 1), LOWEST_KEY)
    )
    return _Query(
        subject=subject,
        end=min((position for position in (end, after) if position is not None), default=None),
        since=max(since, _opened_at(seqs.first), view.now - RETENTION),
    )


def _visible_since(view: InboxView, subject: Subject) -> datetime | None:
    """Return the opening time from which on the inbox lists the subject's bursts individually.

    None if it lists none.
    """
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
