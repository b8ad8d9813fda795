"""Stores the delivery ledger: plans, unfinished bursts, ledger rows and claims.

The progress of a burst is assembled from its plan, its ledger rows and its claims.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from cassandra.query import UNSET_VALUE

from notifier.adapters.cassandra.driver.session import PLAIN, SERIAL, Cluster
from notifier.adapters.cassandra.driver.statements import load_statement
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import ROW_LIFETIME, seconds_until
from notifier.adapters.cassandra.stores.unfinished_bursts import UnfinishedBursts
from notifier.codec import pack, unpack
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.delivery.ledger import BurstProgress, Claim, Fact, LedgerEntry, burst_progress
from notifier.domain.delivery.plan import Plan
from notifier.domain.delivery.slice_and_pool import Slice
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.ports.leases_queues_throttles_clock import Clock

# Ledger rows. Each later occurrence of a repeating fact replaces the fact's row. Other rows never change.

ROWS_PER_ROUND = 100
"""Maximum ledger rows of a burst per Paxos round: about 20 kB."""
LAST_OCCURRENCE = -1
"""Value of the column `number` in the row of a repeating fact. `last_number` has the number of the occurrence.

If each occurrence had a row, the progress of a slice that waited a thousand times would be read from a thousand rows.
"""
REPEATING_FACTS = (Fact.DISPATCHED, Fact.ATTEMPT, Fact.DEFERRED)
"""Repeating facts: only the last occurrence is kept. PARKED is not one of them: a slice has an entry per throttle."""

_INSERT_ROW, _UPDATE_ROW = load_statement("insert_ledger_row"), load_statement("update_ledger_row")
_SELECT_ROWS = (
    "SELECT slice, fact, number, last_number, at, people, rows, phones, note FROM slices WHERE subject = ? AND seq = ?"
)

BoundStatement = tuple[str, Sequence[object]]

parse_slice = lru_cache(maxsize=8_192)(Slice.parse)
"""Parses the text of a slice, with a cache: the progress of an active burst is read many times."""


class LedgerRows:
    """Ledger entries, as rows of the table `slices`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def record(self, entries: Sequence[LedgerEntry]) -> Sequence[bool]:
        # A lost response raises StoreUnavailable. An entry has no nonce, so a writer can't tell whether a stored row is
        # its own. To return False would be wrong if the write has succeeded.
        #
        # The error loses nothing. If a slice was recorded as queued but was not queued, it is queued again after its
        # timeout. If a slice was recorded as done, a worker that gets the slice again repeats idempotent work.
        first_index: dict[RowKey, int] = {}
        for index, entry in enumerate(entries):
            first_index.setdefault(_row_key(entry), index)
        recorded: set[int] = set()
        # If several entries have the same row, all but the first are written after the groups, one by one.
        remaining = [index for index, entry in enumerate(entries) if first_index[_row_key(entry)] != index]
        for group, was_written in self._record_groups(entries, list(first_index.values())):
            if was_written:
                recorded.update(group)
            else:
                # No row of the group was written, because the condition of one row was not met: write them one by one.
                remaining.extend(group)
        recorded.update(index for index in sorted(remaining) if self._record_one(entries[index]))
        return [index in recorded for index in range(len(entries))]

    def _record_one(self, entry: LedgerEntry) -> bool:
        return any(self._cluster.compare_and_set(*write) for write in _row_writes(entry))

    def _record_groups(
        self, entries: Sequence[LedgerEntry], indexes: Sequence[int]
    ) -> Sequence[tuple[Sequence[int], bool]]:
        """Write the entries with these indexes, in groups of one burst.

        A group is written as a whole or not at all. Return the indexes of each group, and whether it was written.
        """
        groups = list(_groups_by_burst(entries, indexes))
        applied = self._cluster.compare_and_set_groups(
            [[_row_writes(entries[index])[0] for index in group] for group in groups]
        )
        if None in applied:
            raise StoreUnavailable("Unknown whether some ledger entries were written.")
        return [(group, bool(was_written)) for group, was_written in zip(groups, applied, strict=True)]


