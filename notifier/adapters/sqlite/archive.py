"""Everything in the files, in pages: no look is long enough to hold back the clean-up of a write-ahead log."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.ledger import SqliteLedger
from notifier.adapters.sqlite.statements import statement
from notifier.codec import unpack, unpack_seal
from notifier.codec.moments import from_ms
from notifier.domain.audience import Tier
from notifier.domain.block import Row, window_of
from notifier.domain.burst import Burst
from notifier.domain.ledger import Account
from notifier.domain.seal import Seal
from notifier.domain.subject import BurstKey, Subject
from notifier.ports.archive import StoredRow

PAGE = 256

_BURSTS = "SELECT subject, seq, blob FROM bursts WHERE (subject, seq) > (?, ?) ORDER BY subject, seq LIMIT ?"
_BURST = "SELECT blob FROM bursts WHERE subject = ? AND seq = ?"
_PLANS = "SELECT subject, seq FROM plans WHERE (subject, seq) > (?, ?) ORDER BY subject, seq LIMIT ?"
_SHARDS = "SELECT shard FROM seals WHERE subject = ? AND seq = ?"
_SEAL = "SELECT blob FROM seals WHERE subject = ? AND seq = ? AND shard = ?"
_NEXT_BLOCK = "SELECT min(block) FROM inbox WHERE block > ?"
_SLOT = statement("archive_slot")
_AFTER = statement("archive_after")
_OF_BURST = statement("archive_burst")

Found = tuple[int, int, int, int, str, int, str, bytes | None]


class SqliteArchive:
    def __init__(self, core: Database, inboxes: Sequence[Database]) -> None:
        self._core = core
        self._inboxes = inboxes
        self._ledger = SqliteLedger(core)

    def bursts(self) -> Iterator[Burst]:
        subject, seq = "", 0
        while page := _all(self._core, _BURSTS, subject, seq, PAGE):
            yield from (unpack(Burst, blob) for _, _, blob in page)
            subject, seq, _ = page[-1]

    def accounts(self) -> Iterator[Account]:
        subject, seq = "", 0
        while page := _all(self._core, _PLANS, subject, seq, PAGE):
            keys = [BurstKey(Subject.parse(subject), seq) for subject, seq in page]
            accounts = self._ledger.read(keys)
            yield from (accounts[key] for key in keys if key in accounts)
            subject, seq = page[-1]

    def seals(self, burst: BurstKey) -> Iterator[Seal]:
        key = str(burst.subject), burst.seq
        shards = sorted(shard for inbox in self._inboxes for (shard,) in _all(inbox, _SHARDS, *key))
        for shard in shards:
            # One that the sweep took meanwhile is no longer there.
            for (blob,) in _all(self._inboxes[shard % len(self._inboxes)], _SEAL, *key, shard):
                yield unpack_seal(shard, blob)

    def rows(self, burst: BurstKey | None = None) -> Iterator[StoredRow]:
        found = (_rows(inbox) if burst is None else self._rows_of(inbox, burst) for inbox in self._inboxes)
        return map(_stored, chain.from_iterable(found))

    def _rows_of(self, inbox: Database, burst: BurstKey) -> Iterator[Found]:
        key = str(burst.subject), burst.seq
        for (blob,) in _all(self._core, _BURST, *key):
            window = window_of(unpack(Burst, blob).opened_at)
            for block in _blocks(inbox):
                yield from _all(inbox, _OF_BURST, block, window, *key)


def _rows(inbox: Database) -> Iterator[Found]:
    page: list[Found] = _all(inbox, _AFTER, -1, 0, 0, PAGE)
    while page:
        yield from page
        block, window, slot, *place = page[-1][:7]
        page = _all(inbox, _SLOT, block, window, slot, *place, PAGE) or _all(inbox, _AFTER, block, window, slot, PAGE)


def _blocks(inbox: Database) -> Iterator[int]:
    """A jump from each block to the next, whatever lies between."""
    block: int | None = -1
    while (block := _all(inbox, _NEXT_BLOCK, block)[0][0]) is not None:
        yield block


def _all(db: Database, sql: str, *parameters: object) -> list[Any]:
    with db.read() as c:
        return c.execute(sql, parameters).fetchall()


def _stored(found: Found) -> StoredRow:
    block, _, slot, opened_at, subject, seq, tier, members = found
    key = BurstKey(Subject.parse(subject), seq)
    row = Row(burst=key, opened_at=from_ms(opened_at), tier=Tier(tier), slot=slot, members=members)
    return StoredRow(block=block, row=row)
