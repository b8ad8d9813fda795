"""Stores plans, unfinished bursts, ledger entries, claims and deferred bursts in core.db."""

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import keys_as_json, load_statement
from notifier.codec import pack, unpack
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.dispatch_backlog import DeferredBurst
from notifier.domain.delivery.ledger import BurstProgress, Claim, Fact, LedgerEntry, burst_progress
from notifier.domain.delivery.plan import Plan
from notifier.domain.delivery.slice_and_pool import Slice, Step
from notifier.domain.ids import BurstKey, Subject

BURSTS_PER_READ = 256
"""At about ten milliseconds, a read is too short to delay a checkpoint of the write-ahead log."""

_SELECT_PLANS = load_statement("read_plans")
_SELECT_ENTRIES = load_statement("read_ledger_entries")
_SELECT_CLAIMS = load_statement("read_slice_claims")
_INSERT_ENTRY = load_statement("record_ledger_entry")
_INSERT_PLAN = "INSERT OR IGNORE INTO plans (subject, seq, blob) VALUES (?, ?, ?)"
_INSERT_UNFINISHED = "INSERT INTO open_bursts (subject, seq, opened_at) VALUES (?, ?, ?)"
_SELECT_UNFINISHED = "SELECT subject, seq FROM open_bursts WHERE opened_at >= ? ORDER BY opened_at, subject, seq"
_DELETE_UNFINISHED = "DELETE FROM open_bursts WHERE subject = ? AND seq = ?"


class SqliteLedger:
    def __init__(self, db: Database) -> None:
        self._db = db

    def store_plans(self, plans: Sequence[Plan]) -> None:
        with self._db.write() as c:
            for plan in plans:
                subject, seq = str(plan.burst.subject), plan.burst.seq
                # List the burst only with the first write of its plan: a repeat must not relist a finished burst.
                if c.execute(_INSERT_PLAN, (subject, seq, pack(plan))).rowcount == 1:
                    c.execute(_INSERT_UNFINISHED, (subject, seq, to_ms(plan.opened_at)))

    def unfinished_bursts(self, since: datetime | None = None) -> Sequence[BurstKey]:
        since_ms = to_ms(since) if since else 0
        with self._db.read() as c:
            return [
                BurstKey(Subject.parse(subject), seq) for subject, seq in c.execute(_SELECT_UNFINISHED, (since_ms,))
            ]

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, BurstProgress]:
        keys = list(bursts)
        progress: dict[BurstKey, BurstProgress] = {}
        for start in range(0, len(keys), BURSTS_PER_READ):
            with self._db.read() as c:
                progress |= _progress_of(c, keys[start : start + BURSTS_PER_READ])
        return progress

    def record(self, entries: Sequence[LedgerEntry]) -> Sequence[bool]:
        with self._db.write() as c:
            return [c.execute(_INSERT_ENTRY, _entry_row(entry)).rowcount == 1 for entry in entries]

    def unlist(self, bursts: Collection[BurstKey]) -> None:
        with self._db.write() as c:
            c.executemany(_DELETE_UNFINISHED, [(str(burst.subject), burst.seq) for burst in bursts])


def _progress_of(c: sqlite3.Connection, keys: Sequence[BurstKey]) -> dict[BurstKey, BurstProgress]:
    keys_json = keys_as_json(keys)
    entries: dict[BurstKey, list[LedgerEntry]] = defaultdict(list)
    claims: dict[BurstKey, list[Claim]] = defaultdict(list)
    for entry in _entries(c, keys, keys_json):
        entries[entry.slice.burst].append(entry)
    for claim in _claims(c, keys, keys_json):
        claims[claim.slice.burst].append(claim)
    plans = [unpack(Plan, blob) for (blob,) in c.execute(_SELECT_PLANS, (keys_json,))]
    return {plan.burst: burst_progress(plan, entries[plan.burst], claims[plan.burst]) for plan in plans}


def _entries(c: sqlite3.Connection, keys: Sequence[BurstKey], keys_json: str) -> Iterator[LedgerEntry]:
    bursts = {(str(key.subject), key.seq): key for key in keys}
    for subject, seq, slice_name, fact, number, at, people, rows, alert_count, note in c.execute(
        _SELECT_ENTRIES, (keys_json,)
    ):
        yield LedgerEntry(
            slice=_parse_slice(bursts[subject, seq], slice_name),
            fact=Fact(fact),
            number=number,
            at=from_ms(at),
            people=people,
            row_count=rows,
            alert_count=alert_count,
            note=note,
        )


