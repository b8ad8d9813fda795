"""Write side of the pull index in Redis: announcements, comparisons and rebuilds."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Lock

from notifier.adapters.redis.calls import Argument, Command, ScriptCall, discard, run_calls
from notifier.adapters.redis.connect import RedisClient
from notifier.adapters.redis.keys import CHECKSUM, LuaScript, unwrap_fields, wrap
from notifier.adapters.redis.pull_reader import (
    AS_OF,
    EPOCH,
    MAX_LIST_LENGTH,
    PART_COUNT,
    SINCE,
    part_key,
    part_of,
    to_ms,
)
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.coordination import Nonces

MAX_UNSENT_BURSTS = 10_000
"""Bursts buffered while Redis is unavailable. With more, the whole index is declared lost instead."""

SUBJECTS_PER_CALL = 500
"""Subjects in one script call. A running script blocks all other clients of the server."""

MAX_LISTS_PER_PART = 20_000
"""Lists in a part after a sweep.

With the usual few bursts per list, all parts together stay under 100 MB of a server's 256 MB. With more subjects the
index covers a shorter time.
"""

COMPARISONS_PER_SWEEP = 60
"""Comparisons per sweep of one part. With one comparison a second, all parts are swept within about half an hour."""

MIN_SPAN = timedelta(minutes=1)
"""A sweep keeps the bursts of this time even if the part has too many lists."""

UNSETTLED_FRACTION_MS = 0.5
"""Added to the time since when a list from a page of a rebuild is complete, to mark the list.

