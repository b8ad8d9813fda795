"""In-memory cache of each subject's newest bursts, which follows their changes."""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.sequencer import VISIBILITY_DEADLINE
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.domain.users.visibility import MAX_CLOCK_SKEW
from notifier.flow.inbox.burst_walk import LOWEST_KEY
from notifier.flow.inbox.newest_bursts_and_change_times import (
    MAX_POSITIONS,
    OLDEST_POSITION,
    ONE_MILLISECOND,
    ChangeTimes,
    PositionTuple,
    RecentChange,
    SubjectPositions,
)
from notifier.flow.inbox.page import Entry
from notifier.flow.inbox.shared_loads import SharedLoads
from notifier.metrics import CacheCounters, Metrics
from notifier.ports.inbox import InboxPosition, Timeline
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.pull_index import PullReader, SubjectLists

RECENT_CHANGE_TTL = timedelta(seconds=30)
"""Age at which a change leaves `recent_changes`. After that, the result of a read that began before the change arrived
is not cached."""
MAX_RECENT_CHANGES = 5_000
BURST_BYTES, MENTIONER_BYTES = 1_200, 60
"""Bytes of a burst without its text and mentioners, and of each mentioner. Measured with tracemalloc."""

ReadStart = tuple[int, datetime]
"""Start of a read of the store: the cache's `restart_count` and the time, both taken before the read."""

Extension = tuple[Subject, InboxPosition]
"""A subject, and the position after which its list is extended by older bursts."""


