"""Write side of the pull index in Redis: announcements, comparisons and rebuilds."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Lock

from notifier.adapters.redis.calls import Argument, Command, ScriptCall, discard, run_calls
from notifier.adapters.redis.connect import RedisClient
from notifier.adapters.redis.keys import CHECKSUM, LuaScript, unwrap_fields, wrap
from notifier.adapters.redis.pull_reader import AS_OF, EPOCH, KEPT, PARTS, SINCE, key, milliseconds, part_of
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.coordination import Nonces

MAX_UNSENT = 10_000
"""Bursts buffered while Redis is unavailable. With more, the whole index is declared lost instead."""

AT_ONCE = 500
"""Subjects in one script call. A running script blocks all other clients of the server."""

MOST_LISTS = 20_000
"""Lists in a part.

With the usual few bursts per list, all parts together stay under 100 MB of a server's 256 MB. With more subjects the
index covers a shorter time.
"""

SWEPT_EVERY = 60
"""Comparisons between two sweeps. With one comparison a second, all parts are swept within about half an hour."""

LEAST_SPAN = timedelta(minutes=1)
"""Time that the index covers even if it is too full."""

MAX_FILL = 0.5
"""Milliseconds after a page's oldest burst. The fraction marks claims of an unfinished rebuild."""

Run = list[Burst]
"""Bursts of one subject in ascending order, whose sequence numbers have no gap."""

_PROOF = (EPOCH.encode(), SINCE.encode(), AS_OF.encode())