def _groups_by_burst(entries: Sequence[LedgerEntry], indexes: Sequence[int]) -> Iterator[Sequence[int]]:
    by_burst: dict[BurstKey, list[int]] = defaultdict(list)
    for index in indexes:
        by_burst[entries[index].slice.burst].append(index)
    for group in by_burst.values():
        yield from (group[start : start + ROWS_PER_ROUND] for start in range(0, len(group), ROWS_PER_ROUND))


RowKey = tuple[Slice, Fact, int]
"""Slice, fact, and the value of the column `number`."""


def _row_key(entry: LedgerEntry) -> RowKey:
    return entry.slice, entry.fact, LAST_OCCURRENCE if entry.fact in REPEATING_FACTS else entry.number


def _row_writes(entry: LedgerEntry) -> Sequence[BoundStatement]:
    """Return the conditional writes to try in turn, until one is applied.

    The first occurrence of a repeating fact usually finds no row, and is inserted. Later ones usually update the row.
    """
    burst, (_, _, row_number) = entry.slice.burst, _row_key(entry)
    key = str(burst.subject), burst.seq, str(entry.slice), str(entry.fact), row_number
    # A null would be stored as a tombstone. UNSET_VALUE leaves the column as it is: empty, because only rows of
    # repeating facts are updated, and those never have an alert count.
    alert_count = UNSET_VALUE if entry.alert_count is None else entry.alert_count
    values = entry.number, to_ms(entry.at), entry.people, entry.row_count, alert_count, entry.note
    insert: BoundStatement = _INSERT_ROW, (*key, *values)
    update: BoundStatement = _UPDATE_ROW, (*values, *key, entry.number)
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
        row_count=row.rows,
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
        self._rows = LedgerRows(cluster)
        self.unfinished_burst_list = UnfinishedBursts(cluster, clock)

    def store_plans(self, plans: Sequence[Plan]) -> None:
        # List a burst as unfinished before its plan is stored. In the other order a crash could leave a plan that no
        # dispatcher finds. After a crash another process publishes the head, and calls this method again: a head is
        # marked as published only once its plans are stored.
        #
        # A burst with a plan was listed before, and must not be listed again, because it may be finished by now. If two
        # processes find no plan at the same time, both list the burst. At worst the second lists a finished burst,
        # which the dispatcher then removes from the list.
        now = self._clock.now()
        stored = self._read_plans([plan.burst for plan in plans])
        new_plans = [p for p in plans if p.burst not in stored and seconds_until(p.opened_at + ROW_LIFETIME, now) > 0]
        self.unfinished_burst_list.add(new_plans)
        rows = [(*_key(p.burst), pack(p), seconds_until(p.opened_at + ROW_LIFETIME, now)) for p in new_plans]
        if None in self._cluster.compare_and_set_each((_INSERT_PLAN, row) for row in rows):
            raise StoreUnavailable("Unknown whether a plan was written.")

    def unfinished_bursts(self, since: datetime | None = None) -> Sequence[BurstKey]:
        return self.unfinished_burst_list.all() if since is None else self.unfinished_burst_list.since(since)

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
        # Plain reads are enough. A plan never changes. A missing plan is read again at SERIAL, which completes an
        # interrupted write. A plain read may also miss a ledger row whose write was interrupted. The slice may then be
        # processed twice, which is harmless. The burst's next ledger write completes the interrupted one.
        plans = self._read_plans(bursts)
        if missing := [burst for burst in bursts if burst not in plans]:
            plans |= self._read_plans(missing, profile=SERIAL)
        keys = list(plans)
        ledger_rows = self._cluster.query_each(_SELECT_ROWS, map(_key, keys))
        claims = self._cluster.query_each(_SELECT_CLAIMS, map(_key, keys))
        return {
            key: burst_progress(plans[key], map(_entry, entry_rows), map(_claim, claim_rows))
            for key, entry_rows, claim_rows in zip(keys, ledger_rows, claims, strict=True)
        }

    def record(self, entries: Sequence[LedgerEntry]) -> Sequence[bool]:
        return self._rows.record(entries)

    def unlist(self, bursts: Collection[BurstKey]) -> None:
        plans = self._read_plans(bursts).values()
        self.unfinished_burst_list.drop([(to_ms(plan.opened_at), plan.burst) for plan in plans], self._clock.now())

    def _read_plans(self, bursts: Collection[BurstKey], *, profile: object = PLAIN) -> dict[BurstKey, Plan]:
        results = self._cluster.query_each(_SELECT_PLAN, map(_key, bursts), profile=profile)
        return {plan.burst: plan for plan in (unpack(Plan, blob) for rows in results for (blob,) in rows)}