All other such times are whole milliseconds. `settle_lists.lua` finishes the marked lists at the end of the rebuild.
"""

Run = list[Burst]
"""Bursts of one subject in ascending order, whose sequence numbers have no gap."""

_PROOF = (EPOCH.encode(), SINCE.encode(), AS_OF.encode())


class RedisPullIndex:
    """Thread-safe writer of the pull index.

    Every burst is written to the store before it is announced, so the store knows what Redis missed. A failed
    announcement invalidates the index. A full server still deletes, so `as_of` is deleted at once. On a server that
    hangs or cannot be reached, `as_of` becomes too old (MAX_COMPARISON_AGE). The next comparison writes it again. The
    process that compares, this one or a successor, has first announced what the store holds.

    Garbage in a part invalidates the whole part, as if it had been wiped.

    Failed announcements are also buffered here, and sent first at the next call of any kind. Without the buffer the
    lists would have gaps. A gap invalidates its part until the next rebuild, which costs time but loses nothing.
    """

    def __init__(self, client: RedisClient, nonces: Nonces) -> None:
        self._client = client
        self._nonces = nonces
        self._merge_script = LuaScript.load(CHECKSUM, "pull_part", "merge_lists")
        self._comparison_script = LuaScript.load(CHECKSUM, "pull_part", "record_comparison")
        self._settle_script = LuaScript.load(CHECKSUM, "pull_part", "settle_lists")
        self._epochs: dict[int, bytes] = {}
        self._unsent: dict[BurstKey, Burst] = {}
        self._has_lost_bursts = False
        self._comparisons = 0
        self._lock = Lock()

    def announce(self, bursts: Sequence[Burst]) -> None:
        with self._lock:
            self._send_unsent(bursts)

    def generation(self) -> str | None:
        with self._lock:
            self._send_unsent()
            proofs, discards = self._read_proofs()
            if discards:
                # Parts with garbage are deleted now. Plant new epochs at once, so that a rebuild can begin in this
                # round.
                proofs, _ = self._read_proofs()
            epochs = [proof[EPOCH] for proof in proofs]
            # With a checksum, as in the parts, so that scripts can compare it. Without an epoch use b"", which no part
            # holds.
            self._epochs = {
                part: wrap(part_key(part), epoch, EPOCH) if epoch else b"" for part, epoch in enumerate(epochs)
            }
        if not all(proof[EPOCH] and proof[SINCE] for proof in proofs):
            return None
        return "+".join(sorted({epoch.decode() for epoch in epochs if epoch}))

    def rebuild(self, pages: Iterable[Sequence[Burst]], since: datetime, as_of: datetime) -> None:
        epochs, is_whole = self._plant_epochs(), True
        # Each step checks the epoch again, because readers may use each list as soon as it is written.
        for page in pages:
            with self._lock:
                merged = self._send(_newest_runs(page), epochs)
            # Even if a part has failed, continue with the others: one rebuild then finds the garbage of all parts.
            is_whole &= all(merged)
            _require_whole(any(merged) or not merged)
        _require_whole(is_whole)
        self._write_proofs(epochs, to_ms(since), as_of)
        is_settled = [self._settle_part(part) for part in range(PART_COUNT)]
        _require_whole(all(is_settled))

    def record_comparison(self, since: datetime, as_of: datetime) -> None:
        self._write_proofs(self._plant_epochs(), "", as_of)
        self._comparisons += 1
        sweeps, remainder = divmod(self._comparisons, COMPARISONS_PER_SWEEP)
        if remainder == 0:
            self._sweep(sweeps % PART_COUNT, since, as_of)

    def _plant_epochs(self) -> Mapping[int, bytes]:
        if not self._epochs:
            self.generation()
        return self._epochs

    def _send_unsent(self, bursts: Sequence[Burst] = ()) -> None:
        # Buffer them before sending, so that no later error can lose them.
        self._unsent.update((burst.key, burst) for burst in bursts)
        self._has_lost_bursts |= len(self._unsent) > MAX_UNSENT_BURSTS
        if self._has_lost_bursts:
            self._unsent.clear()
        try:
            if self._has_lost_bursts:
                run_calls(self._client, [Command("delete", part_key(part)) for part in range(PART_COUNT)])
                self._has_lost_bursts = False
            self._send((run, "") for run in _runs(self._unsent.values()))
        except CacheUnavailable:
            self._invalidate()
            raise
        self._unsent.clear()

    def _invalidate(self) -> None:
        """Invalidate the index after a failed announcement.

        A full server still accepts deletes. On a server that hangs, `as_of` becomes too old.
        """
        with suppress(CacheUnavailable):
            run_calls(self._client, [Command("hdel", part_key(part), (AS_OF,)) for part in range(PART_COUNT)])

    def _write_proofs(self, epochs: Mapping[int, bytes], since: int | str, as_of: datetime) -> None:
        as_of_ms = to_ms(as_of)
        calls = [
            ScriptCall(self._comparison_script, part_key(part), (epochs[part], since, as_of_ms))
            for part in range(PART_COUNT)
        ]
        with self._lock:
            # The store already holds all buffered bursts, so sending them now cannot contradict the comparison.
            self._send_unsent()
            _require_whole(all(run_calls(self._client, calls)))

    def _read_proofs(self) -> tuple[Sequence[Mapping[str, bytes | None]], bool]:
        """Read the epoch and the `since` of each part, after planting an epoch where there is none.

        The second result is True if a part had garbage, for which it was deleted.
        """
        nonce, names = self._nonces.new().encode(), [part_key(part) for part in range(PART_COUNT)]
        plant_commands = [Command("hsetnx", name, (EPOCH, wrap(name, nonce, EPOCH))) for name in names]
        read_commands = [Command("hmget", name, ([EPOCH, SINCE],)) for name in names]
        answers = zip(names, run_calls(self._client, [*plant_commands, *read_commands])[PART_COUNT:], strict=True)
        fields_by_key = [(name, *unwrap_fields(name, {EPOCH: epoch, SINCE: since})) for name, (epoch, since) in answers]
        discards = [discard(name, garbage) for name, _, garbage in fields_by_key if garbage]
        run_calls(self._client, discards)
        return [proof for _, proof, _ in fields_by_key], bool(discards)

    def _send(self, runs: Iterable[tuple[Run, float | str]], epochs: Mapping[int, bytes] | None = None) -> list[int]:
        """Send each run with the time since when it is complete; announcements have '' instead, and need no epoch.

        Return an answer for each call of a part. 0 means that data was lost since the epoch was planted.
        """
        calls: dict[int, list[Argument]] = defaultdict(list)
        answers: list[int] = []
        for run_count, (run, since) in enumerate(runs, start=1):
            arguments = calls[part_of(run[0].key.subject)]
            arguments += [str(run[0].key.subject), since, len(run)]
            for burst in run:
                arguments += [burst.key.seq, to_ms(burst.opened_at)]
            if run_count % SUBJECTS_PER_CALL == 0:
                answers += self._merge_all(calls, epochs or {})
                calls.clear()
        return answers + self._merge_all(calls, epochs or {})

    def _merge_all(self, calls: Mapping[int, Sequence[Argument]], epochs: Mapping[int, bytes]) -> list[int]:
        merge_calls = [
            ScriptCall(self._merge_script, part_key(part), (MAX_LIST_LENGTH, epochs.get(part, b""), *arguments))
            for part, arguments in calls.items()
        ]
        return run_calls(self._client, merge_calls) if merge_calls else []

    def _sweep(self, part: int, since: datetime, as_of: datetime) -> None:
        """Drop lists older than `since`. While the part is still too long, halve the time that it covers."""
        span, as_of_ms = as_of - since, to_ms(as_of)
        while True:
            comparison = ScriptCall(
                self._comparison_script, part_key(part), (self._epochs[part], to_ms(as_of - span), as_of_ms)
            )
            with self._lock:
                run_calls(self._client, [comparison])
            _require_whole(self._settle_part(part))
            with self._lock:
                [list_count] = run_calls(self._client, [Command("hlen", part_key(part))])
            if list_count <= MAX_LISTS_PER_PART or span <= MIN_SPAN:
                return
            span /= 2

    def _settle_part(self, part: int) -> bool:
        """Settle all lists of the part (`settle_lists.lua`). Return False if the part is no longer complete."""
        cursor = -1
        while cursor != 0:
            with self._lock:
                scan = Command("hscan", part_key(part), (max(cursor, 0),), {"count": SUBJECTS_PER_CALL})
                [(cursor, page)] = run_calls(self._client, [scan])
                names = tuple(name for name in page if name not in _PROOF)
                [is_settled] = run_calls(self._client, [ScriptCall(self._settle_script, part_key(part), names)])
            if not is_settled:
                return False
        return True


def _runs(bursts: Iterable[Burst]) -> Iterator[Run]:
    """Split bursts into runs by subject, ascending, cut at each missing sequence number."""
    run: Run = []
    for burst in sorted(bursts, key=lambda burst: burst.key):
        if run and burst.key != _next_key(run):
            yield run
            run = []
        run.append(burst)
    if run:
        yield run


def _newest_runs(page: Sequence[Burst]) -> Iterator[tuple[Run, float]]:
    """Yield the newest run of each subject with the time since when it is complete.

    A page is complete since just after its oldest burst: the newest burst of the next page may have the same time. A
    burst whose sequence number is missing in the page is not readable yet. So the run after it is only complete since
    its own first burst.
    """
    newest: dict[Subject, tuple[Run, float]] = {}
    for run in _runs(page):
        subject = run[0].key.subject
        since_ms = 0.0 if run[0].key.seq == 1 else to_ms(page[-1].opened_at) + UNSETTLED_FRACTION_MS
        newest[subject] = (run, to_ms(run[0].opened_at) if subject in newest else since_ms)
    return iter(newest.values())


def _require_whole(is_whole: bool) -> None:
    if not is_whole:
        raise CacheUnavailable("The pull index was flushed, or had a gap or garbage, while it was rebuilt.")


def _next_key(run: Run) -> BurstKey:
    return BurstKey(run[0].key.subject, run[-1].key.seq + 1)