class RedisPullIndex:
    """Thread-safe writer of the pull index.

    Every burst is written to the store before it is announced, so the store knows what Redis missed. A failed
    announcement invalidates the index in one of two ways. A full server still deletes, so `as_of` is removed at once.
    On a server that hangs or cannot be reached, `as_of` expires by itself (FRESH_FOR). Either way the next comparison
    restores it. The process that compares, this one or a successor, has first announced what the store holds.

    Garbage in a part invalidates the whole part, as if it had been wiped.

    Failed announcements are also buffered here, and sent first at the next call of any kind. That only saves time: it
    avoids gaps in the lists, and a gap ends the generation.
    """

    def __init__(self, client: RedisClient, nonces: Nonces) -> None:
        self._client = client
        self._nonces = nonces
        self._join = LuaScript.named(CHECKSUM, "pull_part", "merge_lists")
        self._declare = LuaScript.named(CHECKSUM, "pull_part", "record_comparison")
        self._settle = LuaScript.named(CHECKSUM, "pull_part", "settle_lists")
        self._epochs: dict[int, bytes] = {}
        self._unsent: dict[BurstKey, Burst] = {}
        self._too_many_owed = False
        self._comparisons = 0
        self._lock = Lock()

    def announce(self, bursts: Sequence[Burst]) -> None:
        with self._lock:
            self._send_unsent(bursts)

    def generation(self) -> str | None:
        with self._lock:
            self._send_unsent()
            proofs, garbled = self._proofs()
            if garbled:
                # Garbled parts are deleted by now. Plant their epochs at once, so that a rebuild can begin this round.
                proofs, _ = self._proofs()
            epochs = [proof[EPOCH] for proof in proofs]
            # Stored as in the parts, with checksum, so that scripts can compare it. No part ever holds an empty epoch.
            self._epochs = {part: wrap(key(part), epoch, EPOCH) if epoch else b"" for part, epoch in enumerate(epochs)}
        if not all(proof[EPOCH] and proof[SINCE] for proof in proofs):
            return None
        return "+".join(sorted({epoch.decode() for epoch in epochs if epoch}))

    def record_rebuild(self, pages: Iterable[Sequence[Burst]], since: datetime, as_of: datetime) -> None:
        epochs, whole = self._plant_epochs(), True
        # Each step checks the epoch again: lists prove something from the first step on.
        for page in pages:
            with self._lock:
                joined = self._send(_newest_runs(page), epochs)
            # Continue for the remaining parts, so that one rebuild finds the garbage of all parts.
            whole &= all(joined)
            _require_whole(any(joined) or not joined)
        _require_whole(whole)
        self._write_proofs(epochs, milliseconds(since), as_of)
        settled = [self._settled(part) for part in range(PARTS)]
        _require_whole(all(settled))

    def record_comparison(self, since: datetime, as_of: datetime) -> None:
        self._write_proofs(self._plant_epochs(), "", as_of)
        self._comparisons += 1
        sweeps, left = divmod(self._comparisons, SWEPT_EVERY)
        if left == 0:
            self._sweep(sweeps % PARTS, since, as_of)

    def _plant_epochs(self) -> Mapping[int, bytes]:
        if not self._epochs:
            self.generation()
        return self._epochs

    def _send_unsent(self, bursts: Sequence[Burst] = ()) -> None:
        # Buffer them before sending, so that no later error can lose them.
        self._unsent.update((burst.key, burst) for burst in bursts)
        self._too_many_owed |= len(self._unsent) > MAX_UNSENT
        if self._too_many_owed:
            self._unsent.clear()
        try:
            if self._too_many_owed:
                run_calls(self._client, [Command("delete", key(part)) for part in range(PARTS)])
                self._too_many_owed = False
            self._send((run, "") for run in _runs(self._unsent.values()))
        except CacheUnavailable:
            self._invalidate()
            raise
        self._unsent.clear()

    def _invalidate(self) -> None:
        """Invalidate the index after a failed announcement.

        A full server still accepts deletes. On a server that hangs, the claims expire.
        """
        with suppress(CacheUnavailable):
            run_calls(self._client, [Command("hdel", key(part), (AS_OF,)) for part in range(PARTS)])

    def _write_proofs(self, epochs: Mapping[int, bytes], since: int | str, as_of: datetime) -> None:
        now = milliseconds(as_of)
        calls = [ScriptCall(self._declare, key(part), (epochs[part], since, now)) for part in range(PARTS)]
        with self._lock:
            # The store already holds all buffered bursts, so sending them now cannot contradict the comparison.
            self._send_unsent()
            _require_whole(all(run_calls(self._client, calls)))

    def _proofs(self) -> tuple[Sequence[Mapping[str, bytes | None]], bool]:
        """Read the proof of each part: its epoch, planted if absent, and the time since when it is complete.

        The second result tells whether any part was deleted because of garbage.
        """
        nonce, names = self._nonces.new().encode(), [key(part) for part in range(PARTS)]
        planting = [Command("hsetnx", name, (EPOCH, wrap(name, nonce, EPOCH))) for name in names]
        reading = [Command("hmget", name, ([EPOCH, SINCE],)) for name in names]
        answers = zip(names, run_calls(self._client, [*planting, *reading])[PARTS:], strict=True)
        read = [(name, *unwrap_fields(name, {EPOCH: epoch, SINCE: since})) for name, (epoch, since) in answers]
        garbled = [discard(name, garbage) for name, _, garbage in read if garbage]
        run_calls(self._client, garbled)
        return [proof for _, proof, _ in read], bool(garbled)

    def _send(self, runs: Iterable[tuple[Run, float | str]], epochs: Mapping[int, bytes] | None = None) -> list[int]:
        """Send each run with the time since when it is complete, or '' for announcements, which need no epoch.

        Returns one answer per part and call. 0 means that data was lost since the epoch was planted.
        """
        calls: dict[int, list[Argument]] = defaultdict(list)
        answers: list[int] = []
        for count, (run, since) in enumerate(runs, start=1):
            arguments = calls[part_of(run[0].key.subject)]
            arguments += [str(run[0].key.subject), since, len(run)]
            for burst in run:
                arguments += [burst.key.seq, milliseconds(burst.opened_at)]
            if count % AT_ONCE == 0:
                answers += self._join_all(calls, epochs or {})
                calls.clear()
        return answers + self._join_all(calls, epochs or {})

    def _join_all(self, calls: Mapping[int, Sequence[Argument]], epochs: Mapping[int, bytes]) -> list[int]:
        joining = [
            ScriptCall(self._join, key(part), (KEPT, epochs.get(part, b""), *arguments))
            for part, arguments in calls.items()
        ]
        return run_calls(self._client, joining) if joining else []

    def _sweep(self, part: int, since: datetime, as_of: datetime) -> None:
        """Drop lists older than `since`. While the part is still too long, halve the time that it covers."""
        span, now = as_of - since, milliseconds(as_of)
        while True:
            declaring = ScriptCall(self._declare, key(part), (self._epochs[part], milliseconds(as_of - span), now))
            with self._lock:
                run_calls(self._client, [declaring])
            _require_whole(self._settled(part))
            with self._lock:
                [lists] = run_calls(self._client, [Command("hlen", key(part))])
            if lists <= MOST_LISTS or span <= LEAST_SPAN:
                return
            span /= 2

    def _settled(self, part: int) -> bool:
        """Settle all lists of the part. Return False if the part is no longer complete."""
        cursor = -1
        while cursor != 0:
            with self._lock:
                scan = Command("hscan", key(part), (max(cursor, 0),), {"count": AT_ONCE})
                [(cursor, page)] = run_calls(self._client, [scan])
                names = tuple(name for name in page if name not in _PROOF)
                [settled] = run_calls(self._client, [ScriptCall(self._settle, key(part), names)])
            if not settled:
                return False
        return True


def _runs(bursts: Iterable[Burst]) -> Iterator[Run]:
    """Split bursts into runs by subject, ascending, cut at each missing sequence number."""
    run: Run = []
    for burst in sorted(bursts, key=lambda burst: burst.key):
        if run and burst.key != _next(run):
            yield run
            run = []
        run.append(burst)
    if run:
        yield run


def _newest_runs(page: Sequence[Burst]) -> Iterator[tuple[Run, float]]:
    """Yield the newest run of each subject with the time since when it is complete.

    A page is complete from just after its oldest burst, which may share its time with the newest of the next page.
    The burst of a missing sequence number is not readable yet, so the newer run is complete since its own opening.
    """
    newest: dict[Subject, tuple[Run, float]] = {}
    for run in _runs(page):
        subject = run[0].key.subject
        claim = 0.0 if run[0].key.seq == 1 else milliseconds(page[-1].opened_at) + MAX_FILL
        newest[subject] = (run, milliseconds(run[0].opened_at) if subject in newest else claim)
    return iter(newest.values())


def _require_whole(whole: bool) -> None:
    if not whole:
        raise CacheUnavailable("The pull index was flushed, or had a gap or garbage, while it was rebuilt.")


def _next(run: Run) -> BurstKey:
    return BurstKey(run[0].key.subject, run[-1].key.seq + 1)
