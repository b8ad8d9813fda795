"""Reads bursts, progress, audience snapshots and inbox rows in short reads.

A long read would delay checkpoints of the write-ahead log.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import load_statement
from notifier.adapters.sqlite.stores.ledger_and_deferred_bursts import SqliteLedger
from notifier.codec import unpack, unpack_snapshot
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.audience.inbox_rows import InboxRow, window_of
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.ledger_claims_deferred_bursts_scan import StoredRow

ROWS_PER_PAGE = 256

_SELECT_BURSTS_AFTER = (
    "SELECT subject, seq, blob FROM bursts WHERE (subject, seq) > (?, ?) ORDER BY subject, seq LIMIT ?"
)
_SELECT_BURST = "SELECT blob FROM bursts WHERE subject = ? AND seq = ?"
_SELECT_PLANS_AFTER = "SELECT subject, seq FROM plans WHERE (subject, seq) > (?, ?) ORDER BY subject, seq LIMIT ?"
_SELECT_SHARDS = "SELECT shard FROM audience_snapshots WHERE subject = ? AND seq = ?"
_SELECT_SNAPSHOT = "SELECT blob FROM audience_snapshots WHERE subject = ? AND seq = ? AND shard = ?"
_SELECT_NEXT_RANGE = "SELECT min(member_range) FROM inbox WHERE member_range > ?"
_SELECT_ROWS_AFTER = load_statement("read_inbox_rows_after")
_SELECT_ROWS_OF_BURST = load_statement("read_inbox_rows_of_burst")

ScannedRow = tuple[int, int, str, int, int, str, bytes]
"""Range, inbox window, subject, opening time, seq, tier, members."""


class SqliteStoreScan:
    def __init__(self, core: Database, inboxes: Sequence[Database]) -> None:
        self._core = core
        self._inboxes = inboxes
        self._ledger = SqliteLedger(core)

    def bursts(self) -> Iterator[Burst]:
        subject, seq = "", 0
        while page := _fetch_all(self._core, _SELECT_BURSTS_AFTER, subject, seq, ROWS_PER_PAGE):
            yield from (unpack(Burst, blob) for _, _, blob in page)
            subject, seq, _ = page[-1]

    def burst_progress(self) -> Iterator[BurstProgress]:
        subject, seq = "", 0
        while page := _fetch_all(self._core, _SELECT_PLANS_AFTER, subject, seq, ROWS_PER_PAGE):
            keys = [BurstKey(Subject.parse(subject), seq) for subject, seq in page]
            progress = self._ledger.read(keys)
            yield from (progress[key] for key in keys if key in progress)
            subject, seq = page[-1]

    def audience_snapshots(self, burst: BurstKey) -> Iterator[AudienceSnapshot]:
        key = str(burst.subject), burst.seq
        shards = sorted(shard for inbox in self._inboxes for (shard,) in _fetch_all(inbox, _SELECT_SHARDS, *key))
        for shard in shards:
            # A snapshot may have been deleted since the shards were listed.
            for (blob,) in _fetch_all(self._inboxes[shard % len(self._inboxes)], _SELECT_SNAPSHOT, *key, shard):
                yield unpack_snapshot(shard, blob)

    def rows(self, burst: BurstKey | None = None) -> Iterator[StoredRow]:
        rows = (_rows(inbox) if burst is None else self._rows_of(inbox, burst) for inbox in self._inboxes)
        return map(_stored_row, chain.from_iterable(rows))

    def _rows_of(self, inbox: Database, burst: BurstKey) -> Iterator[ScannedRow]:
        # A restamp may move the opening time of a burst after rows were written. Search up to the new time.
        opening_times = [progress.plan.opened_at for progress in self._ledger.read([burst]).values()]
        key = str(burst.subject), burst.seq
        opening_times += [unpack(Burst, blob).opened_at for (blob,) in _fetch_all(self._core, _SELECT_BURST, *key)]
        if not opening_times:
            return
        earliest, latest = min(opening_times), max(opening_times)
        for window in range(window_of(earliest), window_of(latest) + 1):
            parameters = window, str(burst.subject), to_ms(earliest), to_ms(latest), burst.seq
            for member_range in _ranges(inbox):
                yield from _fetch_all(inbox, _SELECT_ROWS_OF_BURST, member_range, *parameters)


def _rows(inbox: Database) -> Iterator[ScannedRow]:
    before_first_row = (-1, 0, "", 0, 0, "")
    page: list[ScannedRow] = _fetch_all(inbox, _SELECT_ROWS_AFTER, *before_first_row, ROWS_PER_PAGE)
    while page:
        yield from page
        page = _fetch_all(inbox, _SELECT_ROWS_AFTER, *page[-1][:6], ROWS_PER_PAGE)


def _ranges(inbox: Database) -> Iterator[int]:
    """Yield the ranges that have rows."""
    member_range: int | None = -1
    while (member_range := _fetch_all(inbox, _SELECT_NEXT_RANGE, member_range)[0][0]) is not None:
        yield member_range


def _fetch_all(db: Database, sql: str, *parameters: object) -> list[Any]:
    with db.read() as c:
        return c.execute(sql, parameters).fetchall()


def _stored_row(row: ScannedRow) -> StoredRow:
    member_range, _, subject, opened_at, seq, tier, members = row
    key = BurstKey(Subject.parse(subject), seq)
    inbox_row = InboxRow(burst=key, opened_at=from_ms(opened_at), tier=Tier(tier), members=members)
    return StoredRow(member_range=member_range, row=inbox_row)
