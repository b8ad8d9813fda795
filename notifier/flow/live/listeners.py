"""The hearers: who listens to what in a process, what each of them may see, and what was heard for all of them."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import NotFound, StoreUnavailable
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.domain.users.digest import Digest, Schedule, named
from notifier.domain.users.visibility import SETTLED_AFTER, Viewer, unread
from notifier.flow.inbox.burst_walk import YOUNG
from notifier.flow.inbox.digests import digests_by, due_next, moved_inside, told_at
from notifier.flow.inbox.inbox import Tab
from notifier.flow.inbox.page import Entry, InboxView
from notifier.flow.live.stream import (
    A_PAGE,
    Listener,
    RecentBurstBuffer,
    Stream,
    StreamPosition,
    marked,
    marking,
    sight,
    told,
)
from notifier.ports.coordination import Clock

OVERLAP = timedelta(seconds=10)
"""A burst becomes readable within a second of its opening, or is re-stamped; the rest is for a machine that halts."""


@dataclass(slots=True, kw_only=True)
class Hearers:
    """For one loop."""

    tab: Tab
    clock: Clock
    memory: RecentBurstBuffer = field(default_factory=RecentBurstBuffer)
    listeners: dict[UserId, Listener] = field(default_factory=dict)
    following: dict[Subject, dict[UserId, Listener]] = field(default_factory=lambda: defaultdict(dict))
    digesting: dict[Subject, dict[UserId, Listener]] = field(default_factory=lambda: defaultdict(dict))
    """Those to whom a digest alone tells of it."""

    async def come(self, user: UserId) -> Listener:
        """Raises NotFound and StoreUnavailable."""
        member = await self.tab.people.member(user)
        if member is None:
            raise NotFound(f"The user is {user}.")
        # One that fell due within the last few seconds may not have been on a page that was made meanwhile.
        since = self.clock.now() - SETTLED_AFTER
        return self.listeners.setdefault(user, Listener(user=user, member=member, digested_at=since))

    def go(self, listener: Listener) -> None:
        self._unlist(listener)
        del self.listeners[listener.user]

    def hear(self, burst: Burst) -> None:
        """Whoever follows its subject is told, if the predicate lets them see it; nobody else's stream moves."""
        before, now = self.memory.known(burst.key), self.clock.now()
        if before is not None and before.version >= burst.version:
            return
        self.memory.keep(burst, now)
        for listener in self.following.get(burst.key.subject, {}).values():
            listener.hear(burst, before, now)
        for listener in self.digesting.get(burst.key.subject, {}).values():
            listener.hear_inside(burst, before, now)

    def resume(self, listener: Listener, stream: Stream, last: StreamPosition | None) -> None:
        """What became visible or grew since; or a reset where that can't be proven, or is more than a page."""
        look, since = listener.look(self.clock.now()), self.memory.since
        if last is None or since is None or last.as_of < since:
            stream.reset()
            return
        if (last.sight, last.marks) != (listener.sight, listener.marks):
            stream.reset()
            return
        subjects, due = {*look.subjects}, due_next(look, last.as_of)
        heard = [burst for burst in self.memory.after(last.as_of) if burst.key.subject in subjects]
        found = [(event, burst) for burst in heard if (event := told(burst, None, look, last.as_of))]
        if len(found) > A_PAGE or (due is not None and due <= look.now) or self._told_in_digest(look, last.as_of):
            stream.reset()
            return
        stream.as_of = last.as_of
        for event, burst in reversed(found):
            stream.put(event, burst)

    def _told_in_digest(self, look: InboxView, moment: datetime) -> bool:
        """Whether something has moved since then in a digest that had fallen due before."""
        subjects = {*look.digested}
        inside = (burst for burst in self.memory.after(moment) if burst.key.subject in subjects)
        return any(told_at(burst, look) <= moment and moved_inside(burst, None, look) for burst in inside)

    async def remind(self) -> None:
        """Tells the digests that have fallen due, once all that opened before is readable. One after another: at the
        hour that most people have, not all of them ask the store at once. Raises StoreUnavailable."""
        settled = self.clock.now() - YOUNG
        for listener in [*self.listeners.values()]:
            if listener.due_at is not None and listener.due_at <= settled:
                try:
                    await self._remind(listener)
                except StoreUnavailable:
                    self.put_last(listener)
                    raise

    def _outdated(self, digest: Digest, look: InboxView) -> bool:
        """Whether something of it was taken back while it was read. What grew is on the next page."""
        told, subjects = {burst.key: burst.count for burst in digest.newest}, {*look.digested}
        heard = (burst for burst in self.memory.after(look.now) if burst.key.subject in subjects)
        return any(burst.silent or burst.count < told.get(burst.key, 0) for burst in heard)

    def put_last(self, listener: Listener) -> None:
        """Where it alone can't be read, those behind it have their turn first."""
        if self.listeners.get(listener.user) is listener:
            self.listeners[listener.user] = self.listeners.pop(listener.user)

    async def _remind(self, listener: Listener) -> None:
        async with listener.lock:  # so that the viewer stays who it is
            if (due := listener.due_at) is None:
                return
            look = listener.look(self.clock.now())
            day = Schedule.of(look.viewer.overall).last(due)
            found = await digests_by(self.tab.timeline, look, [named(listener.user, day)])
            listener.digested_at, listener.due_at = due, due_next(look, due)
            for digest in found.values():
                if self._outdated(digest, look):
                    listener.reset()
                elif look.admits(digest):
                    listener.hear_digest(digest, look.now)
        for stream in listener.streams:
            stream.wake.set()

    async def refresh(self, listener: Listener) -> None:
        """Raises NotFound where the person is no more, and StoreUnavailable."""
        async with listener.lock:
            if await self.tab.people.member(listener.user) != listener.member:
                raise NotFound(f"The user is {listener.user}.")
            viewer = await self.tab.people.viewer(listener.user, listener.member)
            remarked = set(listener.remarked)
            look = InboxView(viewer=viewer, member=listener.member, now=self.clock.now())
            entries = await self._entries(
                look, remarked | (marked(listener.viewer, viewer) if listener.viewer else set())
            )
            if self.listeners.get(listener.user) is not listener:
                return  # gone meanwhile; whoever came back is another listener, and what is heard is for that one
            now = self.clock.now()
            if viewer != listener.viewer:
                self._see_as(listener, viewer)
            # In one step with the viewer: an id that covers a mark goes out with its event, or behind it.
            listener.remarked -= remarked
            for stream in listener.streams:
                stream.mark(entries)
            if listener.uncounted:
                await self._count(listener, now)
            listener.loaded_at = now
        for stream in listener.streams:
            if stream.counted != listener.badge:
                stream.wake.set()

    def _see_as(self, listener: Listener, viewer: Viewer) -> None:
        known, listener.sight, listener.marks = listener.sight, sight(viewer), marking(viewer)
        if listener.viewer is not None and known != listener.sight:
            for stream in listener.streams:
                stream.reset()
        self._unlist(listener)
        listener.viewer, listener.uncounted = viewer, True
        look = listener.look(self.clock.now())
        listener.due_at = due_next(look, listener.digested_at)
        for subject in look.subjects:
            self.following[subject][listener.user] = listener
        for subject in look.digested:
            self.digesting[subject][listener.user] = listener

    def _unlist(self, listener: Listener) -> None:
        if listener.viewer is None:
            return
        look = listener.look(self.clock.now())
        for listening, subjects in ((self.following, look.subjects), (self.digesting, look.digested)):
            for subject in subjects:
                listening[subject].pop(listener.user, None)
                if not listening[subject]:
                    del listening[subject]

    async def _count(self, listener: Listener, now: datetime) -> None:
        """As `GET /v1/inbox/unread` does; then the set grows by what is heard, and nothing is counted twice."""
        look = listener.look(now)
        found = await self.tab.unread(look)
        # What was heard while the store was being read, or shortly before and is not in the index yet.
        found |= {b.key for b in self.memory.shown(look, now - OVERLAP) if unread(b, look.viewer)}
        listener.unread, listener.uncounted = found, False

    async def _entries(self, look: InboxView, keys: Collection[BurstKey]) -> Collection[Entry]:
        known: dict[BurstKey, Entry] = {key: burst for key in keys if (burst := self.memory.known(key))}
        if rest := [key for key in keys if key not in known]:
            known |= await self.tab.entries(look, rest)
        return known.values()
