"""The pull index in memory: the writers' side and the readers' side of one index that can be wiped."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.coordination import Clock
from notifier.ports.inbox import InboxPosition
from notifier.ports.pull_index import FRESH_FOR, Pulled, SubjectList, SubjectLists

KEPT = 64
TICK = timedelta(milliseconds=1)
FOR_EVER = datetime(1970, 1, 1, tzinfo=UTC)
NEVER = datetime.max.replace(tzinfo=UTC)
"""A list that is complete since this moment proves nothing."""


@dataclass(frozen=True, slots=True)
class _List:
    """Claims to hold every burst of its subject that opened at or after `since`; the seqs have no gap."""

    since: datetime
    opened: Mapping[int, datetime]

    @property
    def first(self) -> int:
        return min(self.opened)

    @property
    def last(self) -> int:
        return max(self.opened)

    def joined(self, other: "_List") -> "_List":
        low, high = (self, other) if self.first <= other.first else (other, self)
        if high.first > low.last + 1:
            return replace(high, since=max(high.since, _after(low.opened.values())))
        seqs = sorted(low.opened.keys() | high.opened.keys())
        # A re-stamp only moves forward, so of two openings the later stands.
        opened = {seq: max(one[seq] for one in (low.opened, high.opened) if seq in one) for seq in seqs}
        return _List(min(low.since, high.since), opened).cut()

    def cut(self) -> "_List":
        seqs = sorted(self.opened)
        dropped = [self.opened[seq] for seq in seqs[:-KEPT]]
        since = max(self.since, _after(dropped)) if dropped else self.since
        return _List(since, {seq: self.opened[seq] for seq in seqs[-KEPT:]})


@dataclass(slots=True)
class MemoryPullIndex:
    """Both ports at once; `wipe` is what a restart of Redis does to it."""

    clock: Clock
    lists: dict[Subject, _List] = field(default_factory=dict)
    since: datetime | None = None
    epoch: str | None = None
    as_of: datetime | None = None
    _seen: str | None = None
    _epochs: int = 0

    def wipe(self) -> None:
        self.lists.clear()
        self.since = self.epoch = self.as_of = None

    def announce(self, bursts: Sequence[Burst]) -> None:
        for burst in bursts:
            self._announce(burst.key.subject, burst.key.seq, burst.opened_at)

    def generation(self) -> str | None:
        if self.epoch is None:
            self._epochs += 1
            self.epoch = f"epoch-{self._epochs}"
        self._seen = self.epoch
        return None if self.since is None else self.epoch

    def rebuilt(self, pages: Iterable[Sequence[Burst]], since: datetime, as_of: datetime) -> None:
        if self._seen is None:
            self.generation()
        seen, bursts = self._seen, [burst for page in pages for burst in page]
        self._unbroken(seen)
        for subject, given in _newest_runs(bursts, since).items():
            found = self.lists.get(subject)
            if found and found.since == NEVER:
                found = replace(found, since=found.opened[found.first])
            self.lists[subject] = found.joined(given) if found else given.cut()
        self.since = since
        self._settle(since)
        self.as_of = as_of

    def compared(self, since: datetime, as_of: datetime) -> None:
        self._unbroken(self._seen)
        if self.since is None:
            raise CacheUnavailable("The index isn't rebuilt.")
        self.since = max(self.since, since)
        self._settle(self.since)
        self.as_of = as_of

    async def subject_lists(self, subjects: Collection[Subject]) -> SubjectLists | None:
        now = self.clock.now()
        if self.as_of is None or not now - FRESH_FOR <= self.as_of <= now:
            return None
        found = dict[Subject, SubjectList]()
        for subject in subjects:
            one = self.lists.get(subject, _List(NEVER if self.since is None else self.since, {}))
            if one.since == NEVER:
                continue
            places = [(at, BurstKey(subject, seq)) for seq, at in sorted(one.opened.items()) if at >= one.since]
            found[subject] = SubjectList(complete_since=one.since, places=places[::-1])
        return SubjectLists(lists=found, as_of=self.as_of)

    async def news(self, subjects: Collection[Subject]) -> Pulled:
        asked = set(subjects)
        now = self.clock.now()
        if asked and (self.as_of is None or not now - FRESH_FOR <= self.as_of <= now):
            return Pulled(places=(), complete_since=None)
        unlisted = NEVER if self.since is None else self.since
        claims = [self.lists[subject].since if subject in self.lists else unlisted for subject in asked]
        since = max(claims, default=FOR_EVER)
        if since == NEVER:
            return Pulled(places=(), complete_since=None)
        places = [
            InboxPosition(opened, BurstKey(subject, seq))
            for subject in asked & self.lists.keys()
            for seq, opened in self.lists[subject].opened.items()
            if opened >= since
        ]
        return Pulled(places=tuple(sorted(places, reverse=True)), complete_since=since, as_of=self.as_of)

    def _announce(self, subject: Subject, seq: int, opened_at: datetime) -> None:
        found = self.lists.get(subject)
        if found is None:
            if self.since is not None and opened_at < self.since:
                return
            unproven = NEVER if self.since is None else FOR_EVER if seq == 1 else self.since
            self.lists[subject] = _List(unproven, {seq: opened_at})
            return
        if seq > found.last + 1:
            self.since = self.epoch = None
        since = NEVER if found.since == NEVER else FOR_EVER if seq == 1 else opened_at
        self.lists[subject] = found.joined(_List(since, {seq: opened_at}))

    def _unbroken(self, seen: str | None) -> None:
        if seen is None or self.epoch != seen:
            raise CacheUnavailable("The index was emptied, or found to have a gap, while it was rebuilt.")

    def _settle(self, since: datetime) -> None:
        for subject, found in list(self.lists.items()):
            if found.opened[found.last] < since:
                del self.lists[subject]
            elif found.since == NEVER:
                self.lists[subject] = replace(found, since=since)


def _newest_runs(bursts: Iterable[Burst], since: datetime) -> dict[Subject, _List]:
    runs: dict[Subject, _List] = {}
    for burst in sorted(bursts, key=lambda burst: burst.key):
        subject, seq = burst.key.subject, burst.key.seq
        found = runs.get(subject)
        if found and seq == found.last + 1:
            runs[subject] = replace(found, opened={**found.opened, seq: burst.opened_at})
        else:
            claim = burst.opened_at if found else FOR_EVER if seq == 1 else since
            runs[subject] = _List(claim, {seq: burst.opened_at})
    return runs


def _after(openings: Iterable[datetime]) -> datetime:
    return max(openings) + TICK
