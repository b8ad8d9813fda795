"""Live listeners of a process: the subjects they follow, and the updates they receive."""

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
"""A burst becomes readable within a second of its opening, or is re-stamped. The rest is a margin for a machine that
halts."""


@dataclass(slots=True, kw_only=True)
class Hearers:
    """All listeners of one event loop."""

    tab: Tab
    clock: Clock
    memory: RecentBurstBuffer = field(default_factory=RecentBurstBuffer)
    listeners: dict[UserId, Listener] = field(default_factory=dict)
    following: dict[Subject, dict[UserId, Listener]] = field(default_factory=lambda: defaultdict(dict))
    digesting: dict[Subject, dict[UserId, Listener]] = field(default_factory=lambda: defaultdict(dict))
    """Listeners who get the subject's bursts in a digest only."""

    async def come(self, user: UserId) -> Listener:
        """Return the user's listener, made if necessary. Raises NotFound and StoreUnavailable."""
        member = await self.tab.people.member(user)
        if member is None:
            raise NotFound(f"The user is {user}.")
        # A digest that fell due in the last few seconds may be missing from a page that was made meanwhile.
        digested_at = self.clock.now() - SETTLED_AFTER
        return self.listeners.setdefault(user, Listener(user=user, member=member, digested_at=digested_at))

    def go(self, listener: Listener) -> None:
        self._unlist(listener)
        del self.listeners[listener.user]

    def hear(self, burst: Burst) -> None:
        """Send a burst to the followers of its subject who may see it. Older versions change nothing."""
        before, now = self.memory.known(burst.key), self.clock.now()
        if before is not None and before.version >= burst.version:
            return
        self.memory.keep(burst, now)
        for listener in self.following.get(burst.key.subject, {}).values():
            listener.hear(burst, before, now)
        for listener in self.digesting.get(burst.key.subject, {}).values():
            listener.hear_inside(burst, before, now)

    def resume(self, listener: Listener, stream: Stream, last: StreamPosition | None) -> None:
        """Queue what became visible or grew since the client's last event.

        Reset the stream instead if that cannot be proved, exceeds a page, or involves a digest.
        """
        view, since = listener.look(self.clock.now()), self.memory.since
        if last is None or since is None or last.as_of < since:
            stream.reset()
            return
        if (last.sight, last.marks) != (listener.sight, listener.marks):
            stream.reset()
            return
        subjects, due = {*view.subjects}, due_next(view, last.as_of)
        bursts = [burst for burst in self.memory.after(last.as_of) if burst.key.subject in subjects]
        events = [(event, burst) for burst in bursts if (event := told(burst, None, view, last.as_of))]
        if len(events) > A_PAGE or (due is not None and due <= view.now) or self._told_in_digest(view, last.as_of):
            stream.reset()
            return
        stream.as_of = last.as_of
        for event, burst in reversed(events):
            stream.put(event, burst)

    def _told_in_digest(self, look: InboxView, moment: datetime) -> bool:
        """Return whether a digest that was due by `moment` may have changed since."""
        subjects = {*look.digested}
        inside = (burst for burst in self.memory.after(moment) if burst.key.subject in subjects)
        return any(told_at(burst, look) <= moment and moved_inside(burst, None, look) for burst in inside)

    async def remind(self) -> None:
        """Send the digests that have fallen due, once all bursts that opened before are readable.

        Listeners take turns: at the digest hour that most users have, they must not all read the store at once. Raises
        StoreUnavailable.
        """
        settled = self.clock.now() - YOUNG
        for listener in [*self.listeners.values()]:
            if listener.due_at is not None and listener.due_at <= settled:
                try:
                    await self._remind(listener)
                except StoreUnavailable:
                    self.put_last(listener)
                    raise

    def _outdated(self, digest: Digest, look: InboxView) -> bool:
        """Return whether a burst of the digest was retracted while it was read. Growth is on the next page."""
        counts, subjects = {burst.key: burst.count for burst in digest.newest}, {*look.digested}
        updates = (burst for burst in self.memory.after(look.now) if burst.key.subject in subjects)
        return any(burst.silent or burst.count < counts.get(burst.key, 0) for burst in updates)

    def put_last(self, listener: Listener) -> None:
        """Move the listener to the end: if its read alone fails, the listeners behind it go first."""
        if self.listeners.get(listener.user) is listener:
            self.listeners[listener.user] = self.listeners.pop(listener.user)

    async def _remind(self, listener: Listener) -> None:
        async with listener.lock:  # so that the viewer's facts stay the same
            if (due := listener.due_at) is None:
                return
            view = listener.look(self.clock.now())
            day = Schedule.of(view.viewer.overall).last(due)
            digests = await digests_by(self.tab.timeline, view, [named(listener.user, day)])
            listener.digested_at, listener.due_at = due, due_next(view, due)
            for digest in digests.values():
                if self._outdated(digest, view):
                    listener.reset()
                elif view.admits(digest):
                    listener.hear_digest(digest, view.now)
        for stream in listener.streams:
            stream.wake.set()

    async def refresh(self, listener: Listener) -> None:
        """Read the user's facts again, and queue changed marks.

        Raises NotFound if the user no longer exists, and StoreUnavailable.
        """
        async with listener.lock:
            if await self.tab.people.member(listener.user) != listener.member:
                raise NotFound(f"The user is {listener.user}.")
            viewer = await self.tab.people.viewer(listener.user, listener.member)
            remarked = set(listener.remarked)
            view = InboxView(viewer=viewer, member=listener.member, now=self.clock.now())
            entries = await self._entries(
                view, remarked | (marked(listener.viewer, viewer) if listener.viewer else set())
            )
            if self.listeners.get(listener.user) is not listener:
                return  # left meanwhile; after a reconnect, updates go to a new listener
            now = self.clock.now()
            if viewer != listener.viewer:
                self._see_as(listener, viewer)
            # In one step with the viewer: an event id that covers a mark is sent with the mark's event, or after it.
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
        view = listener.look(self.clock.now())
        listener.due_at = due_next(view, listener.digested_at)
        for subject in view.subjects:
            self.following[subject][listener.user] = listener
        for subject in view.digested:
            self.digesting[subject][listener.user] = listener

    def _unlist(self, listener: Listener) -> None:
        if listener.viewer is None:
            return
        view = listener.look(self.clock.now())
        for listeners_by_subject, subjects in ((self.following, view.subjects), (self.digesting, view.digested)):
            for subject in subjects:
                listeners_by_subject[subject].pop(listener.user, None)
                if not listeners_by_subject[subject]:
                    del listeners_by_subject[subject]

    async def _count(self, listener: Listener, now: datetime) -> None:
        """Count the unread set as `GET /v1/inbox/unread` does.

        Later updates change the set, so nothing is counted twice.
        """
        view = listener.look(now)
        unread_keys = await self.tab.unread(view)
        # Add bursts that arrived during the read, or shortly before it and are not in the index yet.
        unread_keys |= {b.key for b in self.memory.shown(view, now - OVERLAP) if unread(b, view.viewer)}
        listener.unread, listener.uncounted = unread_keys, False

    async def _entries(self, look: InboxView, keys: Collection[BurstKey]) -> Collection[Entry]:
        known: dict[BurstKey, Entry] = {key: burst for key in keys if (burst := self.memory.known(key))}
        if missing := [key for key in keys if key not in known]:
            known |= await self.tab.entries(look, missing)
        return known.values()
