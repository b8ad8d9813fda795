"""Delivers updates to the live listeners of a process, by subject."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import NotFound, StoreUnavailable
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.domain.users.digest import Digest, DigestSchedule, digest_key
from notifier.domain.users.visibility import CERTAINLY_VISIBLE_AGE, Viewer, is_unread
from notifier.flow.inbox.burst_walk import MAX_UNLISTED_AGE
from notifier.flow.inbox.digest_walk import changes_digest, digest_due_for, next_digest_due, read_digests
from notifier.flow.inbox.inbox import UncachedInbox
from notifier.flow.inbox.page import Entry, InboxView
from notifier.flow.live.streams_and_events import (
    PAGE_SIZE,
    Listener,
    RecentBurstBuffer,
    Stream,
    StreamPosition,
    changed_marks,
    event_for,
    marks_fingerprint,
    visibility_fingerprint,
)
from notifier.ports.leases_queues_throttles_clock import Clock

READ_OVERLAP = timedelta(seconds=10)
"""How far each read of bursts reaches back before the start of the previous read.

A burst becomes readable within a second of its opening time, or gets a new opening time. The other nine seconds cover
a stalled machine.
"""


@dataclass(slots=True, kw_only=True)
class ListenerRegistry:
    """All listeners of one event loop."""

    inbox: UncachedInbox
    clock: Clock
    buffer: RecentBurstBuffer = field(default_factory=RecentBurstBuffer)
    listeners: dict[UserId, Listener] = field(default_factory=dict)
    listeners_by_subject: dict[Subject, dict[UserId, Listener]] = field(default_factory=lambda: defaultdict(dict))
    """Listeners that get the subject's bursts one by one."""
    listeners_by_digest_subject: dict[Subject, dict[UserId, Listener]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """Listeners that get the subject's bursts in a digest only."""

    async def get_or_add(self, user: UserId) -> Listener:
        member = await self.inbox.people.member(user)
        if member is None:
            raise NotFound(f"Unknown user: {user}.")
        # A page that the client has just loaded may lack a digest that fell due in the last few seconds.
        digests_sent_until = self.clock.now() - CERTAINLY_VISIBLE_AGE
        return self.listeners.setdefault(
            user, Listener(user=user, member=member, digests_sent_until=digests_sent_until)
        )

    def remove(self, listener: Listener) -> None:
        self._remove_from_subjects(listener)
        del self.listeners[listener.user]

    def deliver(self, burst: Burst) -> None:
        """Pass a burst to the listeners of its subject. Ignore a version that is not newer than the buffered one."""
        before, now = self.buffer.get(burst.key), self.clock.now()
        if before is not None and before.version >= burst.version:
            return
        self.buffer.put(burst, now)
        for listener in self.listeners_by_subject.get(burst.key.subject, {}).values():
            listener.deliver(burst, before, now)
        for listener in self.listeners_by_digest_subject.get(burst.key.subject, {}).values():
            listener.deliver_in_digest(burst, before, now)

    def resume(self, listener: Listener, stream: Stream, last_position: StreamPosition | None) -> None:
        """Queue the bursts that opened, changed or were hidden since the client's last event, or reset the stream."""
        view, complete_since = listener.view(self.clock.now()), self.buffer.complete_since
        if last_position is None or complete_since is None or last_position.as_of < complete_since:
            stream.reset()
            return
        if (last_position.visibility_fingerprint, last_position.marks_fingerprint) != (
            listener.visibility_fingerprint,
            listener.marks_fingerprint,
        ):
            stream.reset()
            return
        subjects, digest_due_at = {*view.subjects}, next_digest_due(view, last_position.as_of)
        bursts = [burst for burst in self.buffer.received_since(last_position.as_of) if burst.key.subject in subjects]
        events = [(event, burst) for burst in bursts if (event := event_for(burst, None, view, last_position.as_of))]
        if (
            len(events) > PAGE_SIZE
            or (digest_due_at is not None and digest_due_at <= view.now)
            or self._may_have_changed_digest(view, last_position.as_of)
        ):
            stream.reset()
            return
        stream.as_of = last_position.as_of
        for event, burst in reversed(events):
            stream.put(event, burst)

    def _may_have_changed_digest(self, view: InboxView, since: datetime) -> bool:
        """Return whether a digest that was due by `since` may have changed afterwards."""
        subjects = {*view.digest_subjects}
        bursts = (burst for burst in self.buffer.received_since(since) if burst.key.subject in subjects)
        return any(digest_due_for(burst, view) <= since and changes_digest(burst, None, view) for burst in bursts)

    async def send_due_digests(self) -> None:
        """Send each digest that has fallen due, once all bursts that opened before its due time are readable.

        One listener is served after the other: at the digest hour of most users, they must not all read the store at
        once. Raises StoreUnavailable.
        """
        readable_until = self.clock.now() - MAX_UNLISTED_AGE
        for listener in [*self.listeners.values()]:
            if listener.next_digest_at is not None and listener.next_digest_at <= readable_until:
                try:
                    await self._send_due_digest(listener)
                except StoreUnavailable:
                    self.move_to_end(listener)
                    raise

    def _is_outdated(self, digest: Digest, view: InboxView) -> bool:
        """Return whether a retraction may have changed the digest while it was read.

        A burst that only grew does not count: its new mentions are on the next page that the client loads.
        """
        counts, subjects = {burst.key: burst.count for burst in digest.newest}, {*view.digest_subjects}
        updates = (burst for burst in self.buffer.received_since(view.now) if burst.key.subject in subjects)
        return any(burst.silent or burst.count < counts.get(burst.key, 0) for burst in updates)

    def move_to_end(self, listener: Listener) -> None:
        """Move the listener to the end of the next round, so that its failing reads do not block other listeners."""
        if self.listeners.get(listener.user) is listener:
            self.listeners[listener.user] = self.listeners.pop(listener.user)

    async def _send_due_digest(self, listener: Listener) -> None:
        async with listener.lock:  # a refresh must not change the viewer's facts meanwhile
            if (due_at := listener.next_digest_at) is None:
                return
            view = listener.view(self.clock.now())
            day = DigestSchedule.of(view.viewer.account_preferences).latest_due_date(due_at)
            digests = await read_digests(self.inbox.timeline, view, [digest_key(listener.user, day)])
            listener.digests_sent_until, listener.next_digest_at = due_at, next_digest_due(view, due_at)
            for digest in digests.values():
                if self._is_outdated(digest, view):
                    listener.reset()
                elif view.is_visible(digest):
                    listener.deliver_digest(digest, view.now)
        for stream in listener.streams:
            stream.wake_event.set()

    async def refresh(self, listener: Listener) -> None:
        """Read the user's facts again, and queue the bursts whose marks changed.

        Raises StoreUnavailable, and NotFound if the user no longer exists.
        """
        async with listener.lock:
            if await self.inbox.people.member(listener.user) != listener.member:
                raise NotFound(f"Unknown user: {listener.user}.")
            viewer = await self.inbox.people.viewer(listener.user, listener.member)
            marks_to_send = set(listener.unsent_marks)
            view = InboxView(viewer=viewer, member=listener.member, now=self.clock.now())
            entries = await self._load_entries(
                view, marks_to_send | (changed_marks(listener.viewer, viewer) if listener.viewer else set())
            )
            if self.listeners.get(listener.user) is not listener:
                return  # its last stream closed during an await above; a reconnect adds a new listener
            now = self.clock.now()
            if viewer != listener.viewer:
                self._set_viewer(listener, viewer)
            # There must be no await between setting the viewer and queueing the changed marks. A client must get each
            # changed mark before, or with, the first event id whose fingerprint includes that mark.
            listener.unsent_marks -= marks_to_send
            for stream in listener.streams:
                stream.queue_marked(entries)
            if listener.needs_count:
                await self._count_unread(listener, now)
            listener.loaded_at = now
        for stream in listener.streams:
            if stream.sent_badge != listener.badge:
                stream.wake_event.set()

    def _set_viewer(self, listener: Listener, viewer: Viewer) -> None:
        previous_fingerprint = listener.visibility_fingerprint
        listener.visibility_fingerprint = visibility_fingerprint(viewer)
        listener.marks_fingerprint = marks_fingerprint(viewer)
        if listener.viewer is not None and previous_fingerprint != listener.visibility_fingerprint:
            for stream in listener.streams:
                stream.reset()
        self._remove_from_subjects(listener)
        listener.viewer, listener.needs_count = viewer, True
        view = listener.view(self.clock.now())
        listener.next_digest_at = next_digest_due(view, listener.digests_sent_until)
        for subject in view.subjects:
            self.listeners_by_subject[subject][listener.user] = listener
        for subject in view.digest_subjects:
            self.listeners_by_digest_subject[subject][listener.user] = listener

    def _remove_from_subjects(self, listener: Listener) -> None:
        if listener.viewer is None:
            return
        view = listener.view(self.clock.now())
        for listeners, subjects in (
            (self.listeners_by_subject, view.subjects),
            (self.listeners_by_digest_subject, view.digest_subjects),
        ):
            for subject in subjects:
                listeners[subject].pop(listener.user, None)
                if not listeners[subject]:
                    del listeners[subject]

    async def _count_unread(self, listener: Listener, now: datetime) -> None:
        """Load the keys of the unread bursts. With a number instead, a burst that grows would be counted twice."""
        view = listener.view(now)
        unread_keys = await self.inbox.unread_keys(view)
        # Add bursts that arrived during the read, and earlier ones that may not be in the pull index yet.
        unread_keys |= {b.key for b in self.buffer.visible_since(view, now - READ_OVERLAP) if is_unread(b, view.viewer)}
        listener.unread_keys, listener.needs_count = unread_keys, False

    async def _load_entries(self, view: InboxView, keys: Collection[BurstKey]) -> Collection[Entry]:
        entries: dict[BurstKey, Entry] = {key: burst for key in keys if (burst := self.buffer.get(key))}
        if missing := [key for key in keys if key not in entries]:
            entries |= await self.inbox.entries(view, missing)
        return entries.values()
