"""The ledger: plans, the list of open bursts, and write-once cells; an account is put together from three reads."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from notifier.adapters.cassandra.lives import KEPT, seconds_until
from notifier.adapters.cassandra.openings import OpenBursts
from notifier.adapters.cassandra.session import PLAIN, SERIAL, Cluster
from notifier.adapters.cassandra.statements import statement
from notifier.codec import pack, unpack
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ledger import Account, Claim, Entry, Fact, account
from notifier.domain.plan import Plan
from notifier.domain.slice import Slice, is_former
from notifier.domain.subject import BurstKey
from notifier.ports.clock import Clock

CELLS = 100
"""Of a burst in one round: some 20 kB."""

_RECORD = statement("record_cell")
_PLAN = "INSERT INTO plans (subject, seq, blob) VALUES (?, ?, ?) IF NOT EXISTS USING TTL ?"
_PLANNED = "SELECT blob FROM plans WHERE subject = ? AND seq = ?"
_CELLS = "SELECT slice, fact, n, at, people, rows, phones, note FROM slices WHERE subject = ? AND seq = ?"
_CLAIMS = "SELECT slice, attempt, owner, claimed_at, until, reached FROM claims WHERE subject = ? AND seq = ?"


class CassandraLedger:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._open = OpenBursts(cluster, clock)

    def plan(self, plans: Sequence[Plan]) -> None:
        # Listed before it is planned, so that no crash leaves a plan that nobody works off. What is listed without a
        # plan has no account, and waits for the head's next finisher, who comes here again: the head says that all is
        # done only after its plans. What has a plan was listed, and isn't listed again: it may have been closed since.
        # Of two who find no plan at the same time one lists in vain: at the worst a burst that was closed meanwhile,
        # which is found settled and closed again.
        now = self._clock.now()
        planned = self._plans([plan.burst for plan in plans])
        new = [p for p in plans if p.burst not in planned and seconds_until(p.opened_at + KEPT, now) > 0]
        self._open.add(new)
        rows = [(*_key(p.burst), pack(p), seconds_until(p.opened_at + KEPT, now)) for p in new]
        if None in self._cluster.decide_each((_PLAN, row) for row in rows):
            raise StoreUnavailable("Whether a plan was written isn't known yet.")

    def open(self, since: datetime | None = None) -> Sequence[BurstKey]:
        return self._open.all() if since is None else self._open.since(since)

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, Account]:
        # Plain reads. A plan never changes, so one that is found is true; one that isn't is looked for at SERIAL, as
        # the write may have been cut off. A cell whose write was cut off comes to light with the next write to its
        # account, which whoever misses it makes: until then a slice may be worked on twice, and that is harmless.
        plans = self._plans(bursts)
        if missing := [burst for burst in bursts if burst not in plans]:
            plans |= self._plans(missing, profile=SERIAL)
        keys = list(plans)
        cells = self._cluster.ask_each(_CELLS, map(_key, keys))
        claims = self._cluster.ask_each(_CLAIMS, map(_key, keys))
        return {
            key: account(plans[key], map(_entry, _of_now(facts)), map(_claim, _of_now(held)))
            for key, facts, held in zip(keys, cells, claims, strict=True)
        }

    def record(self, entries: Sequence[Entry]) -> Sequence[bool]:
        # Without an answer this raises: an entry has no nonce, so nobody could say that a cell is his, and a False
        # would say that it isn't. Nothing is lost with it: a slice that was noted as queued and wasn't is queued again
        # when its time is over, and one that ended is done again, to the same rows, and finds its end.
        first = {_cell(entry): n for n, entry in reversed(list(enumerate(entries)))}
        won: set[int] = set()
        for group, together in self._together(entries, sorted(first.values())):
            # One of them was there already, so none was written: they are asked for one by one.
            alone = group if len(group) > 1 and not together else ()
            won.update(group if together else (n for n in alone if self._cluster.decide(_RECORD, _row(entries[n]))))
        return [n in won for n in range(len(entries))]

    def close(self, bursts: Collection[BurstKey]) -> None:
        self._open.drop(self._plans(bursts).values())

    def _together(self, entries: Sequence[Entry], those: Sequence[int]) -> Sequence[tuple[Sequence[int], bool]]:
        """Those of the entries by account, and whether they were all written."""
        groups = list(_groups(entries, those))
        decided = self._cluster.decide_together(_RECORD, [[_row(entries[n]) for n in group] for group in groups])
        if None in decided:
            raise StoreUnavailable("Whether some entries of the ledger were written isn't known.")
        return [(group, bool(together)) for group, together in zip(groups, decided, strict=True)]

    def _plans(self, bursts: Collection[BurstKey], *, profile: object = PLAIN) -> dict[BurstKey, Plan]:
        found = self._cluster.ask_each(_PLANNED, map(_key, bursts), profile=profile)
        return {plan.burst: plan for plan in (unpack(Plan, blob) for rows in found for (blob,) in rows)}


_slice = lru_cache(maxsize=8_192)(Slice.parse)
"""An account that moves is read many times."""


def _groups(entries: Sequence[Entry], those: Sequence[int]) -> Iterator[Sequence[int]]:
    accounts: dict[BurstKey, list[int]] = defaultdict(list)
    for n in those:
        accounts[entries[n].slice.burst].append(n)
    for each in accounts.values():
        yield from (each[start : start + CELLS] for start in range(0, len(each), CELLS))


def _cell(entry: Entry) -> tuple[Slice, Fact, int]:
    return entry.slice, entry.fact, entry.n


def _key(burst: BurstKey) -> tuple[str, int]:
    return str(burst.subject), burst.seq


def _row(entry: Entry) -> tuple[object, ...]:
    cell = *_key(entry.slice.burst), str(entry.slice), str(entry.fact), entry.n
    return *cell, to_ms(entry.at), entry.people, entry.rows, entry.phones, entry.note


def _of_now(rows: Iterable[Any]) -> Iterator[Any]:
    return (row for row in rows if not is_former(row.slice))


def _entry(row: tuple[str, str, int, int, int, int, int | None, str]) -> Entry:
    text, fact, n, at, people, rows, phones, note = row
    return Entry(
        slice=_slice(text),
        fact=Fact(fact),
        n=n,
        at=from_ms(at),
        people=people,
        rows=rows,
        phones=phones,
        note=note,
    )


def _claim(row: tuple[str, int, str, int, int, int]) -> Claim:
    text, attempt, owner, at, until, reached = row
    piece, since, end = _slice(text), from_ms(at), from_ms(until)
    return Claim(slice=piece, attempt=attempt, owner=owner, claimed_at=since, until=end, reached=reached)
