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
from notifier.adapters.cassandra.driver.statements import statement
from notifier.adapters.cassandra.schema.partitioning import KEPT, seconds_until
from notifier.adapters.cassandra.stores.open_bursts import OpenBursts
from notifier.codec import pack, unpack
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.delivery.ledger import BurstProgress, Claim, Fact, LedgerEntry, burst_progress
from notifier.domain.delivery.plan import Plan
from notifier.domain.delivery.slice import Slice
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.ports.coordination import Clock

# Ledger cells: each is written once. A fact that repeats has one row with its latest occurrence.

TOGETHER = 100
"""Cells of a burst per Paxos round: about 20 kB."""
LAST = -1
"""The `number` of rows for repeated facts. Their real number is in `last_number`, and the higher one wins.

With a row for each occurrence, a slice that waited a thousand times would need a thousand rows per read.
"""
REPEATABLE_FACTS = (Fact.DISPATCHED, Fact.ATTEMPT, Fact.DEFERRED)
"""Repeating facts, whose latest occurrence counts. Each throttle counts, and slices end only once."""

_RECORD, _NEXT = statement("record_cell"), statement("update_cell")
CELLS = (
    "SELECT slice, fact, number, last_number, at, people, rows, phones, note FROM slices WHERE subject = ? AND seq = ?"
)

Query = tuple[str, Sequence[object]]

parsed = lru_cache(maxsize=8_192)(Slice.parse)
"""Cached, because the progress of an active burst is read many times."""


class LedgerCells:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def record(self, entries: Sequence[LedgerEntry]) -> Sequence[bool]:
        # A lost answer raises. An entry has no nonce, so its writer can't recognize its own cell, and False would deny
        # the write. Nothing is lost: a slice that was recorded as queued but wasn't is queued again after its timeout.
        # A finished slice is processed again, to the same rows, and then finds its end.
        first = {_row_of(entry): n for n, entry in reversed(list(enumerate(entries)))}
        won: set[int] = set()
        single = sorted(set(range(len(entries))) - set(first.values()))
        for group, together in self._record_groups(entries, sorted(first.values())):
            # One of the cells existed already, so none was written: try them one by one.
            (won.update if together else single.extend)(group)
        won.update(n for n in sorted(single) if self._record_one(entries[n]))
        return [n in won for n in range(len(entries))]

    def _record_one(self, entry: LedgerEntry) -> bool:
        return any(self._cluster.compare_and_set(*query) for query in _queries(entry))

    def _record_groups(
        self, entries: Sequence[LedgerEntry], indexes: Sequence[int]
    ) -> Sequence[tuple[Sequence[int], bool]]:
        """Write entries grouped by burst. Return each group, and whether all of it was written."""
        groups = list(_groups(entries, indexes))
        decided = self._cluster.compare_and_set_groups([[_queries(entries[n])[0] for n in group] for group in groups])
        if None in decided:
            raise StoreUnavailable("Unknown whether some ledger entries were written.")
        return [(group, bool(rows)) for group, rows in zip(groups, decided, strict=True)]


def entries(rows: Iterable[Any]) -> Iterator[LedgerEntry]:
    return map(_entry, rows)


def _groups(entries: Sequence[LedgerEntry], indexes: Sequence[int]) -> Iterator[Sequence[int]]:
    accounts: dict[BurstKey, list[int]] = defaultdict(list)
    for n in indexes:
        accounts[entries[n].slice.burst].append(n)
    for group in accounts.values():
        yield from (group[start : start + TOGETHER] for start in range(0, len(group), TOGETHER))


def _row_of(entry: LedgerEntry) -> tuple[Slice, Fact, int]:
    return entry.slice, entry.fact, LAST if entry.fact in REPEATABLE_FACTS else entry.number


def _queries(entry: LedgerEntry) -> Sequence[Query]:
    """Return the statements to try in turn. The first number usually finds no row, and each other one does."""
    burst, (_, _, n) = entry.slice.burst, _row_of(entry)
    key = str(burst.subject), burst.seq, str(entry.slice), str(entry.fact), n
    values = entry.number, to_ms(entry.at), entry.people, entry.rows, entry.alert_count, entry.note
    made: Query = _RECORD, (*key, *values)
    raised: Query = _NEXT, (*values, *key, entry.number)
    if n != LAST:
        return [made]
    return [made, raised] if entry.number <= 1 else [raised, made]


def _entry(row: Any) -> LedgerEntry:
    return LedgerEntry(
        slice=parsed(row.slice),
        fact=Fact(row.fact),
        number=row.last_number if row.number == LAST else row.number,
        at=from_ms(row.at),
        people=row.people,
        rows=row.rows,
        alert_count=row.phones,
        note=row.note,
    )


_PLAN = "INSERT INTO plans (subject, seq, blob) VALUES (?, ?, ?) IF NOT EXISTS USING TTL ?"
_PLANNED = "SELECT blob FROM plans WHERE subject = ? AND seq = ?"
_CLAIMS = "SELECT slice, attempt, owner, claimed_at, until, reached FROM claims WHERE subject = ? AND seq = ?"


