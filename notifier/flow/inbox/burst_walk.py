"""A walk through all bursts of some subjects, newest first, none left out: the merge behind every page and badge."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.sequencer import VISIBLE_WITHIN
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.users.visibility import ListedBurst
from notifier.ports.inbox import InboxPosition, Timeline
from notifier.ports.pull_index import Pulled, PullReader

RUN = 64
"""Bursts a read: three pages' worth."""

YOUNG = 2 * VISIBLE_WITHIN
"""A burst that opened so lately may be lacking in a list; it is settled only later (SETTLED_AFTER)."""

BEFORE_ALL = BurstKey(Subject(Kind.MENTION, UserId("")), 0)
"""Sorts before every burst of the same moment."""


@dataclass(slots=True, kw_only=True)
class Walk:
    """The first step merges pull index and rows down to the horizon, as far as the index proves that nothing is
    missing; every further one reads the canonical bursts, which need no proof.

    What an index may lack that wasn't compared lately (an announcement failed, and couldn't take its claim away) is
    read from the store as well. So whatever is settled at `now` is in the walk, and a token made then may cover it.
    """

    timeline: Timeline
    pull: PullReader
    subjects: Collection[Subject]
    authors: Collection[UserId]
    """Bursts restricted to the followers of others are passed as if they weren't there, or their number would show in
    how far a page comes."""
    member: Member
    now: datetime
    after: InboxPosition | None
    """Behind this place; afterwards behind the last burst walked past."""
    ended: bool = False
    looked: bool = False

    async def step(self) -> Sequence[Burst]:
        """The next run, possibly empty. Raises StoreUnavailable."""
        if not self.looked:
            self.looked = True
            return await self._first()
        found = await self.timeline.before(self.subjects, self.after, RUN, self.authors)
        self.ended = len(found) < RUN
        if found:
            self.after = place_of(found[-1])
        return found

    async def _first(self) -> Sequence[Burst]:
        pulled = await self._pulled()
        if pulled.complete_since is None:
            return ()
        unlisted = await self._unlisted(pulled)
        if len(unlisted) == RUN:  # the store alone gives the newest run
            self.after = place_of(unlisted[-1])
            return unlisted
        # Rows never prove absence, so they count down to the index's horizon only.
        rows = await self.timeline.rows(self.member, self.subjects, self.after, RUN)
        keys = {place.burst for place in pulled.places if self._behind(place)} | {row.burst for row in rows}
        horizon = InboxPosition(pulled.complete_since, BEFORE_ALL)
        bursts = {**await self.timeline.bursts(keys), **{burst.key: burst for burst in unlisted}}
        found = [b for b in bursts.values() if place_of(b) > horizon and self._behind(place_of(b))]
        self.after = min(self.after, horizon) if self.after else horizon
        return sorted(found, key=place_of, reverse=True)

    async def _unlisted(self, pulled: Pulled) -> Sequence[Burst]:
        """The newest bursts, as far back as the index may lack one.

        What it lacks became readable after its comparison, and so opened at most VISIBLE_WITHIN before it. Where that
        is too young, no list or badge claims to have it, and the read is saved.
        """
        if pulled.as_of is None or (since := pulled.as_of - VISIBLE_WITHIN) > self.now - YOUNG:
            return ()
        if self.after is not None and self.after.opened_at < since:
            return ()
        return await self.timeline.before(self.subjects, self.after, RUN, self.authors, since)

    async def _pulled(self) -> Pulled:
        try:
            return await self.pull.news(self.subjects)
        except CacheUnavailable:  # fails open: the canonical bursts alone make the page right
            return Pulled(places=(), complete_since=None)

    def _behind(self, place: InboxPosition) -> bool:
        return self.after is None or place < self.after


def place_of(listed: ListedBurst) -> InboxPosition:
    return InboxPosition(listed.opened_at, listed.key)
