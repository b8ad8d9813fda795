"""Stores the delivery ledger: plans, open bursts, ledger cells and claims.

The progress of a burst is assembled from three reads.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from notifier.adapters.cassandra.driver.session import PLAIN, SERIAL, Cluster
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.schema.partitioning import ROW_LIFETIME, seconds_until
from notifier.adapters.cassandra.stores.open_bursts import OpenBursts
from notifier.codec import pack, unpack
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.delivery.ledger import BurstProgress, Claim, Fact, LedgerEntry, burst_progress
from notifier.domain.delivery.plan import Plan
from notifier.domain.delivery.slice import Slice
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.ports.coordination import Clock

# Ledger cells. A fact that occurs once is written once. A repeating fact has one row, which later occurrences replace.

CELLS_PER_ROUND = 100
"""Maximum cells of a burst per Paxos round: about 20 kB."""
LAST_OCCURRENCE = -1
"""Value of `number` in the row of a repeating fact. The row has the last occurrence, with its number in `last_number`.

With a row for each occurrence, a slice that waited a thousand times would need a thousand rows per read.
"""
REPEATABLE_FACTS = (Fact.DISPATCHED, Fact.ATTEMPT, Fact.DEFERRED)
"""Repeating facts: only the last occurrence counts. Each throttle counts, so parking is not among them."""

_INSERT_CELL, _UPDATE_CELL = load_statement("record_cell"), load_statement("update_cell")
SELECT_CELLS = (
    "SELECT slice, fact, number, last_number, at, people, rows, phones, note FROM slices WHERE subject = ? AND seq = ?"
)

Query = tuple[str, Sequence[object]]

parse_slice = lru_cache(maxsize=8_192)(Slice.parse)
"""Cached, because the progress of an active burst is read many times."""


class LedgerCells:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def record(self, entries: Sequence[LedgerEntry]) -> Sequence[bool]:
        # A lost response raises. Without a nonce the writer can't tell whether a stored cell is its own, and must not
        # return False for a write that may have succeeded. Nothing is lost: a slice that was recorded as queued but
        # wasn't is queued again after its timeout. A finished slice is processed again, to the same rows, and then
        # finds that it is done.
        first_index: dict[tuple[Slice, Fact, int], int] = {}
        for index, entry in enumerate(entries):
            first_index.setdefault(_cell_key(entry), index)
        recorded: set[int] = set()
        # Further entries of one cell are written after the first, one by one.
        remaining = [index for index, entry in enumerate(entries) if first_index[_cell_key(entry)] != index]
        for group, was_written in self._record_groups(entries, list(first_index.values())):
            if was_written:
                recorded.update(group)
            else:
                # One of the cells existed already, so that none was written: try them one by one.
                remaining.extend(group)
        recorded.update(index for index in sorted(remaining) if self._record_one(entries[index]))
        return [index in recorded for index in range(len(entries))]

    def _record_one(self, entry: LedgerEntry) -> bool:
        return any(self._cluster.compare_and_set(*query) for query in _cell_writes(entry))

    def _record_groups(
        self, entries: Sequence[LedgerEntry], indexes: Sequence[int]
    ) -> Sequence[tuple[Sequence[int], bool]]:
        """Write entries grouped by burst. Return each group, and whether all of it was written."""
        groups = list(_groups(entries, indexes))
        applied = self._cluster.compare_and_set_groups(
            [[_cell_writes(entries[index])[0] for index in group] for group in groups]
        )
        if None in applied:
            raise StoreUnavailable("Unknown whether some ledger entries were written.")
        return [(group, bool(was_written)) for group, was_written in zip(groups, applied, strict=True)]


def entries(rows: Iterable[Any]) -> Iterator[LedgerEntry]:
    return map(_entry, rows)


def _groups(entries: Sequence[LedgerEntry], indexes: Sequence[int]) -> Iterator[Sequence[int]]:
    by_burst: dict[BurstKey, list[int]] = defaultdict(list)
    for index in indexes:
        by_burst[entries[index].slice.burst].append(index)
    for group in by_burst.values():
        yield from (group[start : start + CELLS_PER_ROUND] for start in range(0, len(group), CELLS_PER_ROUND))


def _cell_key(entry: LedgerEntry) -> tuple[Slice, Fact, int]:
    return entry.slice, entry.fact, LAST_OCCURRENCE if entry.fact in REPEATABLE_FACTS else entry.number


def _cell_writes(entry: LedgerEntry) -> Sequence[Query]:
    """Return the statements to try in turn.

    The first occurrence of a repeating fact usually finds no row to update, and further ones do.
    """
    burst, (_, _, row_number) = entry.slice.burst, _cell_key(entry)
    key = str(burst.subject), burst.seq, str(entry.slice), str(entry.fact), row_number
    values = entry.number, to_ms(entry.at), entry.people, entry.rows, entry.alert_count, entry.note
    insert: Query = _INSERT_CELL, (*key, *values)
    update: Query = _UPDATE_CELL, (*values, *key, entry.number)
    if row_number != LAST_OCCURRENCE:
        return [insert]
    return [insert, update] if entry.number <= 1 else [update, insert]


def _entry(row: Any) -> LedgerEntry:
    return LedgerEntry(
        slice=parse_slice(row.slice),
        fact=Fact(row.fact),
        number=row.last_number if row.number == LAST_OCCURRENCE else row.number,
        at=from_ms(row.at),
        people=row.people,
        rows=row.rows,
        alert_count=row.phones,
        note=row.note,
    )


_INSERT_PLAN = "INSERT INTO plans (subject, seq, blob) VALUES (?, ?, ?) IF NOT EXISTS USING TTL ?"
_SELECT_PLAN = "SELECT blob FROM plans WHERE subject = ? AND seq = ?"
_SELECT_CLAIMS = "SELECT slice, attempt, owner, claimed_at, until, reached FROM claims WHERE subject = ? AND seq = ?"


class CassandraLedger:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._cells = LedgerCells(cluster)
        self.open_burst_list = OpenBursts(cluster, clock)

    def store_plans(self, plans: Sequence[Plan]) -> None:
        # List a burst before its plan is stored, so that a crash never leaves a plan that no dispatcher finds. After a
        # crash in between, the process that finishes the head calls this again: the head is marked as published only
        # after its plans.
        #
        # A burst with a plan was listed, and must not be listed again: it may have been closed since. Two processes may
        # find no plan at the same time, and both list the burst. At worst the burst was closed in between; the
        # dispatcher then closes it again.
        now = self._clock.now()
        planned = self._read_plans([plan.burst for plan in plans])
        new = [p for p in plans if p.burst not in planned and seconds_until(p.opened_at + ROW_LIFETIME, now) > 0]
        self.open_burst_list.add(new)
        rows = [(*_key(p.burst), pack(p), seconds_until(p.opened_at + ROW_LIFETIME, now)) for p in new]
        if None in self._cluster.compare_and_set_each((_INSERT_PLAN, row) for row in rows):
            raise StoreUnavailable("Unknown whether a plan was written.")

    def open_bursts(self, since: datetime | None = None) -> Sequence[BurstKey]:
        return self.open_burst_list.all() if since is None else self.open_burst_list.since(since)

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
        # Plain reads are enough. A plan never changes, so that a stored plan is valid. A missing plan is read at
        # SERIAL, which completes an interrupted write. A plain read may miss a cell whose write was interrupted. A
        # slice may then be processed twice, which is harmless, and the next write to the burst's cells completes the
        # interrupted one.
        plans = self._read_plans(bursts)
        if missing := [burst for burst in bursts if burst not in plans]:
            plans |= self._read_plans(missing, profile=SERIAL)
        keys = list(plans)
        cells = self._cluster.query_each(SELECT_CELLS, map(_key, keys))
        claims = self._cluster.query_each(_SELECT_CLAIMS, map(_key, keys))
        return {
            key: burst_progress(plans[key], entries(cell_rows), _claims(claim_rows))
            for key, cell_rows, claim_rows in zip(keys, cells, claims, strict=True)
        }

    def record(self, entries: Sequence[LedgerEntry]) -> Sequence[bool]:
        return self._cells.record(entries)

    def close(self, bursts: Collection[BurstKey]) -> None:
        plans = self._read_plans(bursts).values()
        self.open_burst_list.drop([(to_ms(plan.opened_at), plan.burst) for plan in plans], self._clock.now())

    def _read_plans(self, bursts: Collection[BurstKey], *, profile: object = PLAIN) -> dict[BurstKey, Plan]:
        results = self._cluster.query_each(_SELECT_PLAN, map(_key, bursts), profile=profile)
        return {plan.burst: plan for plan in (unpack(Plan, blob) for rows in results for (blob,) in rows)}


def _key(burst: BurstKey) -> tuple[str, int]:
    return str(burst.subject), burst.seq


def _claims(rows: Iterable[Any]) -> Iterator[Claim]:
    return map(_claim, rows)


def _claim(row: tuple[str, int, str, int, int, int]) -> Claim:
    slice_text, attempt, owner, claimed_at, until, reached = row
    return Claim(
        slice=parse_slice(slice_text),
        attempt=attempt,
        owner=owner,
        claimed_at=from_ms(claimed_at),
        until=from_ms(until),
        checkpoint=reached,
    )


# Claims: one row per slice, changed by compare-and-set. Owner and attempt identify the holder.

_INSERT_CLAIM = load_statement("insert_claim")
_REPLACE_CLAIM = load_statement("replace_claim")
_EXTEND_CLAIM = load_statement("extend_claim")
_SELECT_CLAIM = (
    "SELECT attempt, owner, claimed_at, until, reached FROM claims WHERE subject = ? AND seq = ? AND slice = ?"
)

ClaimRow = tuple[int, str, int, int, int]
"""Attempt, owner, claimed at, until and reached."""


class CassandraClaims:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def claim(self, slice_: Slice, owner: str, now: datetime, until: datetime) -> Claim | None:
        claim = Claim(slice=slice_, attempt=1, owner=owner, claimed_at=now, until=until)
        # Insert without reading first: nearly every slice is claimed only once.
        if self._compare_and_set(_INSERT_CLAIM, claim, (*_claim_key(slice_), *_row(claim))):
            return claim
        stored = self._read_claim(slice_)
        if stored is None:
            return None
        attempt, _, _, stored_until, reached = stored
        if stored_until > to_ms(now):
            return None
        claim = replace(claim, attempt=attempt + 1, checkpoint=reached)
        # Only if the row is unchanged: a release in between may have stored a later checkpoint.
        expected = attempt, stored_until, reached
        return (
            claim
            if self._compare_and_set(_REPLACE_CLAIM, claim, (*_row(claim), *_claim_key(slice_), *expected))
            else None
        )

    def renew(self, claim: Claim, until: datetime) -> Claim | None:
        renewed = replace(claim, until=until)
        return renewed if self._extend(renewed) else None

    def release(self, claim: Claim, now: datetime) -> None:
        self._extend(replace(claim, until=now))

    def _extend(self, claim: Claim) -> bool:
        return self._compare_and_set(
            _EXTEND_CLAIM, claim, (*_row(claim), *_claim_key(claim.slice), claim.owner, claim.attempt)
        )

    def _compare_and_set(self, statement: str, claim: Claim, values: tuple[object, ...]) -> bool:
        """Return whether the caller holds the claim.

        After a lost response a read at SERIAL tells. Raises StoreUnavailable if the write may still take effect. If a
        new claim does, no worker knows of it, and it expires.
        """
        [applied] = self._cluster.compare_and_set_each([(statement, values)])
        if applied is not None:
            return applied
        stored = self._read_claim(claim.slice)
        if stored == _row(claim):
            return True
        if stored is None:
            raise StoreUnavailable(f"Unknown whether {claim.slice} was claimed.")
        attempt, owner, *_ = stored
        if attempt < claim.attempt or (attempt, owner) == (claim.attempt, claim.owner):
            raise StoreUnavailable(f"Unknown whether {claim.slice} was claimed.")
        return False

    def _read_claim(self, slice_: Slice) -> ClaimRow | None:
        rows = self._cluster.query(_SELECT_CLAIM, _claim_key(slice_), profile=SERIAL)
        return tuple(rows[0]) if rows else None


def _claim_key(slice_: Slice) -> tuple[str, int, str]:
    return str(slice_.burst.subject), slice_.burst.seq, str(slice_)


def _row(claim: Claim) -> ClaimRow:
    return claim.attempt, claim.owner, to_ms(claim.claimed_at), to_ms(claim.until), claim.checkpoint
