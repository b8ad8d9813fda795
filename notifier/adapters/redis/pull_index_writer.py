"""Write side of the pull index in Redis: announcements, comparisons, rebuilds."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Lock

from notifier.adapters.redis.connect import RedisClient
from notifier.adapters.redis.keys_checksums_lua_scripts import CHECKSUM_FILE, LuaScript, unwrap_fields, wrap
from notifier.adapters.redis.pipelined_calls import Argument, Command, ScriptCall, discard_call, run_calls
from notifier.adapters.redis.pull_index_reader import (
    AS_OF,
    MAX_LIST_LENGTH,
    NONCE,
    PART_COUNT,
    SINCE,
    part_key,
    part_of,
    to_ms,
)
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.leases_queues_throttles_clock import Nonces

MAX_UNSENT_BURSTS = 10_000
"""Maximum number of bursts buffered while Redis is unavailable. With more, all are dropped and the index is deleted."""

LISTS_PER_ROUND_TRIP = 500
"""Number of lists in one round trip. A running script blocks all other clients of the server."""

MAX_LISTS_PER_PART = 20_000
"""Number of lists in a part above which a sweep shortens the time that the part covers.

With the usual few bursts per list, all parts together stay under 100 MB of a server's 256 MB.
"""

COMPARISONS_PER_SWEEP = 60
"""Comparisons per sweep of one part. With one comparison a second, all parts are swept within about half an hour."""

MIN_SPAN = timedelta(minutes=1)
"""Once a part covers at most this time, a sweep does not shorten it further, even if the part has too many lists."""

PROVISIONAL_FRACTION_MS = 0.5
"""Marks the `since` of a list (the time since when it is complete) as provisional: an older page may move it back.

