"""Walk bursts, newest first: from memory, and then from the store."""

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.flow.inbox.burst_walk import (
    LOWEST_KEY,
    RUN_LENGTH,
    oldest_visible,
    position_of,
    possibly_visible_subjects,
)
from notifier.flow.inbox.newest_bursts_and_change_times import OLDEST_POSITION, PositionTuple, SubjectPositions
from notifier.flow.inbox.subject_cache import SubjectCache
from notifier.ports.inbox import InboxPosition

_LIST_END = InboxPosition(*OLDEST_POSITION)
"""Horizon of a walk whose lists lack no visible burst."""
FIRST_RUN_LENGTH = 32
"""Bursts of the first run: a page of 20, the burst after it, and some that the viewer may not see."""


@dataclass(slots=True, kw_only=True)
class CachedWalk:
    """Walk through bursts, from lists in memory if possible.

    The subjects' lists in memory have every visible burst down to the horizon. The horizon is the newest `complete_to`
    of the lists that may lack visible bursts. There the walk extends these lists from the store, for all viewers. If
    they cannot grow, the walk reads the store for this viewer only.
    """

    cache: SubjectCache
    lists: Sequence[SubjectPositions]
    subjects: Collection[Subject]
    visible_from: Mapping[Subject, datetime]
    """Time from which the viewer sees the bursts of a subject. Without a time the viewer sees all of them."""
    authors: Collection[UserId]
    """Authors whose restricted bursts the viewer may see. Restricted bursts by other authors take no places in a run.
    Otherwise the end of a page would reveal how many there are."""
    after: InboxPosition | None
    """Position that the walk has reached. The next step continues after it. None: start at the newest burst."""
    has_ended: bool = False
    _run_length: int = FIRST_RUN_LENGTH
    _in_memory: bool = field(init=False)
    _horizon: InboxPosition = field(init=False)
    _by_subject: Mapping[Subject, SubjectPositions] = field(init=False)
    _oldest: Sequence[PositionTuple] = field(init=False)
    """Oldest position at which each list may have a visible burst."""

    def __post_init__(self) -> None:
        self._oldest = [
            (oldest_visible(subject_list.subject, self.visible_from), LOWEST_KEY) for subject_list in self.lists
        ]
        self._update_horizon()
        self._in_memory = self.after is None or self.after > self._horizon
        self._by_subject = {subject_list.subject: subject_list for subject_list in self.lists}

    async def step(self) -> Sequence[Burst]:
        return await (self._from_memory() if self._in_memory else self._from_store())

    async def _from_memory(self) -> Sequence[Burst]:
        run_length, self._run_length = self._run_length, RUN_LENGTH
        run = list[Burst]()
        while len(run) < run_length:
            self._update_horizon()
            limit = run_length - len(run)
            positions = [*islice(self._positions(), limit)]
            keys = [key for _, key in positions]
            bursts = await self.cache.read_bursts(keys)
            if self._correct_positions(positions, bursts):
                continue
            run += [burst for key in keys if (burst := bursts.get(key)) and self._admits(burst)]
            if keys and keys[-1] in bursts:
                self.after = position_of(bursts[keys[-1]])
            if len(keys) < limit:
                if self._horizon == _LIST_END:
                    self.has_ended = True
                elif not run:
                    await self._extend()
                if run or self.has_ended or not self._in_memory:
                    break
        return run

    async def _extend(self) -> None:
        """Lower the horizon, or read the store from now on if the lists cannot grow. Raises StoreUnavailable."""
        last_horizon = self._horizon
        self._update_horizon()
        horizon = self._horizon
        if horizon < last_horizon:  # another viewer's walk has extended the lists
            return
        await self.cache.extend([subject_list.subject for subject_list in self._incomplete_lists()], horizon)
        self._update_horizon()
        if self._horizon >= horizon:
            self._in_memory = False
            if self.after is None or self.after > horizon:
                self.after = horizon

    async def _from_store(self) -> Sequence[Burst]:
        subjects = possibly_visible_subjects(self.subjects, self.visible_from, self.after)
        run = await self.cache.older_than(subjects, self.after, self.authors)
        self.has_ended = len(run) < self.cache.run_length
        if run:
            self.after = position_of(run[-1])
        return run

    def _update_horizon(self) -> None:
        """Update the horizon. New bursts can raise it: a full list drops its oldest burst."""
        self._horizon = InboxPosition(
            *max((subject_list.complete_to for subject_list in self._incomplete_lists()), default=OLDEST_POSITION)
        )

    def _incomplete_lists(self) -> Iterator[SubjectPositions]:
        """Yield the lists that may lack visible bursts."""
        for subject_list, oldest in zip(self.lists, self._oldest, strict=True):
            if subject_list.complete_to > oldest:
                yield subject_list

    def _positions(self) -> Iterator[PositionTuple]:
        """Yield all positions that are older than `after`, down to the horizon, newest first."""
        after = None if self.after is None else (self.after.opened_at, self.after.burst)
        horizon = (self._horizon.opened_at, self._horizon.burst)
        return heapq.merge(
            *(
                subject_list.newest(after, max(horizon, oldest))
                for subject_list, oldest in zip(self.lists, self._oldest, strict=True)
                if subject_list.positions
            ),
            reverse=True,
        )

    def _correct_positions(self, positions: Sequence[PositionTuple], bursts: Mapping[BurstKey, Burst]) -> bool:
        """Correct positions of bursts whose opening time has changed, and drop bursts that the store does not have.

        Return whether a position may have changed, also by a change that arrived during the read.
        """
        changed = False
        for opened_at, key in positions:
            burst = bursts.get(key)
            changed |= self.cache.correct(self._by_subject[key.subject], key, burst)
            changed |= burst is not None and burst.opened_at != opened_at
        return changed

    def _admits(self, burst: Burst) -> bool:
        return burst.restricted_to is None or burst.restricted_to in self.authors
