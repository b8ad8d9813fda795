"""Events of open streams, by the visibility rules of inbox pages.

This module does no I/O.
"""

from asyncio import Event as Wake
from asyncio import Lock
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Self

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Member, UserId
from notifier.domain.users.digest import Digest
from notifier.domain.users.visibility import CERTAINLY_VISIBLE_AGE, Mark, Viewer, is_unread, is_visible
from notifier.flow.inbox.digest_walk import changes_digest, digest_due_for
from notifier.flow.inbox.page import Badge, Entry, InboxItem, InboxView, badge_of

MAX_BUFFERED_BURSTS = 10_000
"""Maximum bursts kept for clients that reconnect, 20 MB. They cover the 15 minutes that a token is valid, if up to
eleven bursts a second are published."""
MAX_QUEUED_BURSTS = 100
"""Maximum bursts in a stream's queue. A client that reads too slowly for that is cut off."""
PAGE_SIZE = 20
"""Maximum number of events queued for a client that reconnects, and of queued bursts with changed marks. If there are
more, the client loads its first page again, with one request."""
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)


class StreamEvent(StrEnum):
    ROW = "row"
    """A burst that is new to the viewer."""
    GROUP = "group"
    """A burst that is not new to the viewer has changed."""
    MARKED = "marked"
    """A burst was marked on one of the viewer's devices, as read, unread, or visible again."""
    HIDDEN = "hidden"
    """The burst is no longer visible, for example because it was retracted, or the viewer hid it."""
    COUNT = "count"
    """The badge has changed."""
    RESET = "reset"
    """The client may lack something: it loads its first page again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPosition:
    """Content of an event id: the time up to which everything was sent, and fingerprints of the viewer's facts."""

    as_of: datetime
    visibility_fingerprint: bytes
    marks_fingerprint: bytes
    """Fingerprint of the marks as the client has them."""

    @classmethod
    def of_view(cls, view: InboxView) -> Self:
        """Return the position of a page. A stream that starts there sends the bursts published later.

        The page may lack bursts of the last CERTAINLY_VISIBLE_AGE before `view.now`, so the position is earlier by that
        time.
        """
        return cls(
            as_of=view.now - CERTAINLY_VISIBLE_AGE,
            visibility_fingerprint=visibility_fingerprint(view.viewer),
            marks_fingerprint=marks_fingerprint(view.viewer),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamUpdate:
    event: StreamEvent
    item: InboxItem | None = None
    """Item of a ROW, GROUP or MARKED event."""
    hidden_burst: BurstKey | None = None
    badge: Badge | None = None


def event_for(burst: Burst, before: Burst | None, view: InboxView, since: datetime) -> StreamEvent | None:
    """Return the event of a burst for a stream of the viewer; None if there is no event.

    Bursts that opened after `since` are new to the client. `before` is the earlier state of the burst; None if not
    known.
    """
    if not view.is_visible(burst):
        return StreamEvent.HIDDEN if _may_be_on_page(view, burst, before) else None
    if before is None:
        return StreamEvent.ROW if burst.opened_at > since else StreamEvent.GROUP
    # ROW if the viewer could not see the burst before, for example because all its mentioners were blocked.
    return StreamEvent.GROUP if is_visible(before, view.viewer, now=view.now) else StreamEvent.ROW


def _may_be_on_page(view: InboxView, burst: Burst, before: Burst | None) -> bool:
    """Return whether the viewer's page may still have a burst that is no longer visible.

    Bursts that the viewer could never see cause no event.
    """
    if before is not None:
        return view.is_visible(before)
    return burst.silent and view.is_visible(burst.before_retraction)


def visibility_fingerprint(viewer: Viewer) -> bytes:
    """Return a fingerprint of all facts, except marks, that decide which bursts the viewer sees."""
    follows = sorted((str(subject), since.timestamp()) for subject, since in viewer.follows.items())
    volumes = sorted((str(subject), volume) for subject, volume in viewer.volume.items())
    digests = (
        (viewer.account_preferences.zone, viewer.account_preferences.digest_hour) if viewer.digest_subjects else None
    )
    return _fingerprint((follows, sorted(viewer.blocked), volumes, viewer.account_preferences.volume, digests))


def marks_fingerprint(viewer: Viewer) -> bytes:
    """Return a fingerprint of the viewer's marks of single bursts. It does not cover what was marked as seen."""
    return _fingerprint(sorted((str(key), mark) for key, mark in viewer.marks.by_burst.items()))


def changed_marks(before: Viewer, after: Viewer) -> set[BurstKey]:
    old, new = before.marks.by_burst, after.marks.by_burst
    return {key for key in {*old, *new} if old.get(key) is not new.get(key)}


def _fingerprint(facts: object) -> bytes:
    """Return a hash of fixed length, from which the facts cannot be read."""
    return blake2b(repr(facts).encode(), digest_size=8).digest()


@dataclass(frozen=True, slots=True)
class BufferedBurst:
    burst: Burst
    received_at: datetime


@dataclass(slots=True, kw_only=True)
class RecentBurstBuffer:
    """The bursts that a process received last, in order of receipt, each in its latest state."""

    max_bursts: int = MAX_BUFFERED_BURSTS
    complete_since: datetime | None = None
    """The buffer has all bursts published from this time on, while the bus is connected. None before the connection."""
    bursts: "OrderedDict[BurstKey, BufferedBurst]" = field(default_factory=OrderedDict)

    def get(self, key: BurstKey) -> Burst | None:
        buffered = self.bursts.get(key)
        return buffered.burst if buffered else None

    def put(self, burst: Burst, now: datetime) -> None:
        self.bursts[burst.key] = BufferedBurst(burst, now)
        self.bursts.move_to_end(burst.key)
        if len(self.bursts) > self.max_bursts:
            _, oldest = self.bursts.popitem(last=False)
            self.complete_since = max(self.complete_since, oldest.received_at + TICK) if self.complete_since else None

    def received_since(self, since: datetime) -> Iterator[Burst]:
        """Yield the bursts received since this time, latest first."""
        for buffered in reversed(self.bursts.values()):
            if buffered.received_at < since:
                return
            yield buffered.burst

    def visible_since(self, view: InboxView, since: datetime) -> Iterator[Burst]:
        """Yield the bursts received since this time that the viewer sees one by one, not in a digest."""
        subjects = {*view.subjects}
        return (b for b in self.received_since(since) if b.key.subject in subjects and view.is_visible(b))


@dataclass(slots=True, kw_only=True, eq=False)
class Stream:
    """One open stream, with the events to send."""

    since: datetime
    """Bursts that opened later are new to the client."""
    ends_at: float
    """Unix time at which the client's token expires, in seconds."""
    written_at: datetime
    as_of: datetime = LONG_AGO
    """Time up to which everything was sent to the client."""
    marks_fingerprint: bytes = b""
    """Fingerprint of the user's marks, as last sent to the client."""
    queued: dict[BurstKey, tuple[StreamEvent, Entry]] = field(default_factory=dict)
    """Queued bursts that are new, have changed or are hidden, each with one event."""
    marked: dict[BurstKey, Entry] = field(default_factory=dict)
    """Queued bursts whose marks changed."""
    needs_reset: bool = False
    sent_badge: Badge | None = None
    is_writing: bool = False
    """Whether the write that began at `written_at` is in progress."""
    is_closing: bool = False
    """Whether the stream ends once everything queued is sent."""
    is_cut_off: bool = False
    """Whether the stream ends at once, without what is queued."""
    abort: Callable[[], object] | None = None
    wake_event: Wake = field(default_factory=Wake)

    def put(self, event: StreamEvent, entry: Entry) -> None:
        """Queue an event.

        If the burst of a queued ROW changes, the event stays a ROW, since the client has no row yet that a GROUP could
        change. If the burst is retracted before the queue is sent, only HIDDEN is sent.
        """
        queued_event, _ = self.queued.pop(entry.key, (event, entry))
        is_row = StreamEvent.ROW in (queued_event, event) and event is not StreamEvent.HIDDEN
        self.queued[entry.key] = StreamEvent.ROW if is_row else event, entry
        if len(self.queued) > MAX_QUEUED_BURSTS:
            self.cut_off()
        self.wake_event.set()

    def queue_marked(self, entries: Collection[Entry]) -> None:
        self.marked |= {entry.key: entry for entry in entries}
        if len(self.marked) > PAGE_SIZE:
            self.reset()
        self.wake_event.set()

    def reset(self) -> None:
        """Replace the queue by a RESET. The client then loads a page with everything that was queued."""
        self.queued.clear()
        self.marked.clear()
        self.needs_reset, self.sent_badge = True, None
        self.wake_event.set()

    def cut_off(self) -> None:
        self.is_cut_off = True
        if self.abort is not None:
            self.abort()

    def end(self) -> None:
        self.is_closing = True
        self.wake_event.set()

    def take(self, view: InboxView, badge: Badge | None) -> list[StreamUpdate]:
        """Return and clear the queue.

        Visibility is checked again, because a burst may have been hidden since it was queued.
        """
        updates = [StreamUpdate(event=StreamEvent.RESET)] if self.needs_reset else []
        updates += [update for event, entry in self.queued.values() if (update := _queued_update(event, entry, view))]
        updates += [update for entry in self.marked.values() if (update := _mark_update(entry, view))]
        if badge is not None and badge != self.sent_badge:
            updates.append(StreamUpdate(event=StreamEvent.COUNT, badge=badge))
            self.sent_badge = badge
        self.queued.clear()
        self.marked.clear()
        self.needs_reset = False
        return updates


def _queued_update(event: StreamEvent, entry: Entry, view: InboxView) -> StreamUpdate | None:
    if event is StreamEvent.HIDDEN:
        return StreamUpdate(event=event, hidden_burst=entry.key)
    return StreamUpdate(event=event, item=view.to_item(entry)) if view.is_visible(entry) else None


def _mark_update(entry: Entry, view: InboxView) -> StreamUpdate | None:
    if view.viewer.marks.by_burst.get(entry.key) is Mark.HIDDEN:
        return StreamUpdate(event=StreamEvent.HIDDEN, hidden_burst=entry.key)
    return StreamUpdate(event=StreamEvent.MARKED, item=view.to_item(entry)) if view.is_visible(entry) else None


@dataclass(slots=True, kw_only=True, eq=False)
class Listener:
    """A user with open streams. The viewer is None until the user's facts are loaded."""

    user: UserId
    member: Member
    viewer: Viewer | None = None
    visibility_fingerprint: bytes = b""
    marks_fingerprint: bytes = b""
    unsent_marks: set[BurstKey] = field(default_factory=set)
    """Bursts whose marks were changed by a request and that the streams have not queued yet."""
    unread_keys: set[BurstKey] | None = None
    """Unread bursts: those that a badge counts, and bursts that arrived since. None until they are loaded."""
    digests_sent_until: datetime
    """Digests that fell due by this time are sent, or are on the page that the client loaded."""
    next_digest_at: datetime | None = None
    """When the next digest falls due; None for users without digests."""
    loaded_at: datetime = LONG_AGO
    """When the user's facts were last read."""
    needs_count: bool = True
    """Whether the unread bursts must be loaded again."""
    streams: list[Stream] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    @property
    def badge(self) -> Badge | None:
        return None if self.unread_keys is None else badge_of(self.unread_keys)

    def view(self, now: datetime) -> InboxView:
        assert self.viewer is not None
        return InboxView(viewer=self.viewer, member=self.member, now=now)

    def deliver(self, burst: Burst, before: Burst | None, now: datetime) -> None:
        view = self.view(now)
        for stream in self.streams:
            if event := event_for(burst, before, view, stream.since):
                stream.put(event, burst)
        self._update_unread(burst, view)

    def deliver_in_digest(self, burst: Burst, before: Burst | None, now: datetime) -> None:
        """Reset the streams if the burst may change a digest that their clients have already."""
        view = self.view(now)
        if changes_digest(burst, before, view) and digest_due_for(burst, view) <= self.digests_sent_until:
            self.reset()

    def reset(self) -> None:
        for stream in self.streams:
            stream.reset()
        self.needs_count, self.loaded_at = True, LONG_AGO

    def deliver_digest(self, digest: Digest, now: datetime) -> None:
        """Queue a ROW for the digest on all streams. Pages that were loaded earlier lack the digest."""
        for stream in self.streams:
            stream.put(StreamEvent.ROW, digest)
        self._update_unread(digest, self.view(now))

    def _update_unread(self, entry: Entry, view: InboxView) -> None:
        if self.unread_keys is None:
            return
        if view.is_visible(entry) and is_unread(entry, view.viewer):
            self.unread_keys.add(entry.key)
        else:
            self.unread_keys.discard(entry.key)