@dataclass(slots=True, kw_only=True)
class SubjectCache:
    """Cache of one event loop. A list that may lack a change is not cached."""

    timeline: Timeline
    pull: PullReader
    clock: Clock
    metrics: Metrics
    burst_loads: SharedLoads[BurstKey, Burst]
    list_loads: SharedLoads[Subject, SubjectPositions]
    extension_loads: SharedLoads[Extension, None]
    max_bytes: int
    run_length: int = MAX_POSITIONS
    """Maximum bursts of a run that is read from the store."""
    max_positions: int = MAX_POSITIONS
    max_recent_changes: int = MAX_RECENT_CHANGES
    """Maximum changes in `recent_changes`. If more arrive during a load, its result is not cached."""
    revision: int = 0
    """Increases with each change of a burst, cached or not, and with each call of `begin`."""
    cached_lists: "OrderedDict[Subject, SubjectPositions]" = field(default_factory=OrderedDict)
    bursts: "OrderedDict[BurstKey, Burst]" = field(default_factory=OrderedDict)
    recent_changes: "OrderedDict[BurstKey, RecentChange]" = field(default_factory=OrderedDict)
    """Recent changes, the latest of each burst, oldest first. They correct a load that read an older state."""
    recent_since: datetime | None = None
    """Every change that became durable after this time is in `recent_changes`, or has yet to arrive.

    None until changes are followed.
    """
    restart_count: int = 0
    """Number of calls of `begin`. The result of a read during which it increases is not cached."""
    size: int = 0
    """Bytes of all cached lists and bursts."""
    change_times: ChangeTimes = field(default_factory=ChangeTimes)
    """Times of the subjects' latest changes, whether the subjects are cached or not."""
    subject_stats: CacheCounters = field(init=False)
    burst_stats: CacheCounters = field(init=False)

    def __post_init__(self) -> None:
        self.subject_stats = CacheCounters(self.metrics.inbox_cache, "subjects")
        self.burst_stats = CacheCounters(self.metrics.inbox_cache, "bursts")

    def begin(self) -> None:
        """Empty the cache, and follow changes from now on. Loads in progress may lack changes and are not cached."""
        self.restart_count += 1
        self.burst_loads.abandon()
        self.list_loads.abandon()
        self.extension_loads.abandon()
        for subject_list in self.cached_lists.values():
            subject_list.is_followed = False
        self.cached_lists.clear()
        self.bursts.clear()
        self.recent_changes.clear()
        self.size = 0
        self.revision += 1
        self.recent_since = self.clock.now()
        self.change_times.begin(self.revision, self.recent_since)

    def apply(self, burst: Burst) -> None:
        """Apply a burst from the store's change feed."""
        self._apply(burst, is_newest=True)

    def apply_published(self, burst: Burst) -> None:
        """Apply a burst from the burst stream, which may deliver it late.

        This process may have received a newer state of the burst, and forgotten it. That is ruled out if the process
        still knows a state of the burst, or if `recent_changes` has every change since the burst opened.
        """
        is_newest = self._known_state(burst.key) is not None or self._follows_since(burst.opened_at - MAX_CLOCK_SKEW)
        self._apply(burst, is_newest=is_newest)

    def _apply(self, burst: Burst, *, is_newest: bool) -> None:
        key, now = burst.key, self.clock.now()
        if (change := self.recent_changes.get(key)) and (change.burst.version, change.is_newest) >= (
            burst.version,
            is_newest,
        ):
            return
        # Note a change even if a load has cached this state before: pages that were made before it do not show it.
        if (cached := self.bursts.get(key)) and cached.version >= burst.version:
            burst, is_newest = cached, True
        change = self.recent_changes[key] = RecentChange(burst=burst, received_at=now, is_newest=is_newest)
        self.recent_changes.move_to_end(key)
        self._trim_recent(now)
        self._note_change(key.subject)
        if subject_list := self.cached_lists.get(key.subject):
            self.size -= subject_list.size
            subject_list.apply(change)
            self.size += subject_list.size
        if is_newest and (subject_list or cached):
            self._cache_burst(burst)

    async def read(self, subjects: Collection[Subject]) -> Sequence[SubjectPositions]:
        """Return the list of each subject, in order. Raises StoreUnavailable."""
        missing = [subject for subject in subjects if subject not in self.cached_lists]
        loaded = await self._load_missing(missing) if missing else {}
        self.subject_stats.misses.inc(len(missing))
        self.subject_stats.hits.inc(len(subjects) - len(missing))
        lists = list[SubjectPositions]()
        for subject in subjects:
            if subject_list := self.cached_lists.get(subject):
                self.cached_lists.move_to_end(subject)
                lists.append(subject_list)
            else:
                lists.append(loaded[subject] if subject in loaded else await self._load_evicted(subject))
        return lists

    async def _load_missing(self, subjects: Sequence[Subject]) -> Mapping[Subject, SubjectPositions]:
        """Load the lists, again if the cache restarted meanwhile.

        A load from before the restart may lack changes that an earlier page showed this viewer.
        """
        while True:
            restart_count = self.restart_count
            loaded = await self.list_loads.load(subjects, self._load_lists)
            if restart_count == self.restart_count:
                return loaded

    async def read_bursts(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        bursts = {key: burst for key in keys if (burst := self._known_state(key))}
        missing = [key for key in keys if key not in bursts]
        self.burst_stats.hits.inc(len(bursts))
        if not missing:
            return bursts
        self.burst_stats.misses.inc(len(missing))
        restart_count = self.restart_count
        loaded = await self.burst_loads.load(missing, self._load_bursts)
        if restart_count != self.restart_count:
            return await self.read_bursts(keys)
        # Prefer the newest known state over the loaded state: a change may have arrived meanwhile.
        return bursts | {key: burst for key in missing if (burst := self._known_state(key) or loaded.get(key))}

    def newest_state(self, entry: Entry) -> Entry:
        """Return the newest known state of the entry, without a read."""
        if not isinstance(entry, Burst):
            return entry
        change, cached = self.recent_changes.get(entry.key), self.bursts.get(entry.key)
        return _highest_version(entry, change.burst if change else None, cached)

    def correct(self, subject_list: SubjectPositions, key: BurstKey, burst: Burst | None) -> bool:
        """Move a burst in the list to its current position, or drop it if `burst` is None.

        Return False if the burst was at that position already.
        """
        size_before = subject_list.size
        changed = subject_list.correct(key, burst)
        if changed and self.cached_lists.get(subject_list.subject) is subject_list:
            self.size += subject_list.size - size_before
        return changed

    async def extend(self, subjects: Sequence[Subject], after: InboxPosition) -> None:
        """Read the run of bursts after a position, and add it to the subjects' lists. Raises StoreUnavailable."""
        await self.extension_loads.load([(subject, after) for subject in subjects], self._read_extensions)

    async def _read_extensions(self, extensions: Sequence[Extension]) -> Mapping[Extension, None]:
        """Extend the lists. All extensions have the same position."""
        subjects, after = [subject for subject, _ in extensions], extensions[0][1]
        began = self._begin_read()
        with self.metrics.inbox_store():
            bursts = await self.timeline.older_than(subjects, after, self.run_length)
        self.metrics.inbox_burst_loads.inc(len(bursts))
        if self._knows_changes_since(began):
            for burst in bursts:
                self._cache_burst(burst)
            self._extend_lists(subjects, (after.opened_at, after.burst), bursts)
        return dict.fromkeys(extensions)

    async def older_than(
        self, subjects: Collection[Subject], position: InboxPosition | None, authors: Collection[UserId]
    ) -> Sequence[Burst]:
        """Read the run of bursts after a position from the store. Raises StoreUnavailable.

        Restricted bursts are left out unless they are by one of `authors`.
        """
        with self.metrics.inbox_store():
            return await self.timeline.older_than(subjects, position, self.run_length, authors)

    async def _load_bursts(self, keys: Sequence[BurstKey]) -> Mapping[BurstKey, Burst]:
        self.metrics.inbox_burst_loads.inc(len(keys))
        began = self._begin_read()
        with self.metrics.inbox_store():
            bursts = await self.timeline.bursts(keys)
        if self._knows_changes_since(began):  # otherwise only the callers of this load get the bursts
            for burst in bursts.values():  # cached before the load ends, so that later callers find them
                self._cache_burst(burst)
        return bursts

    async def _load_evicted(self, subject: Subject) -> SubjectPositions:
        """Load a list that left the cache while others were loaded."""
        return (await self._load_lists([subject]))[subject]

    async def _load_lists(self, subjects: Sequence[Subject]) -> Mapping[Subject, SubjectPositions]:
        """Read the lists from the pull index. Lists that the index does not prove complete are read from the store."""
        began = self._begin_read()
        index_answer = await self._read_subject_lists(subjects)
        index_lists = index_answer.lists if index_answer else {}
        by_subject = {
            subject: self._new_list(subject, (index_list.complete_since, LOWEST_KEY), [*reversed(index_list.positions)])
            for subject, index_list in index_lists.items()
        }
        if index_answer and not self._follows_since(index_answer.as_of - MAX_CLOCK_SKEW):
            await self._add_unlisted(by_subject, index_answer.as_of, began)
        if not_in_index := [subject for subject in subjects if subject not in by_subject]:
            by_subject |= await self._read_from_store(not_in_index, began)
        self._cache_lists(by_subject, is_followed=self._knows_changes_since(began))
        return by_subject

    async def _read_subject_lists(self, subjects: Sequence[Subject]) -> SubjectLists | None:
        try:
            with self.metrics.inbox_redis():
                return await self.pull.subject_lists(subjects)
        except CacheUnavailable:  # fails open: the store has every burst that the index lists
            return None

    async def _add_unlisted(
        self, by_subject: Mapping[Subject, SubjectPositions], as_of: datetime, began: ReadStart
    ) -> None:
        """Add the bursts that the index may lack: those that became readable after it was compared, at `as_of`."""
        with self.metrics.inbox_store():
            bursts = await self.timeline.older_than(
                [*by_subject], None, self.run_length, None, as_of - VISIBILITY_DEADLINE
            )
        self.metrics.inbox_burst_loads.inc(len(bursts))
        if len(bursts) == self.run_length:  # the run was cut off: older bursts may be missing
            for subject_list in by_subject.values():
                subject_list.complete_to = max(subject_list.complete_to, _position(bursts[-1]))
        self._fill(by_subject, bursts, began)

    async def _read_from_store(
        self, subjects: Sequence[Subject], began: ReadStart
    ) -> Mapping[Subject, SubjectPositions]:
        with self.metrics.inbox_store():
            bursts = await self.timeline.older_than(subjects, None, self.run_length)
        self.metrics.inbox_burst_loads.inc(len(bursts))
        complete_to = self._lowest_complete(bursts)
        by_subject = {subject: self._new_list(subject, complete_to, []) for subject in subjects}
        self._fill(by_subject, bursts, began)
        return by_subject

    def _new_list(
        self, subject: Subject, complete_to: PositionTuple, positions: list[PositionTuple]
    ) -> SubjectPositions:
        return SubjectPositions(
            subject=subject, complete_to=complete_to, positions=positions, max_positions=self.max_positions
        )

    def _lowest_complete(self, run: Sequence[Burst]) -> PositionTuple:
        """Return the position down to which a read of the store is complete."""
        return _position(run[-1]) if len(run) == self.run_length else OLDEST_POSITION

    def _fill(self, by_subject: Mapping[Subject, SubjectPositions], bursts: Sequence[Burst], began: ReadStart) -> None:
        for burst in bursts:
            by_subject[burst.key.subject].put(burst)
            if self._knows_changes_since(began):
                self._cache_burst(burst)

    def _extend_lists(self, subjects: Sequence[Subject], after: PositionTuple, bursts: Sequence[Burst]) -> None:
        """Add these older bursts to the lists that are complete down to `after`.

        Recent changes of older bursts are applied, too: a burst may have changed since it was read.
        """
        complete_lists = [
            subject_list
            for subject_list in map(self.cached_lists.get, subjects)
            if subject_list is not None and subject_list.complete_to <= after
        ]
        extended_lists = {subject_list.subject: subject_list for subject_list in complete_lists}
        changes = [change for change in self.recent_changes.values() if _position(change.burst) < after]
        for subject_list in extended_lists.values():
            self.size -= subject_list.size
            subject_list.complete_to = min(subject_list.complete_to, self._lowest_complete(bursts))
        for burst in bursts:
            if extended := extended_lists.get(burst.key.subject):
                extended.put(self._known_state(burst.key) or burst)
        for change in changes:
            if extended := extended_lists.get(change.burst.key.subject):
                extended.apply(change)
        self.size += sum(subject_list.size for subject_list in extended_lists.values())
        self._evict()

    def _cache_lists(self, by_subject: Mapping[Subject, SubjectPositions], *, is_followed: bool) -> None:
        """Apply recent changes to the lists, and cache them if `is_followed`."""
        for change in self.recent_changes.values():
            if subject_list := by_subject.get(change.burst.key.subject):
                subject_list.apply(change)
        for subject_list in by_subject.values():
            subject_list.is_followed = is_followed
            if not is_followed:  # changes since the read began may be missing: only this load's callers get the list
                continue
            if replaced := self.cached_lists.pop(subject_list.subject, None):  # two concurrent loads of one subject
                replaced.is_followed = False
                self.size -= replaced.size
            self.cached_lists[subject_list.subject] = subject_list
            self.size += subject_list.size
        self._evict()

    def _cache_burst(self, burst: Burst) -> None:
        """Cache a burst that was read, or a later state if one is known."""
        change, replaced = self.recent_changes.get(burst.key), self.bursts.pop(burst.key, None)
        burst = _highest_version(burst, change.burst if change else None, replaced)
        if change is not None:
            # A loaded state that is newer than the latest change counts as a change now: when the feed brings it later,
            # `_apply` ignores it.
            if burst.version > change.burst.version:
                self._note_change(burst.key.subject)
            self.recent_changes[burst.key] = replace(change, burst=burst, is_newest=True)
        if replaced is not None:
            self.size -= burst_size(replaced)
            if replaced.opened_at != burst.opened_at and (subject_list := self.cached_lists.get(burst.key.subject)):
                self.size -= subject_list.size
                subject_list.put(burst)
                self.size += subject_list.size
        self.bursts[burst.key] = burst
        self.size += burst_size(burst)
        self._evict()

    def _note_change(self, subject: Subject) -> None:
        self.revision += 1
        self.change_times.record_change(subject, self.revision, self.clock.now())

    def _known_state(self, key: BurstKey) -> Burst | None:
        """Return the newest state of the burst; None if this process may lack that state."""
        change, cached = self.recent_changes.get(key), self.bursts.get(key)
        if change is None or not change.is_newest:
            return cached
        return cached if cached is not None and cached.version > change.burst.version else change.burst

    def _begin_read(self) -> ReadStart:
        return self.restart_count, self.clock.now()

    def _knows_changes_since(self, began: ReadStart) -> bool:
        """Return whether every change since the read began is in `recent_changes`, or has yet to arrive."""
        restart_count, began_at = began
        return restart_count == self.restart_count and self._follows_since(began_at)

    def _follows_since(self, time: datetime) -> bool:
        return self.recent_since is not None and self.recent_since <= time

    def _trim_recent(self, now: datetime) -> None:
        while self.recent_changes:
            key, change = next(iter(self.recent_changes.items()))
            if change.received_at > now - RECENT_CHANGE_TTL and len(self.recent_changes) <= self.max_recent_changes:
                return
            del self.recent_changes[key]
            self.recent_since = max(self.recent_since or change.received_at, change.received_at + ONE_MILLISECOND)

    def _evict(self) -> None:
        while self.size > self.max_bytes and (self.bursts or self.cached_lists):
            if self.bursts and len(self.bursts) >= len(self.cached_lists):
                _, burst = self.bursts.popitem(last=False)
                self.size -= burst_size(burst)
            else:
                _, subject_list = self.cached_lists.popitem(last=False)
                subject_list.is_followed = False
                self.size -= subject_list.size


def _position(burst: Burst) -> PositionTuple:
    return burst.opened_at, burst.key


def _highest_version(burst: Burst, *candidates: Burst | None) -> Burst:
    return max(
        [burst, *(candidate for candidate in candidates if candidate is not None)], key=lambda state: state.version
    )


def burst_size(burst: Burst) -> int:
    return BURST_BYTES + len(burst.text) + MENTIONER_BYTES * len(burst.mentioners)
