"""Live: what an open stream is told of a burst, by the predicate that its page is made with; no I/O, no waiting."""

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
from notifier.domain.users.visibility import SETTLED_AFTER, Mark, Viewer, unread, visible
from notifier.flow.inbox.digests import moved_inside, told_at
from notifier.flow.inbox.page import Badge, Entry, InboxView, Shown, badge_of

REMEMBERED = 10_000
"""Bursts that a process can repeat to those who come back: a token's quarter of an hour at eleven a second; 20 MB."""
MOST_WAITING = 100
"""Different bursts that wait to be sent on a stream; whoever is so far behind had better load the page."""
A_PAGE = 20
"""More than so many at once are a page, which is loaded in one request."""
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)


class StreamEvent(StrEnum):
    ROW = "row"
    """A burst that is new to the viewer."""
    GROUP = "group"
    """One that the viewer has, grown."""
    MARKED = "marked"
    """One that the viewer has, or hid before: its mark was changed on one of the viewer's devices."""
    HIDDEN = "hidden"
    """The viewer hid it, on whichever device."""
    COUNT = "count"
    RESET = "reset"
    """What the client has may lack something: it loads its first page again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPosition:
    """Up to where a stream has told everything, and to whom: the id of its events."""

    as_of: datetime
    sight: bytes
    marks: bytes
    """As the client has them."""

    @classmethod
    def by(cls, look: InboxView) -> Self:
        """By a page: it has what was durable at its moment, and what was published since is heard again."""
        return cls(as_of=look.now - SETTLED_AFTER, sight=sight(look.viewer), marks=marking(look.viewer))


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    event: StreamEvent
    item: Shown | None = None
    hidden: BurstKey | None = None
    badge: Badge | None = None


def told(burst: Burst, before: Burst | None, look: InboxView, since: datetime) -> StreamEvent | None:
    """What a viewer who has what was visible at `since` is told of a burst; None for nothing at all.

    `before` is the burst as this process knew it, None when it hears of it for the first time.
    """
    if not look.admits(burst):
        return StreamEvent.HIDDEN if _taken_from(look, burst, before) else None
    if before is None:
        return StreamEvent.ROW if burst.opened_at > since else StreamEvent.GROUP
    # Somebody who isn't blocked may have joined those who are.
    return StreamEvent.GROUP if visible(before, look.viewer, now=look.now) else StreamEvent.ROW


def _taken_from(look: InboxView, burst: Burst, before: Burst | None) -> bool:
    """Whether the viewer may have it on the page, and it was taken back since. Who could never see it hears nothing."""
    if before is not None:
        return look.admits(before)
    return burst.silent and look.admits(burst.once)


def sight(viewer: Viewer) -> bytes:
    """Two viewers of one sight see the same bursts; what they have marked aside. Of one length, and tells nothing."""
    follows = sorted((str(subject), since.timestamp()) for subject, since in viewer.follows.items())
    volumes = sorted((str(subject), volume) for subject, volume in viewer.volume.items())
    digests = (viewer.overall.zone, viewer.overall.digest_hour) if viewer.digested else None
    return _digest((follows, sorted(viewer.blocked), volumes, viewer.overall.volume, digests))


def marking(viewer: Viewer) -> bytes:
    """What the viewer has marked, burst by burst; what was seen is in the badge. Of one length, and tells nothing."""
    return _digest(sorted((str(key), mark) for key, mark in viewer.marks.by_burst.items()))


def marked(before: Viewer, after: Viewer) -> set[BurstKey]:
    """The bursts whose mark is another one now."""
    one, other = before.marks.by_burst, after.marks.by_burst
    return {key for key in {*one, *other} if one.get(key) is not other.get(key)}


def _digest(facts: object) -> bytes:
    return blake2b(repr(facts).encode(), digest_size=8).digest()


@dataclass(frozen=True, slots=True)
class BufferedBurst:
    burst: Burst
    at: datetime


@dataclass(slots=True, kw_only=True)
class RecentBurstBuffer:
    """The bursts that a process heard last, each as it is now, in the order of hearing."""

    most: int = REMEMBERED
    since: datetime | None = None
    """Everything that was published from this moment on is here; None while that is not so."""
    heard: "OrderedDict[BurstKey, BufferedBurst]" = field(default_factory=OrderedDict)

    def known(self, key: BurstKey) -> Burst | None:
        found = self.heard.get(key)
        return found.burst if found else None

    def keep(self, burst: Burst, now: datetime) -> None:
        self.heard[burst.key] = BufferedBurst(burst, now)
        self.heard.move_to_end(burst.key)
        if len(self.heard) > self.most:
            _, oldest = self.heard.popitem(last=False)
            self.since = max(self.since, oldest.at + TICK) if self.since else None

    def after(self, moment: datetime) -> Iterator[Burst]:
        """Those heard since then, the latest first."""
        for heard in reversed(self.heard.values()):
            if heard.at < moment:
                return
            yield heard.burst

    def shown(self, look: InboxView, moment: datetime) -> Iterator[Burst]:
        """Those of them that a viewer sees."""
        subjects = {*look.subjects}
        return (burst for burst in self.after(moment) if burst.key.subject in subjects and look.admits(burst))


@dataclass(slots=True, kw_only=True, eq=False)
class Stream:
    """One open stream: what waits to be sent on it. A burst waits once, however often it grows meanwhile."""

    since: datetime
    """What opened later is new to the client."""
    ends_at: float
    """Seconds since 1970, when the client's token ends."""
    written_at: datetime
    as_of: datetime = LONG_AGO
    marks: bytes = b""
    """Of the client's person, as the client was told."""
    waiting: dict[BurstKey, tuple[StreamEvent, Entry]] = field(default_factory=dict)
    remarked: dict[BurstKey, Entry] = field(default_factory=dict)
    resets: bool = False
    counted: Badge | None = None
    writing: bool = False
    """A write is under way, since `written_at`."""
    closed: bool = False
    """It ends when all has been sent."""
    cut: bool = False
    """It ends at once: its client reads too slowly."""
    abort: Callable[[], object] | None = None
    """Ends a write that is under way."""
    wake: Wake = field(default_factory=Wake)

    def put(self, event: StreamEvent, entry: Entry) -> None:
        """A row to somebody is a row, though it grew before that was known: who lacks it makes nothing of a group. What
        was taken back meanwhile is hidden, and nothing else."""
        first = self.waiting.pop(entry.key, (event, entry))[0]
        row = StreamEvent.ROW in (first, event) and event is not StreamEvent.HIDDEN
        self.waiting[entry.key] = StreamEvent.ROW if row else event, entry
        if len(self.waiting) > MOST_WAITING:
            self.cut_off()
        self.wake.set()

    def mark(self, entries: Collection[Entry]) -> None:
        """More than a page of them are a reset: there are a hundred in one request."""
        self.remarked |= {entry.key: entry for entry in entries}
        if len(self.remarked) > A_PAGE:
            self.reset()
        self.wake.set()

    def reset(self) -> None:
        """Whatever waited is on the page that the client loads now."""
        self.waiting.clear()
        self.remarked.clear()
        self.resets, self.counted = True, None
        self.wake.set()

    def cut_off(self) -> None:
        self.cut = True
        if self.abort is not None:
            self.abort()

    def end(self) -> None:
        self.closed = True
        self.wake.set()

    def take(self, look: InboxView, badge: Badge | None) -> list[News]:
        """All that waits, judged once more as it leaves: a burst may have been hidden since it was put there."""
        news = [News(event=StreamEvent.RESET)] if self.resets else []
        news += [one for event, entry in self.waiting.values() if (one := _waited(event, entry, look))]
        news += [one for entry in self.remarked.values() if (one := _remarked(entry, look))]
        if badge is not None and badge != self.counted:
            news.append(News(event=StreamEvent.COUNT, badge=badge))
            self.counted = badge
        self.waiting.clear()
        self.remarked.clear()
        self.resets = False
        return news


