"""Who of a group reads which partitions: leases in log.db, shared out evenly among those who are alive."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from notifier.adapters.sqlite.statements import statement

LEASE = timedelta(seconds=5)
"""An owner that hasn't polled for so long is replaced."""

_LEASE_MS = LEASE // timedelta(milliseconds=1)

_JOIN = "INSERT OR REPLACE INTO consumers (consumer_group, stream, owner, until) VALUES (?, ?, ?, ?)"
_LEAVE = "DELETE FROM consumers WHERE consumer_group = ? AND stream = ? AND (owner = ? OR until <= ?)"
_OWNERS = "SELECT owner FROM consumers WHERE consumer_group = ? AND stream = ? ORDER BY owner"
_HOLDS = statement("log_holds")
_HOLD = "INSERT OR REPLACE INTO holds (consumer_group, partition, owner, epoch, until) VALUES (?, ?, ?, ?, ?)"
_FREE = "UPDATE holds SET until = 0 WHERE consumer_group = ? AND partition = ? AND owner = ? AND epoch = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A consumer's place in its group."""

    group: str
    stream: str
    owner: str
    partitions: Sequence[str]
    """All of the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    epochs: Mapping[str, int]
    """Of the partitions that are the consumer's."""
    until: int
    complete: bool
    """False while partitions that are due to it are still another's."""


def take_share(c: sqlite3.Connection, seat: Seat, held: Mapping[str, int], now: int) -> Share:
    """Renews what the consumer holds, gives up what is more than its share, and takes what is free up to it.

    What it held and another took meanwhile has another epoch by now, and isn't in the answer.
    """
    until = now + _LEASE_MS
    due = _due(c, seat, now, until)
    holds = _holds(c, seat)
    mine = [p for p in held if p in holds and holds[p][:2] == (seat.owner, held[p])]
    kept = {partition: held[partition] for partition in mine[:due]}
    for partition in mine[due:]:
        c.execute(_FREE, (seat.group, partition, seat.owner, held[partition]))
    for partition in seat.partitions:
        _, epoch, ends = holds.get(partition, ("", 0, 0))
        if len(kept) < due and partition not in kept and ends <= now:
            kept[partition] = epoch + 1
    c.executemany(_HOLD, [(seat.group, partition, seat.owner, epoch, until) for partition, epoch in kept.items()])
    return Share(epochs=kept, until=until, complete=len(kept) == due)


def give_back(c: sqlite3.Connection, seat: Seat, held: Mapping[str, int], now: int) -> None:
    c.execute(_LEAVE, (seat.group, seat.stream, seat.owner, now))
    c.executemany(_FREE, [(seat.group, partition, seat.owner, epoch) for partition, epoch in held.items()])


def _due(c: sqlite3.Connection, seat: Seat, now: int, until: int) -> int:
    """How many partitions are the consumer's share: as even as can be, the rest to the first by name."""
    c.execute(_LEAVE, (seat.group, seat.stream, seat.owner, now))
    c.execute(_JOIN, (seat.group, seat.stream, seat.owner, until))
    owners = [owner for (owner,) in c.execute(_OWNERS, (seat.group, seat.stream))]
    each, rest = divmod(len(seat.partitions), len(owners))
    return each + (owners.index(seat.owner) < rest)


def _holds(c: sqlite3.Connection, seat: Seat) -> dict[str, tuple[str, int, int]]:
    rows = c.execute(_HOLDS, (seat.group, json.dumps(list(seat.partitions))))
    return {partition: (owner, epoch, until) for partition, owner, epoch, until in rows}
