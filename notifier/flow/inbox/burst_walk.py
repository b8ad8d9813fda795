"""Walk all bursts of some subjects, newest first, without gaps."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.sequencer import VISIBILITY_DEADLINE
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.users.visibility import ListedBurst
from notifier.ports.inbox import InboxPosition, Timeline
from notifier.ports.pull_index import PulledPositions, PullReader

RUN_LENGTH = 64
"""Bursts per read: three pages."""

MAX_UNLISTED_AGE = 2 * VISIBILITY_DEADLINE
"""Age below which a list may lack a burst. Bursts settle only at a higher age (SETTLE_DELAY)."""

LOWEST_KEY = BurstKey(Subject(Kind.MENTION, UserId("")), 0)
"""Sorts before every burst of the same moment."""


@dataclass(slots=True, kw_only=True)
class BurstWalk:
    """Walk through bursts that leaves none out.

    The first step merges pull index and inbox rows down to the horizon, as far as the index proves that nothing is
    missing. Every further step reads the canonical bursts, which need no proof.

    The index may lack bursts if it was not compared with the store lately. This happens if an announcement failed, and
    could not revoke the index's proof of completeness either. So the walk also reads the store for the time since the
    comparison. It returns everything that is settled at `now`, and a `seen` token made at `now` may cover that.
    """

    timeline: Timeline
    pull: PullReader
    subjects: Collection[Subject]
    authors: Collection[UserId]
    """Restricted bursts of other authors are skipped, or how far a page reaches would show their number."""
    member: Member
    now: datetime
    after: InboxPosition | None
    """Position where the next step starts: first the caller's, then that of the last burst passed."""
    has_ended: bool = False
    is_started: bool = False

    async def step(self) -> Sequence[Burst]:
        """Return the next run, possibly empty. Raises StoreUnavailable."""
        if not self.is_started:
            self.is_started = True
            return await self._first_run()
        run = await self.timeline.older_than(self.subjects, self.after, RUN_LENGTH, self.authors)
        self.has_ended = len(run) < RUN_LENGTH
        if run:
            self.after = position_of(run[-1])
        return run

    async def _first_run(self) -> Sequence[Burst]:
        pulled = await self._read_pull_index()
        if pulled.complete_since is None:
            return ()
        unlisted = await self._read_unlisted(pulled)
        if len(unlisted) == RUN_LENGTH:  # the store alone has filled the newest run
            self.after = position_of(unlisted[-1])
            return unlisted
        # Rows never prove absence, so they are used only down to the index's horizon.
        rows = await self.timeline.rows(self.member, self.subjects, self.after, RUN_LENGTH)
        keys = {position.burst for position in pulled.positions if self._is_remaining(position)} | {
            row.burst for row in rows
        }
        horizon = InboxPosition(pulled.complete_since, LOWEST_KEY)
        bursts = {**await self.timeline.bursts(keys), **{burst.key: burst for burst in unlisted}}
        run = [b for b in bursts.values() if position_of(b) > horizon and self._is_remaining(position_of(b))]
        self.after = min(self.after, horizon) if self.after else horizon
        return sorted(run, key=position_of, reverse=True)

    async def _read_unlisted(self, pulled: PulledPositions) -> Sequence[Burst]:
        """Read the newest bursts from the store, as far back as the index may lack one.

        A missing burst became readable after the index's last comparison, so it opened at most VISIBILITY_DEADLINE
        before the comparison. The read is skipped if all such bursts are too young for a list to need them.
        """
        if pulled.as_of is None or (since := pulled.as_of - VISIBILITY_DEADLINE) > self.now - MAX_UNLISTED_AGE:
            return ()
        if self.after is not None and self.after.opened_at < since:
            return ()
        return await self.timeline.older_than(self.subjects, self.after, RUN_LENGTH, self.authors, since)

    async def _read_pull_index(self) -> PulledPositions:
        try:
            return await self.pull.read_newest(self.subjects)
        except CacheUnavailable:  # fails open: the canonical bursts suffice
            return PulledPositions(positions=(), complete_since=None)

    def _is_remaining(self, position: InboxPosition) -> bool:
        """Return whether the walk has not passed the position yet."""
        return self.after is None or position < self.after


def position_of(listed: ListedBurst) -> InboxPosition:
    return InboxPosition(listed.opened_at, listed.key)