class CassandraLedger:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._cells = LedgerCells(cluster)
        self.openings = OpenBursts(cluster, clock)

    def store_plans(self, plans: Sequence[Plan]) -> None:
        # List a burst before it is planned, so that a crash never leaves a plan that no dispatcher finds. A listed
        # burst without a plan has no progress yet. The next finisher of the head calls this again, because the head is
        # marked as done only after its plans. A planned burst was listed, and must not be listed again: it may have
        # been closed since. If two processes find no plan at the same time, one lists in vain. At worst the burst was
        # closed meanwhile; then it is found settled and closed again.
        now = self._clock.now()
        planned = self._plans([plan.burst for plan in plans])
        new = [p for p in plans if p.burst not in planned and seconds_until(p.opened_at + KEPT, now) > 0]
        self.openings.add(new)
        rows = [(*_key(p.burst), pack(p), seconds_until(p.opened_at + KEPT, now)) for p in new]
        if None in self._cluster.compare_and_set_each((_PLAN, row) for row in rows):
            raise StoreUnavailable("Unknown whether a plan was written.")

    def open_bursts(self, since: datetime | None = None) -> Sequence[BurstKey]:
        return self.openings.all() if since is None else self.openings.since(since)

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
        # Plain reads are enough. A plan never changes, so a plan that is found is valid. A missing plan is read at
        # SERIAL, because its write may have been interrupted. An interrupted cell becomes visible with the next write
        # to its burst, which the process that misses it makes. Until then a slice may be processed twice, which is
        # harmless.
        plans = self._plans(bursts)
        if missing := [burst for burst in bursts if burst not in plans]:
            plans |= self._plans(missing, profile=SERIAL)
        keys = list(plans)
        cells = self._cluster.query_each(CELLS, map(_key, keys))
        claims = self._cluster.query_each(_CLAIMS, map(_key, keys))
        return {
            key: burst_progress(plans[key], entries(facts), _claims(held))
            for key, facts, held in zip(keys, cells, claims, strict=True)
        }

    def record(self, entries: Sequence[LedgerEntry]) -> Sequence[bool]:
        return self._cells.record(entries)

    def close(self, bursts: Collection[BurstKey]) -> None:
        plans = self._plans(bursts).values()
        self.openings.drop([(to_ms(plan.opened_at), plan.burst) for plan in plans], self._clock.now())

    def _plans(self, bursts: Collection[BurstKey], *, profile: object = PLAIN) -> dict[BurstKey, Plan]:
        answers = self._cluster.query_each(_PLANNED, map(_key, bursts), profile=profile)
        return {plan.burst: plan for plan in (unpack(Plan, blob) for rows in answers for (blob,) in rows)}


def _key(burst: BurstKey) -> tuple[str, int]:
    return str(burst.subject), burst.seq


def _claims(rows: Iterable[Any]) -> Iterator[Claim]:
    return map(_claim, rows)


def _claim(row: tuple[str, int, str, int, int, int]) -> Claim:
    text, attempt, owner, at, until, reached = row
    slice_, since, end = parsed(text), from_ms(at), from_ms(until)
    return Claim(slice=slice_, attempt=attempt, owner=owner, claimed_at=since, until=end, checkpoint=reached)


# Claims: one row per slice, changed by compare-and-set. Owner and attempt identify the holder.

_FIRST = statement("insert_claim")
_NEXT_CLAIM = statement("replace_claim")
_EXTEND = statement("extend_claim")
_STORED = "SELECT attempt, owner, claimed_at, until, reached FROM claims WHERE subject = ? AND seq = ? AND slice = ?"

Row = tuple[int, str, int, int, int]
"""Attempt, owner, claimed at, until and reached."""


class CassandraClaims:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def claim(self, slice_: Slice, owner: str, now: datetime, until: datetime) -> Claim | None:
        claim = Claim(slice=slice_, attempt=1, owner=owner, claimed_at=now, until=until)
        # Nearly every slice is claimed once, which needs no read.
        if self._decide(_FIRST, claim, (*_claim_key(slice_), *_row(claim))):
            return claim
        stored = self._stored(slice_)
        if stored is None or stored[3] > to_ms(now):
            return None
        attempt, _, _, ends, reached = stored
        claim = replace(claim, attempt=attempt + 1, checkpoint=reached)
        # Only if the row is unchanged: a release in between knows better how far the work is.
        unchanged = attempt, ends, reached
        return claim if self._decide(_NEXT_CLAIM, claim, (*_row(claim), *_claim_key(slice_), *unchanged)) else None

    def renew(self, claim: Claim, until: datetime) -> Claim | None:
        longer = replace(claim, until=until)
        return longer if self._extend(longer) else None

    def release(self, claim: Claim, now: datetime) -> None:
        self._extend(replace(claim, until=now))

    def _extend(self, claim: Claim) -> bool:
        return self._decide(_EXTEND, claim, (*_row(claim), *_claim_key(claim.slice), claim.owner, claim.attempt))

    def _decide(self, statement: str, claim: Claim, values: tuple[object, ...]) -> bool:
        """Return whether the caller holds the claim.

        After a lost answer a read at SERIAL decides. Raises StoreUnavailable if the write may still take effect; a
        claim that no worker knows of expires.
        """
        [applied] = self._cluster.compare_and_set_each([(statement, values)])
        if applied is not None:
            return applied
        stored = self._stored(claim.slice)
        if stored == _row(claim):
            return True
        if stored is None or stored[0] < claim.attempt or stored[:2] == _row(claim)[:2]:
            raise StoreUnavailable(f"Unknown whether {claim.slice} was claimed.")
        return False

    def _stored(self, slice_: Slice) -> Row | None:
        rows = self._cluster.query(_STORED, _claim_key(slice_), profile=SERIAL)
        return tuple(rows[0]) if rows else None


def _claim_key(slice_: Slice) -> tuple[str, int, str]:
    return str(slice_.burst.subject), slice_.burst.seq, str(slice_)


def _row(claim: Claim) -> Row:
    return claim.attempt, claim.owner, to_ms(claim.claimed_at), to_ms(claim.until), claim.checkpoint
