"""The newest bursts of subjects, kept current in memory by following what changes in the store."""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.head import VISIBLE_WITHIN
from notifier.domain.subject import BurstKey, Subject, UserId
from notifier.flow.inbox.shared_loads import SharedLoads
from notifier.flow.inbox.subject_news import FOR_EVER, TICK, SubjectNews
from notifier.flow.page import Entry
from notifier.flow.walk import RUN
from notifier.ports.clock import Clock
from notifier.ports.pull import PullReader, SubjectLists
from notifier.ports.timeline import Place, Timeline
from notifier.telemetry import Hits, Metrics

RECENT_FOR = timedelta(seconds=30)
"""How long a change stays in the list of recent ones: longer than any read of the store can take."""
MOST_RECENT = 5_000
CLOCK_SKEW = timedelta(seconds=3)
"""How far the clocks of two machines may differ (see SETTLED_AFTER)."""
BURST_BYTES = 1_200
"""Measured with tracemalloc; a burst's text comes on top."""


@dataclass(slots=True, kw_only=True)
class SubjectCache:
    """For one event loop. Its follower applies every change; what it does not follow it does not answer from."""

    timeline: Timeline
    pull: PullReader
    clock: Clock
    metrics: Metrics
    loads: SharedLoads[BurstKey, Burst]
    subject_loads: SharedLoads[Subject, SubjectNews]
    most_bytes: int
    turn: int = 0
    """Rises with every change to something cached."""
    subjects: "OrderedDict[Subject, SubjectNews]" = field(default_factory=OrderedDict)
    bursts: "OrderedDict[BurstKey, Burst]" = field(default_factory=OrderedDict)
    recent: "OrderedDict[BurstKey, tuple[Burst, datetime]]" = field(default_factory=OrderedDict)
    """Changes of the last seconds with the time of hearing: a load that was under way may have read an older state."""
    recent_since: datetime | None = None
    """Every change that became durable after it is in `recent`. None while nobody follows."""
    size: int = 0
    hits: Hits = field(init=False)
    burst_hits: Hits = field(init=False)

    def __post_init__(self) -> None:
        self.hits = Hits(self.metrics.inbox_cache, "subjects")
        self.burst_hits = Hits(self.metrics.inbox_cache, "bursts")

    def begin(self) -> None:
        """Start from nothing: changes are followed from now on."""
        for news in self.subjects.values():
            news.followed = False
        self.subjects.clear()
        self.bursts.clear()
        self.recent.clear()
        self.size = 0
        self.turn += 1
        self.recent_since = self.clock.now()

    def apply(self, burst: Burst) -> None:
        """Take in a change. Repeated and late ones change nothing."""
        heard = self.recent.get(burst.key)
        if heard is not None and heard[0].version >= burst.version:
            return
        # What is only loaded counts as a change, too: pages made before the load don't show it.
        if (loaded := self.bursts.get(burst.key)) is not None and loaded.version > burst.version:
            burst = loaded
        now = self.clock.now()
        self.recent[burst.key] = burst, now
        self.recent.move_to_end(burst.key)
        self._trim_recent(now)
        news = self.subjects.get(burst.key.subject)
        if news is not None:
            self.turn += 1
            news.changed = self.turn
            placed = news.place_of(burst.key)
            if placed is None or burst.opened_at >= placed:  # of two openings the later one stands
                self._list(news, burst)
            if placed is None and news.place_of(burst.key) is not None:
                self._keep(burst)
        if burst.key in self.bursts:
            self._keep(burst)
        # Any other burst may have a newer state in the store, heard of long ago: its body is read when needed.

    async def read(self, subjects: Collection[Subject]) -> Sequence[SubjectNews]:
        """Return what is known of each subject, loading the missing ones together. Raises StoreUnavailable."""
        missing = [subject for subject in subjects if subject not in self.subjects]
        loaded = await self.subject_loads.load(missing, self._load) if missing else {}
        self.hits.missed.inc(len(missing))
        self.hits.hit.inc(len(subjects) - len(missing))
        found = list[SubjectNews]()
        for subject in subjects:
            if news := self.subjects.get(subject):
                self.subjects.move_to_end(subject)
                found.append(news)
            else:
                found.append(loaded[subject] if subject in loaded else await self._alone(subject))
        return found

    async def bodies(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        """Return the bursts, those that are not cached by one load, which concurrent callers share."""
        found = {key: burst for key in keys if key in self.bursts and (burst := self._known(key))}
        missing = [key for key in keys if key not in found]
        self.burst_hits.hit.inc(len(found))
        if not missing:
            return found
        self.burst_hits.missed.inc(len(missing))
        read = await self.loads.load(missing, self._read_bursts)
        for burst in read.values():
            self._keep(burst)
        # Not what was read but what is known now: a change may have come in meanwhile.
        return found | {key: known for key in missing if (known := self._known(key, read.get(key)))}

    def latest(self, entry: Entry) -> Entry:
        """The entry as it is known now, without a read."""
        return (self._known(entry.key, entry) or entry) if isinstance(entry, Burst) else entry

    async def before(
        self, subjects: Collection[Subject], after: Place | None, authors: Collection[UserId]
    ) -> Sequence[Burst]:
        """Read the next run from the store. Raises StoreUnavailable."""
        self.metrics.inbox_store_calls.inc()
        return await self.timeline.before(subjects, after, RUN, authors)

    async def _read_bursts(self, keys: Sequence[BurstKey]) -> Mapping[BurstKey, Burst]:
        self.metrics.inbox_burst_loads.inc(len(keys))
        self.metrics.inbox_store_calls.inc()
        return await self.timeline.bursts(keys)

    async def _alone(self, subject: Subject) -> SubjectNews:
        """A subject that was evicted between two steps, in a cache that is too small for one viewer."""
        return (await self._load([subject]))[subject]

    async def _load(self, subjects: Sequence[Subject]) -> Mapping[Subject, SubjectNews]:
        began = self.clock.now()
        lists = await self._lists(subjects)
        listed = lists.lists if lists else {}
        found = {
            subject: SubjectNews(subject=subject, complete_since=one.complete_since, places=[*reversed(one.places)])
            for subject, one in listed.items()
        }
        if lists and not self._followed_since(lists.as_of - CLOCK_SKEW):
            await self._add_unlisted(found, lists.as_of)
        if unproven := [subject for subject in subjects if subject not in found]:
            found |= await self._from_store(unproven)
        self._admit(found, began)
        return found

    async def _lists(self, subjects: Sequence[Subject]) -> SubjectLists | None:
        try:
            self.metrics.inbox_redis_calls.inc()
            return await self.pull.subject_lists(subjects)
        except CacheUnavailable:  # fails open: the store knows everything that the index lists
            return None

    async def _add_unlisted(self, found: Mapping[Subject, SubjectNews], as_of: datetime) -> None:
        """Add what the index may lack: bursts that became readable after it was last compared with the store."""
        self.metrics.inbox_store_calls.inc()
        bursts = await self.timeline.before([*found], None, RUN, None, as_of - VISIBLE_WITHIN)
        self.metrics.inbox_burst_loads.inc(len(bursts))
        if len(bursts) == RUN:  # older ones may be missing
            for news in found.values():
                news.complete_since = max(news.complete_since, bursts[-1].opened_at + TICK)
        for burst in bursts:
            found[burst.key.subject].put(burst)
            self._keep(burst)

    async def _from_store(self, subjects: Sequence[Subject]) -> Mapping[Subject, SubjectNews]:
        self.metrics.inbox_store_calls.inc()
        bursts = await self.timeline.before(subjects, None, RUN)
        self.metrics.inbox_burst_loads.inc(len(bursts))
        since = bursts[-1].opened_at + TICK if len(bursts) == RUN else FOR_EVER
        found = {subject: SubjectNews(subject=subject, complete_since=since, places=[]) for subject in subjects}
        for burst in bursts:
            found[burst.key.subject].put(burst)
            self._keep(burst)
        return found

    def _admit(self, found: Mapping[Subject, SubjectNews], began: datetime) -> None:
        """Put them into the cache with all changes that came in while they were read."""
        for burst, _ in self.recent.values():
            if news := found.get(burst.key.subject):
                news.put(burst)
        followed = self._followed_since(began)
        for news in found.values():
            news.followed = followed
            news.changed = self.turn  # a page from before the subject left the cache may lack what this load found
            if not followed:  # changes that came in since may be lost: it serves the one who asked, and nobody after
                continue
            if known := self.subjects.pop(news.subject, None):  # loaded twice at once
                known.followed = False
                self.size -= known.size
            self.subjects[news.subject] = news
            self.size += news.size
        self._evict()

    def _list(self, news: SubjectNews, burst: Burst) -> None:
        self.size -= news.size
        news.put(burst)
        self.size += news.size

    def _keep(self, burst: Burst) -> None:
        """Cache the burst unless a newer state is known."""
        known = self._known(burst.key)
        if known is not None and known.version > burst.version:
            burst = known
        if before := self.bursts.pop(burst.key, None):
            self.size -= _size(before)
            if before.opened_at != burst.opened_at and (news := self.subjects.get(burst.key.subject)):
                self._list(news, burst)
        self.bursts[burst.key] = burst
        self.size += _size(burst)
        self._evict()

    def _known(self, key: BurstKey, other: Burst | None = None) -> Burst | None:
        """Return the newest state: of what was heard lately, what is cached, and the other one."""
        states = [burst for burst in (self.bursts.get(key), other) if burst is not None]
        if recent := self.recent.get(key):
            states.append(recent[0])
        return max(states, key=_version, default=None)

    def _followed_since(self, moment: datetime) -> bool:
        return self.recent_since is not None and self.recent_since <= moment

    def _trim_recent(self, now: datetime) -> None:
        while self.recent:
            key, (_, heard_at) = next(iter(self.recent.items()))
            if heard_at > now - RECENT_FOR and len(self.recent) <= MOST_RECENT:
                return
            del self.recent[key]
            self.recent_since = max(self.recent_since or heard_at, heard_at + TICK)

    def _evict(self) -> None:
        while self.size > self.most_bytes and (self.bursts or self.subjects):
            if self.bursts and len(self.bursts) >= len(self.subjects):
                _, burst = self.bursts.popitem(last=False)
                self.size -= _size(burst)
            else:
                _, news = self.subjects.popitem(last=False)
                news.followed = False
                self.turn += 1  # its changes are noticed no more, so pages that list it are not proved by the turn
                self.size -= news.size


def _version(burst: Burst) -> int:
    return burst.version


def _size(burst: Burst) -> int:
    return BURST_BYTES + len(burst.text) + 60 * len(burst.mentioners)