def _claims(c: sqlite3.Connection, keys: Sequence[BurstKey], keys_json: str) -> Iterator[Claim]:
    bursts = {(str(key.subject), key.seq): key for key in keys}
    for subject, seq, slice_name, attempt, owner, at, until, checkpoint in c.execute(_SELECT_CLAIMS, (keys_json,)):
        yield Claim(
            slice=_parse_slice(bursts[subject, seq], slice_name),
            number=attempt,
            owner=owner,
            claimed_at=from_ms(at),
            until=from_ms(until),
            checkpoint=checkpoint,
        )


def _parse_slice(burst: BurstKey, slice_name: str) -> Slice:
    return Slice(burst, *_parse_slice_shape(slice_name[slice_name.rindex("#") :].partition("/")[2]))


@lru_cache(maxsize=4096)  # all bursts of a celebrity are sliced in the same few ways
def _parse_slice_shape(shape: str) -> tuple[Step, Tier, int, int]:
    """Parse the step, tier and shards of a slice, such as `rows/p1/0-63`."""
    step, tier, shards = shape.split("/")
    first, last = shards.split("-")
    return Step(step), Tier(tier), int(first), int(last)


def _entry_row(entry: LedgerEntry) -> tuple[object, ...]:
    burst = entry.slice.burst
    key = str(burst.subject), burst.seq, str(entry.slice), str(entry.fact), entry.number
    return *key, to_ms(entry.at), entry.people, entry.row_count, entry.alert_count, entry.note


# Claims in core.db: each change is one conditional statement, so that only one of two workers gets the slice.

_CLAIM_SLICE = load_statement("claim_slice")
_EXTEND_CLAIM = load_statement("extend_slice_claim")


class SqliteClaims:
    def __init__(self, db: Database) -> None:
        self._db = db

    def claim(self, slice_: Slice, owner: str, now: datetime, until: datetime) -> Claim | None:
        row = (str(slice_.burst.subject), slice_.burst.seq, str(slice_), owner, to_ms(now), to_ms(until))
        with self._db.write() as c:
            claimed = c.execute(_CLAIM_SLICE, row).fetchall()
        if not claimed:
            return None
        attempt, checkpoint = claimed[0]
        return Claim(slice=slice_, number=attempt, owner=owner, claimed_at=now, until=until, checkpoint=checkpoint)

    def renew(self, claim: Claim, until: datetime) -> Claim | None:
        return replace(claim, until=until) if self._extend(claim, until) else None

    def release(self, claim: Claim, now: datetime) -> None:
        self._extend(claim, now)

    def _extend(self, claim: Claim, until: datetime) -> bool:
        slice_ = claim.slice
        key = (str(slice_.burst.subject), slice_.burst.seq, str(slice_), claim.owner, claim.number)
        with self._db.write() as c:
            return c.execute(_EXTEND_CLAIM, (to_ms(until), claim.checkpoint, *key)).rowcount == 1


# Deferred bursts in core.db: a burst moves between the lists of unfinished and deferred bursts in one transaction.

_INSERT_DEFERRED = load_statement("defer_burst")
_SELECT_DUE = "SELECT subject, seq, opened_at FROM deferred_bursts WHERE until <= ? ORDER BY until LIMIT ?"
_INSERT_RELISTED = "INSERT OR IGNORE INTO open_bursts (subject, seq, opened_at) VALUES (?, ?, ?)"
_DELETE_DEFERRED = "DELETE FROM deferred_bursts WHERE subject = ? AND seq = ?"
_COUNT_DEFERRED = "SELECT count(*) FROM deferred_bursts"


class SqliteDeferredBursts:
    def __init__(self, db: Database) -> None:
        self._db = db

    def defer(self, to_defer: Sequence[DeferredBurst], now: datetime) -> None:
        rows = [(str(d.burst.subject), d.burst.seq, to_ms(d.opened_at), to_ms(d.until)) for d in to_defer]
        with self._db.write() as c:
            c.executemany(_INSERT_DEFERRED, rows)
            c.executemany(_DELETE_UNFINISHED, [row[:2] for row in rows])

    def wake_due(self, now: datetime, limit: int) -> Sequence[BurstKey]:
        due = to_ms(now), limit
        with self._db.read() as c:
            if not c.execute(_SELECT_DUE, due).fetchone():
                return []
        with self._db.write() as c:
            rows = c.execute(_SELECT_DUE, due).fetchall()
            c.executemany(_INSERT_RELISTED, rows)
            c.executemany(_DELETE_DEFERRED, [row[:2] for row in rows])
        return [BurstKey(Subject.parse(subject), seq) for subject, seq, _ in rows]

    def count(self) -> int:
        with self._db.read() as c:
            return int(c.execute(_COUNT_DEFERRED).fetchone()[0])
