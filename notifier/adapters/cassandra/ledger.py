"""The ledger: plans, the list of open bursts, and cells; an account is put together from three reads."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from notifier.adapters.cassandra.cells import CELLS, Cells, entries, parsed
from notifier.adapters.cassandra.lives import KEPT, seconds_until
from notifier.adapters.cassandra.openings import OpenBursts
from notifier.adapters.cassandra.session import PLAIN, SERIAL, Cluster
from notifier.codec import pack, unpack
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.delivery.ledger import Account, Claim, Entry, account
from notifier.domain.delivery.plan import Plan
from notifier.domain.delivery.slice import is_former
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey
from notifier.ports.clock import Clock

_PLAN = "INSERT INTO plans (subject, seq, blob) VALUES (?, ?, ?) IF NOT EXISTS USING TTL ?"
_PLANNED = "SELECT blob FROM plans WHERE subject = ? AND seq = ?"
_CLAIMS = "SELECT slice, attempt, owner, claimed_at, until, reached FROM claims WHERE subject = ? AND seq = ?"


class CassandraLedger:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._cells = Cells(cluster)
        self.openings = OpenBursts(cluster, clock)

    def plan(self, plans: Sequence[Plan]) -> None:
        # Listed before it is planned, so that no crash leaves a plan that nobody works off. What is listed without a
        # plan has no account, and waits for the head's next finisher, who comes here again: the head says that all is
        # done only after its plans. What has a plan was listed, and isn't listed again: it may have been closed since.
        # Of two who find no plan at the same time one lists in vain: at the worst a burst that was closed meanwhile,
        # which is found settled and closed again.
        now = self._clock.now()
        planned = self._plans([plan.burst for plan in plans])
        new = [p for p in plans if p.burst not in planned and seconds_until(p.opened_at + KEPT, now) > 0]
        self.openings.add(new)
        rows = [(*_key(p.burst), pack(p), seconds_until(p.opened_at + KEPT, now)) for p in new]
        if None in self._cluster.decide_each((_PLAN, row) for row in rows):
            raise StoreUnavailable("Whether a plan was written isn't known yet.")

    def open(self, since: datetime | None = None) -> Sequence[BurstKey]:
        return self.openings.all() if since is None else self.openings.since(since)

    def read(self, bursts: Collection[BurstKey]) -> Mapping[BurstKey, Account]:
        # Plain reads. A plan never changes, so one that is found is true; one that isn't is looked for at SERIAL, as
        # the write may have been cut off. A cell whose write was cut off comes to light with the next write to its
        # account, which whoever misses it makes: until then a slice may be worked on twice, and that is harmless.
        plans = self._plans(bursts)
        if missing := [burst for burst in bursts if burst not in plans]:
            plans |= self._plans(missing, profile=SERIAL)
        keys = list(plans)
        cells = self._cluster.ask_each(CELLS, map(_key, keys))
        claims = self._cluster.ask_each(_CLAIMS, map(_key, keys))
        return {
            key: account(plans[key], entries(facts), _claims(held))
            for key, facts, held in zip(keys, cells, claims, strict=True)
        }

    def record(self, entries: Sequence[Entry]) -> Sequence[bool]:
        return self._cells.record(entries)

    def close(self, bursts: Collection[BurstKey]) -> None:
        plans = self._plans(bursts).values()
        self.openings.drop([(to_ms(plan.opened_at), plan.burst) for plan in plans], self._clock.now())

    def _plans(self, bursts: Collection[BurstKey], *, profile: object = PLAIN) -> dict[BurstKey, Plan]:
        found = self._cluster.ask_each(_PLANNED, map(_key, bursts), profile=profile)
        return {plan.burst: plan for plan in (unpack(Plan, blob) for rows in found for (blob,) in rows)}


def _key(burst: BurstKey) -> tuple[str, int]:
    return str(burst.subject), burst.seq


def _claims(rows: Iterable[Any]) -> Iterator[Claim]:
    return (_claim(row) for row in rows if not is_former(row.slice))


def _claim(row: tuple[str, int, str, int, int, int]) -> Claim:
    text, attempt, owner, at, until, reached = row
    piece, since, end = parsed(text), from_ms(at), from_ms(until)
    return Claim(slice=piece, attempt=attempt, owner=owner, claimed_at=since, until=end, reached=reached)
