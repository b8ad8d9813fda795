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
"""Age below which a burst may be missing from a list. Bursts settle later than that (SETTLE_DELAY)."""

LOWEST_KEY = BurstKey(Subject(Kind.MENTION, UserId("")), 0)
"""Sorts before every burst of the same moment."""


@dataclass(slots=True, kw_only=True)
class BurstWalk:
    """Walk through bursts that leaves none out.

    The first step merges pull index and inbox rows down to the horizon, as far as the index proves that nothing is
    missing. Every further step reads the canonical bursts, which need no proof.

    An index that was not compared lately may lack bursts: an announcement failed, and could not revoke the index's
    claim of completeness. Those bursts are read from the store as well. So the walk has everything that is settled at
    `now`, and a `seen` token made then may cover it.
    """

    timeline: Timeline
    pull: PullReader
    subjects: Collection[Subject]
    authors: Collection[UserId]
    """Bursts restricted to followers of other authors are skipped, or their number would show in how far a page
    reaches."""
    member: Member
    now: datetime
    after: InboxPosition | None
    """The walk starts behind this position. Later it is the position of the last burst passed."""
    has_ended: bool = False
    is_started: bool = False

    async def step(self) -> Sequence[Burst]:
        """Return the next run, possibly empty. Raises StoreUnavailable."""
        if not self.is_started:
            self.is_started = True
            return await self._first()
        run = await self.timeline.before(self.subjects, self.after, RUN_LENGTH, self.authors)
        self.has_ended = len(run) < RUN_LENGTH
        if run:
            self.after = position_of(run[-1])
        return run

    async def _first(self) -> Sequence[Burst]:
        pulled = await self._pulled()
        if pulled.complete_since is None:
            return ()
        unlisted = await self._unlisted(pulled)
        if len(unlisted) == RUN_LENGTH:  # the store alone gives the newest run
            self.after = position_of(unlisted[-1])
            return unlisted
        # Rows never prove absence, so they are used only down to the index's horizon.
        rows = await self.timeline.rows(self.member, self.subjects, self.after, RUN_LENGTH)
        keys = {place.burst for place in pulled.positions if self._is_after(place)} | {row.burst for row in rows}
        horizon = InboxPosition(pulled.complete_since, LOWEST_KEY)
        bursts = {**await self.timeline.bursts(keys), **{burst.key: burst for burst in unlisted}}
        run = [b for b in bursts.values() if position_of(b) > horizon and self._is_after(position_of(b))]
        self.after = min(self.after, horizon) if self.after else horizon
        return sorted(run, key=position_of, reverse=True)

    async def _unlisted(self, pulled: PulledPositions) -> Sequence[Burst]:
        """Return the newest bursts, as far back as the index may lack one.

        A missing burst became readable after the last comparison of the index. So it opened at most VISIBILITY_DEADLINE
        before that comparison. If it is too young for any list or badge to claim it, the read is skipped.
        """
        if pulled.as_of is None or (since := pulled.as_of - VISIBILITY_DEADLINE) > self.now - MAX_UNLISTED_AGE:
            return ()
        if self.after is not None and self.after.opened_at < since:
            return ()
        return await self.timeline.before(self.subjects, self.after, RUN_LENGTH, self.authors, since)

    async def _pulled(self) -> PulledPositions:
        try:
            return await self.pull.read_newest(self.subjects)
        except CacheUnavailable:  # fails open: the canonical bursts suffice
            return PulledPositions(positions=(), complete_since=None)

    def _is_after(self, place: InboxPosition) -> bool:
        return self.after is None or place < self.after


def position_of(listed: ListedBurst) -> InboxPosition:
    return InboxPosition(listed.opened_at, listed.key)
