"""In-memory pull index, for writers and readers; it can be wiped."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.inbox import InboxPosition
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.pull_index import MAX_COMPARISON_AGE, NewestPositions, SubjectList, SubjectLists

KEPT = 64
TICK = timedelta(milliseconds=1)
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
NEVER = datetime.max.replace(tzinfo=UTC)
"""Start of a list that proves nothing."""


@dataclass(frozen=True, slots=True)
class _List:
    """List of a subject. It claims to have every burst opened at or after `since`, and its numbers have no gap."""

    since: datetime
    opened: Mapping[int, datetime]

    @property
    def first(self) -> int:
        return min(self.opened)

    @property
    def last(self) -> int:
        return max(self.opened)

    def joined(self, other_list: "_List") -> "_List":
        low, high = (self, other_list) if self.first <= other_list.first else (other_list, self)
        if high.first > low.last + 1:
            return replace(high, since=max(high.since, _after(low.opened.values())))
        seqs = sorted(low.opened.keys() | high.opened.keys())
        # An opening time only moves forward, so the later of two opening times wins.
        opened = {
            seq: max(opened_times[seq] for opened_times in (low.opened, high.opened) if seq in opened_times)
            for seq in seqs
        }
        return _List(min(low.since, high.since), opened).cut()

    def cut(self) -> "_List":
        seqs = sorted(self.opened)
        dropped = [self.opened[seq] for seq in seqs[:-KEPT]]
        since = max(self.since, _after(dropped)) if dropped else self.since
        return _List(since, {seq: self.opened[seq] for seq in seqs[-KEPT:]})


@dataclass(slots=True)
class MemoryPullIndex:
    """Implements both ports; `wipe` acts like a restart of Redis."""

    clock: Clock
    lists: dict[Subject, _List] = field(default_factory=dict)
    since: datetime | None = None
    nonce: str | None = None
    as_of: datetime | None = None
    _last_read: str | None = None
    _nonce_count: int = 0

    def wipe(self) -> None:
        self.lists.clear()
        self.since = self.nonce = self.as_of = None

    def announce(self, bursts: Sequence[Burst]) -> None:
        for burst in bursts:
            self._announce(burst.key.subject, burst.key.seq, burst.opened_at)

    def generation(self) -> str | None:
        if self.nonce is None:
            self._nonce_count += 1
            self.nonce = f"nonce-{self._nonce_count}"
        self._last_read = self.nonce
        return None if self.since is None else self.nonce

    def rebuild(self, pages: Iterable[Sequence[Burst]], since: datetime, as_of: datetime) -> None:
        if self._last_read is None:
            self.generation()
        last_read, bursts = self._last_read, [burst for page in pages for burst in page]
        self._require_generation(last_read)
        for subject, run in _newest_runs(bursts, since).items():
            current = self.lists.get(subject)
            if current and current.since == NEVER:
                current = replace(current, since=current.opened[current.first])
            self.lists[subject] = current.joined(run) if current else run.cut()
        self.since = since
        self._apply_since(since)
        self.as_of = as_of

    def record_comparison(self, since: datetime, as_of: datetime) -> None:
        self._require_generation(self._last_read)
        if self.since is None:
            raise CacheUnavailable("The index isn't rebuilt.")
        self.since = max(self.since, since)
        self._apply_since(self.since)
        self.as_of = as_of

    async def subject_lists(self, subjects: Collection[Subject]) -> SubjectLists | None:
        now = self.clock.now()
        if self.as_of is None or not now - MAX_COMPARISON_AGE <= self.as_of <= now:
            return None
        lists = dict[Subject, SubjectList]()
        for subject in subjects:
            list_ = self.lists.get(subject, _List(NEVER if self.since is None else self.since, {}))
            if list_.since == NEVER:
                continue
            places = [(at, BurstKey(subject, seq)) for seq, at in sorted(list_.opened.items()) if at >= list_.since]
            lists[subject] = SubjectList(complete_since=list_.since, positions=places[::-1])
        return SubjectLists(lists=lists, as_of=self.as_of)

    async def read_newest(self, subjects: Collection[Subject]) -> NewestPositions:
        asked = set(subjects)
        now = self.clock.now()
        if asked and (self.as_of is None or not now - MAX_COMPARISON_AGE <= self.as_of <= now):
            return NewestPositions(positions=(), complete_since=None)
        unlisted = NEVER if self.since is None else self.since
        claims = [self.lists[subject].since if subject in self.lists else unlisted for subject in asked]
        since = max(claims, default=EARLIEST)
        if since == NEVER:
            return NewestPositions(positions=(), complete_since=None)
        places = [
            InboxPosition(opened, BurstKey(subject, seq))
            for subject in asked & self.lists.keys()
            for seq, opened in self.lists[subject].opened.items()
            if opened >= since
        ]
        return NewestPositions(positions=tuple(sorted(places, reverse=True)), complete_since=since, as_of=self.as_of)

    def _announce(self, subject: Subject, seq: int, opened_at: datetime) -> None:
        current = self.lists.get(subject)
        if current is None:
            if self.since is not None and opened_at < self.since:
                return
            unproven = NEVER if self.since is None else EARLIEST if seq == 1 else self.since
            self.lists[subject] = _List(unproven, {seq: opened_at})
            return
        if seq > current.last + 1:
            self.since = self.nonce = None
        since = NEVER if current.since == NEVER else EARLIEST if seq == 1 else opened_at
        self.lists[subject] = current.joined(_List(since, {seq: opened_at}))

    def _require_generation(self, last_read: str | None) -> None:
        if last_read is None or self.nonce != last_read:
            raise CacheUnavailable("The index was emptied, or found to have a gap, while it was rebuilt.")

    def _apply_since(self, since: datetime) -> None:
        for subject, current in list(self.lists.items()):
            if current.opened[current.last] < since:
                del self.lists[subject]
            elif current.since == NEVER:
                self.lists[subject] = replace(current, since=since)


def _newest_runs(bursts: Iterable[Burst], since: datetime) -> dict[Subject, _List]:
    runs: dict[Subject, _List] = {}
    for burst in sorted(bursts, key=lambda burst: burst.key):
        subject, seq = burst.key.subject, burst.key.seq
        run = runs.get(subject)
        if run and seq == run.last + 1:
            runs[subject] = replace(run, opened={**run.opened, seq: burst.opened_at})
        else:
            claim = burst.opened_at if run else EARLIEST if seq == 1 else since
            runs[subject] = _List(claim, {seq: burst.opened_at})
    return runs


def _after(openings: Iterable[datetime]) -> datetime:
    return max(openings) + TICK