def _key(burst: BurstKey) -> tuple[str, int]:
    return str(burst.subject), burst.seq


def _claim(row: tuple[str, int, str, int, int, int]) -> Claim:
    slice_text, attempt, owner, claimed_at, until, reached = row
    return Claim(
        slice=parse_slice(slice_text),
        number=attempt,
        owner=owner,
        claimed_at=from_ms(claimed_at),
        until=from_ms(until),
        checkpoint=reached,
    )


# Claims: one row per slice, changed by compare-and-set. Owner and attempt identify a worker's claim.

_INSERT_CLAIM = load_statement("insert_slice_claim")
_REPLACE_CLAIM = load_statement("replace_expired_slice_claim")
_EXTEND_CLAIM = load_statement("extend_slice_claim")
_SELECT_CLAIM = (
    "SELECT attempt, owner, claimed_at, until, reached FROM claims WHERE subject = ? AND seq = ? AND slice = ?"
)

ClaimRow = tuple[int, str, int, int, int]
"""Columns attempt, owner, claimed_at, until, and reached, which is the checkpoint."""


class CassandraClaims:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def claim(self, slice_: Slice, owner: str, now: datetime, until: datetime) -> Claim | None:
        claim = Claim(slice=slice_, number=1, owner=owner, claimed_at=now, until=until)
        # Insert without reading first: nearly every slice is claimed only once.
        if self._compare_and_set(_INSERT_CLAIM, claim, (*_claim_key(slice_), *_claim_values(claim))):
            return claim
        stored = self._read_claim(slice_)
        if stored is None:
            return None
        attempt, _, _, stored_until, reached = stored
        if stored_until > to_ms(now):
            return None
        claim = replace(claim, number=attempt + 1, checkpoint=reached)
        # Replace the row only if it is unchanged. After our read the last holder may have released the slice with a
        # later checkpoint.
        unchanged = attempt, stored_until, reached
        return (
            claim
            if self._compare_and_set(_REPLACE_CLAIM, claim, (*_claim_values(claim), *_claim_key(slice_), *unchanged))
            else None
        )

    def renew(self, claim: Claim, until: datetime) -> Claim | None:
        renewed = replace(claim, until=until)
        return renewed if self._extend(renewed) else None

    def release(self, claim: Claim, now: datetime) -> None:
        self._extend(replace(claim, until=now))

    def _extend(self, claim: Claim) -> bool:
        return self._compare_and_set(
            _EXTEND_CLAIM, claim, (*_claim_values(claim), *_claim_key(claim.slice), claim.owner, claim.number)
        )

    def _compare_and_set(self, statement: str, claim: Claim, values: tuple[object, ...]) -> bool:
        """Write the claim, and return whether it is stored.

        If the response is lost, read at SERIAL what is stored. Raises StoreUnavailable if the write may still take
        effect. A new claim that takes effect after this error is used by no worker, and expires.
        """
        [applied] = self._cluster.compare_and_set_each([(statement, values)])
        if applied is not None:
            return applied
        stored = self._read_claim(claim.slice)
        if stored == _claim_values(claim):
            return True
        if stored is None:
            raise StoreUnavailable(f"Unknown whether the claim on {claim.slice} was written.")
        attempt, owner, *_ = stored
        if attempt < claim.number or (attempt, owner) == (claim.number, claim.owner):
            raise StoreUnavailable(f"Unknown whether the claim on {claim.slice} was written.")
        return False

    def _read_claim(self, slice_: Slice) -> ClaimRow | None:
        rows = self._cluster.query(_SELECT_CLAIM, _claim_key(slice_), profile=SERIAL)
        return tuple(rows[0]) if rows else None


def _claim_key(slice_: Slice) -> tuple[str, int, str]:
    return str(slice_.burst.subject), slice_.burst.seq, str(slice_)


def _claim_values(claim: Claim) -> ClaimRow:
    return claim.number, claim.owner, to_ms(claim.claimed_at), to_ms(claim.until), claim.checkpoint