def _waited(event: StreamEvent, entry: Entry, look: InboxView) -> News | None:
    if event is StreamEvent.HIDDEN:
        return News(event=event, hidden=entry.key)
    return News(event=event, item=look.shown(entry)) if look.admits(entry) else None


def _remarked(entry: Entry, look: InboxView) -> News | None:
    if look.viewer.marks.by_burst.get(entry.key) is Mark.HIDDEN:
        return News(event=StreamEvent.HIDDEN, hidden=entry.key)
    return News(event=StreamEvent.MARKED, item=look.shown(entry)) if look.admits(entry) else None


@dataclass(slots=True, kw_only=True, eq=False)
class Listener:
    """A person with open streams. Without a viewer, nothing is known yet."""

    user: UserId
    member: Member
    viewer: Viewer | None = None
    sight: bytes = b""
    marks: bytes = b""
    remarked: set[BurstKey] = field(default_factory=set)
    """Named by those who marked them, and not told yet."""
    unread: set[BurstKey] | None = None
    """As far as a badge counts."""
    digested_at: datetime
    """Of the digests that fell due until then nothing is left to be told."""
    due_at: datetime | None = None
    """When the next one falls due; None for who has none."""
    loaded_at: datetime = LONG_AGO
    uncounted: bool = True
    streams: list[Stream] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    @property
    def badge(self) -> Badge | None:
        return None if self.unread is None else badge_of(self.unread)

    def look(self, now: datetime) -> InboxView:
        assert self.viewer is not None
        return InboxView(viewer=self.viewer, member=self.member, now=now)

    def hear(self, burst: Burst, before: Burst | None, now: datetime) -> None:
        look = self.look(now)
        for stream in self.streams:
            if event := told(burst, before, look, stream.since):
                stream.put(event, burst)
        self._count(burst, look)

    def hear_inside(self, burst: Burst, before: Burst | None, now: datetime) -> None:
        """Of what a digest tells that streams have: where it moves they load the page again."""
        look = self.look(now)
        if moved_inside(burst, before, look) and told_at(burst, look) <= self.digested_at:
            self.reset()

    def reset(self) -> None:
        """Of its streams and its badge."""
        for stream in self.streams:
            stream.reset()
        self.uncounted, self.loaded_at = True, LONG_AGO

    def hear_digest(self, digest: Digest, now: datetime) -> None:
        """It is a row to all streams, as no page had it before it was due."""
        for stream in self.streams:
            stream.put(StreamEvent.ROW, digest)
        self._count(digest, self.look(now))

    def _count(self, entry: Entry, look: InboxView) -> None:
        if self.unread is None:
            return
        if look.admits(entry) and unread(entry, look.viewer):
            self.unread.add(entry.key)
        else:
            self.unread.discard(entry.key)