A rebuild adds this fraction. All other times are whole milliseconds. So at the end of the rebuild
`finalize_pull_index_lists.lua` recognizes these lists, and sets their final `since`.
"""

Run = list[Burst]
"""Bursts of one subject with successive numbers, in ascending order."""

_FIELDS_WITHOUT_LIST = (NONCE.encode(), SINCE.encode(), AS_OF.encode())


class RedisPullIndex:
    """Thread-safe writer of the pull index, whose subjects are spread over parts. Each part is one hash in Redis.

    After a failed announcement the writer deletes `as_of`, which invalidates the index until the next comparison. If
    that fails, too, `as_of` is soon too old.

    The bursts of a failed announcement are buffered, and sent with the next call. Without the buffer the lists would
    have gaps. A gap invalidates its part until the next rebuild.
    """

    def __init__(self, client: RedisClient, nonces: Nonces) -> None:
        self._client = client
        self._nonces = nonces
        self._merge_script = LuaScript.load(CHECKSUM_FILE, "pull_index_fields", "merge_pull_index_lists")
        self._comparison_script = LuaScript.load(CHECKSUM_FILE, "pull_index_fields", "record_pull_index_comparison")
        self._finalize_script = LuaScript.load(CHECKSUM_FILE, "pull_index_fields", "finalize_pull_index_lists")
        self._stored_nonces: dict[int, bytes] = {}
        """Stored nonce of each part, as the last call of `generation` read it."""
        self._unsent: dict[BurstKey, Burst] = {}
        """Bursts that are not announced yet, or whose announcement failed."""
        self._has_lost_bursts = False
        """Whether too many bursts were unsent, and Redis still has the index that lacks them."""
        self._comparison_count = 0
        self._lock = Lock()

    def announce(self, bursts: Sequence[Burst]) -> None:
        with self._lock:
            self._announce_unsent(bursts)

    def generation(self) -> str | None:
        with self._lock:
            self._announce_unsent()
            parts, had_garbage = self._plant_and_read_nonces()
            if had_garbage:
                # Parts with garbage are deleted now. Plant new nonces, so that a rebuild can begin without
                # another call.
                parts, _ = self._plant_and_read_nonces()
            nonces = [fields[NONCE] for fields in parts]
            # Keep each nonce as its part stores it, with the checksum: scripts compare the stored bytes.
            # b"" stands for a missing nonce; no part stores it.
            self._stored_nonces = {
                part: wrap(part_key(part), nonce, NONCE) if nonce else b"" for part, nonce in enumerate(nonces)
            }
        if not all(fields[NONCE] and fields[SINCE] for fields in parts):
            return None
        return "+".join(sorted({nonce.decode() for nonce in nonces if nonce}))

    def rebuild(self, pages: Iterable[Sequence[Burst]], since: datetime, as_of: datetime) -> None:
        nonces, is_complete = self._planted_nonces(), True
        # Readers may use a list as soon as it is written. So each script call compares the nonce of its part: once the
        # part has lost data, a list of older bursts must not claim to be complete.
        for page in pages:
            with self._lock:
                merged = self._merge_runs(_newest_runs(page), nonces)
            # Stop only if all parts of the page failed. Otherwise go on, so that one rebuild finds the garbage of all
            # parts, and fail at the end.
            is_complete &= all(merged)
            _require_complete(any(merged) or not merged)
        _require_complete(is_complete)
        self._write_comparison(nonces, to_ms(since), as_of)
        finalized = [self._finalize_part(part) for part in range(PART_COUNT)]
        _require_complete(all(finalized))

    def record_comparison(self, since: datetime, as_of: datetime) -> None:
        self._write_comparison(self._planted_nonces(), "", as_of)
        self._comparison_count += 1
        sweeps, remainder = divmod(self._comparison_count, COMPARISONS_PER_SWEEP)
        if remainder == 0:
            self._sweep(sweeps % PART_COUNT, since, as_of)

    def _planted_nonces(self) -> Mapping[int, bytes]:
        """Return the nonce of each part as `generation` last read it, after a first call of `generation` if needed."""
        if not self._stored_nonces:
            self.generation()
        return self._stored_nonces

    def _announce_unsent(self, bursts: Sequence[Burst] = ()) -> None:
        # Buffer the bursts before anything is sent, so that no error can lose them.
        self._unsent.update((burst.key, burst) for burst in bursts)
        self._has_lost_bursts |= len(self._unsent) > MAX_UNSENT_BURSTS
        if self._has_lost_bursts:
            self._unsent.clear()
        try:
            if self._has_lost_bursts:
                run_calls(self._client, [Command("delete", part_key(part)) for part in range(PART_COUNT)])
                self._has_lost_bursts = False
            self._merge_runs((run, "") for run in _runs(self._unsent.values()))
        except CacheUnavailable:
            self._invalidate()
            raise
        self._unsent.clear()

    def _invalidate(self) -> None:
        """Delete `as_of` of all parts, after a failed announcement. A full server still accepts deletes."""
        with suppress(CacheUnavailable):
            run_calls(self._client, [Command("hdel", part_key(part), (AS_OF,)) for part in range(PART_COUNT)])

    def _write_comparison(self, nonces: Mapping[int, bytes], since: int | str, as_of: datetime) -> None:
        as_of_ms = to_ms(as_of)
        calls = [
            ScriptCall(self._comparison_script, part_key(part), (nonces[part], since, as_of_ms))
            for part in range(PART_COUNT)
        ]
        with self._lock:
            # Send the buffered bursts first, because `as_of` claims that every burst of the store was announced.
            self._announce_unsent()
            _require_complete(all(run_calls(self._client, calls)))

    def _plant_and_read_nonces(self) -> tuple[Sequence[Mapping[str, bytes | None]], bool]:
        """Plant missing nonces, and read the nonce and the `since` of each part.

        The second result tells whether any part was deleted because of garbage.
        """
        nonce, keys = self._nonces.new().encode(), [part_key(part) for part in range(PART_COUNT)]
        plant_commands = [Command("hsetnx", key, (NONCE, wrap(key, nonce, NONCE))) for key in keys]
        read_commands = [Command("hmget", key, ([NONCE, SINCE],)) for key in keys]
        answers = zip(keys, run_calls(self._client, [*plant_commands, *read_commands])[PART_COUNT:], strict=True)
        parts = [(key, *unwrap_fields(key, {NONCE: nonce, SINCE: since})) for key, (nonce, since) in answers]
        discards = [discard_call(key, garbage) for key, _, garbage in parts if garbage]
        run_calls(self._client, discards)
        return [fields for _, fields, _ in parts], bool(discards)

    def _merge_runs(
        self, runs: Iterable[tuple[Run, float | str]], nonces: Mapping[int, bytes] | None = None
    ) -> list[int]:
        """Merge each run into its subject's list, and return the answers of all script calls.

        A rebuild passes the time since when each run is complete, and the nonces.
        An announcement passes '' as the time, and no nonces.
        The answer 0 means that the part lost data, or had a gap, after its nonce was planted.
        """
        arguments_by_part: dict[int, list[Argument]] = defaultdict(list)
        answers: list[int] = []
        for run_count, (run, since) in enumerate(runs, start=1):
            arguments = arguments_by_part[part_of(run[0].key.subject)]
            arguments += [str(run[0].key.subject), since, len(run)]
            for burst in run:
                arguments += [burst.key.seq, to_ms(burst.opened_at)]
            if run_count % LISTS_PER_ROUND_TRIP == 0:
                answers += self._run_merge_script(arguments_by_part, nonces or {})
                arguments_by_part.clear()
        return answers + self._run_merge_script(arguments_by_part, nonces or {})

    def _run_merge_script(
        self, arguments_by_part: Mapping[int, Sequence[Argument]], nonces: Mapping[int, bytes]
    ) -> list[int]:
        merge_calls = [
            ScriptCall(self._merge_script, part_key(part), (MAX_LIST_LENGTH, nonces.get(part, b""), *arguments))
            for part, arguments in arguments_by_part.items()
        ]
        return run_calls(self._client, merge_calls) if merge_calls else []

    def _sweep(self, part: int, since: datetime, as_of: datetime) -> None:
        """Drop lists whose bursts are all older than `since`. While too many lists are left, halve the covered time."""
        span, as_of_ms = as_of - since, to_ms(as_of)
        while True:
            comparison = ScriptCall(
                self._comparison_script, part_key(part), (self._stored_nonces[part], to_ms(as_of - span), as_of_ms)
            )
            with self._lock:
                run_calls(self._client, [comparison])
            _require_complete(self._finalize_part(part))
            with self._lock:
                [list_count] = run_calls(self._client, [Command("hlen", part_key(part))])
            if list_count <= MAX_LISTS_PER_PART or span <= MIN_SPAN:
                return
            span /= 2

    def _finalize_part(self, part: int) -> bool:
        """Run `finalize_pull_index_lists.lua` on all lists of the part. Return False if the part is incomplete."""
        cursor = -1
        while cursor != 0:
            with self._lock:
                scan = Command("hscan", part_key(part), (max(cursor, 0),), {"count": LISTS_PER_ROUND_TRIP})
                [(cursor, page)] = run_calls(self._client, [scan])
                subjects = tuple(field for field in page if field not in _FIELDS_WITHOUT_LIST)
                [is_final] = run_calls(self._client, [ScriptCall(self._finalize_script, part_key(part), subjects)])
            if not is_final:
                return False
        return True


def _runs(bursts: Iterable[Burst]) -> Iterator[Run]:
    """Sort the bursts by subject and number, and yield their runs. Each missing number ends a run."""
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

    Pages come newest first. A page holds all readable bursts of its time span, except that bursts of its oldest
    millisecond may also be on the next page. A missing number is a burst that is not readable yet: the run after that
    gap is complete only since its own first burst.
    """
    newest: dict[Subject, tuple[Run, float]] = {}
    for run in _runs(page):
        subject = run[0].key.subject
        since_ms = 0.0 if run[0].key.seq == 1 else to_ms(page[-1].opened_at) + PROVISIONAL_FRACTION_MS
        newest[subject] = (run, to_ms(run[0].opened_at) if subject in newest else since_ms)
    return iter(newest.values())


def _require_complete(is_complete: bool) -> None:
    if not is_complete:
        raise CacheUnavailable("The pull index was flushed, or had a gap or garbage.")


def _next_key(run: Run) -> BurstKey:
    return BurstKey(run[0].key.subject, run[-1].key.seq + 1)
