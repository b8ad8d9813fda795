"""Walk bursts, newest first, from the pull index and then the store."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.sequencer import VISIBILITY_DEADLINE
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.users.subject_preferences import ALWAYS
from notifier.domain.users.visibility import ListedItem
from notifier.ports.inbox import InboxPosition, Timeline
from notifier.ports.pull_index import NewestPositions, PullReader

RUN_LENGTH = 64
"""Bursts per read, enough for three pages."""

MAX_UNLISTED_AGE = 2 * VISIBILITY_DEADLINE
"""Age up to which a walk may leave out a burst that the pull index lacks."""

VISIBLE_FROM_MARGIN = timedelta(hours=1)
"""A walk also examines bursts that opened up to this long before their subject became visible. A burst whose opening
time has just moved may still be listed at the earlier time."""

LOWEST_KEY = BurstKey(Subject(Kind.MENTION, UserId("")), 0)
"""Key that sorts before the key of every burst."""


@dataclass(slots=True, kw_only=True)
class BurstWalk:
    """Walk through all bursts that are older than CERTAINLY_VISIBLE_AGE at `now`, and some that are younger.

    The first step reads the pull index and the inbox rows, down to the index's horizon. Each further step reads the
    bursts from the store.
    """

    timeline: Timeline
    pull: PullReader
    subjects: Collection[Subject]
    visible_from: Mapping[Subject, datetime]
    """Time from which the viewer sees the bursts of a subject. Without a time the viewer sees all of them. The walk
    leaves out most bursts that opened earlier."""
    authors: Collection[UserId]
    """Authors whose restricted bursts the viewer may see. Restricted bursts by other authors take no places in a run.
    Otherwise the end of a page would reveal how many there are."""
    member: Member
    now: datetime
    after: InboxPosition | None
    """Position that the walk has reached. The next step continues after it. None: start at the newest burst."""
    has_ended: bool = False
    is_started: bool = False

    async def step(self) -> Sequence[Burst]:
        if not self.is_started:
            self.is_started = True
            return await self._first_run()
        subjects = possibly_visible_subjects(self.subjects, self.visible_from, self.after)
        run = await self.timeline.older_than(subjects, self.after, RUN_LENGTH, self.authors)
        self.has_ended = len(run) < RUN_LENGTH
        if run:
            self.after = position_of(run[-1])
        return run

    async def _first_run(self) -> Sequence[Burst]:
        pulled = await self._read_pull_index()
        if pulled.complete_since is None:
            return ()
        unlisted = await self._read_unlisted(pulled)
        if len(unlisted) == RUN_LENGTH:  # these bursts alone fill the run
            self.after = position_of(unlisted[-1])
            return unlisted
        # Not every burst has a row. So the run ends at the horizon, down to which the index is complete.
        rows = await self.timeline.rows(self.member, self.subjects, self.after, RUN_LENGTH)
        positions = [position for position in pulled.positions if self._is_remaining(position)]
        keys = {position.burst for position in positions if self._may_see(position)} | {row.burst for row in rows}
        horizon = InboxPosition(pulled.complete_since, LOWEST_KEY)
        bursts = {**await self.timeline.bursts(keys), **{burst.key: burst for burst in unlisted}}
        run = [b for b in bursts.values() if position_of(b) > horizon and self._is_remaining(position_of(b))]
        self.after = min(self.after, horizon) if self.after else horizon
        return sorted(run, key=position_of, reverse=True)

    async def _read_unlisted(self, pulled: NewestPositions) -> Sequence[Burst]:
        """Read the newest bursts from the store, as far back as the index may lack a burst.

        A burst that the index lacks became readable after the last comparison with the store. So it opened at most
        VISIBILITY_DEADLINE before the comparison. Nothing is read if all such bursts are younger than MAX_UNLISTED_AGE.
        """
        if pulled.as_of is None or (since := pulled.as_of - VISIBILITY_DEADLINE) > self.now - MAX_UNLISTED_AGE:
            return ()
        if self.after is not None and self.after.opened_at < since:
            return ()
        return await self.timeline.older_than(self.subjects, self.after, RUN_LENGTH, self.authors, since)

    async def _read_pull_index(self) -> NewestPositions:
        try:
            return await self.pull.read_newest(self.subjects)
        except CacheUnavailable:  # fails open: the store has every burst
            return NewestPositions(positions=(), complete_since=None)

    def _is_remaining(self, position: InboxPosition) -> bool:
        """Return whether the walk has not passed the position yet."""
        return self.after is None or position < self.after

    def _may_see(self, position: InboxPosition) -> bool:
        return oldest_visible(position.burst.subject, self.visible_from) <= position.opened_at


def possibly_visible_subjects(
    subjects: Collection[Subject], visible_from: Mapping[Subject, datetime], position: InboxPosition | None
) -> Collection[Subject]:
    """Return the subjects that may have visible bursts older than the position. Without a position return all."""
    if position is None:
        return subjects
    return [subject for subject in subjects if oldest_visible(subject, visible_from) <= position.opened_at]


def oldest_visible(subject: Subject, visible_from: Mapping[Subject, datetime]) -> datetime:
    """Return the earliest opening time at which a walk examines the subject's bursts."""
    return max(ALWAYS, visible_from.get(subject, ALWAYS) - VISIBLE_FROM_MARGIN)


def position_of(listed: ListedItem) -> InboxPosition:
    return InboxPosition(listed.opened_at, listed.key)
