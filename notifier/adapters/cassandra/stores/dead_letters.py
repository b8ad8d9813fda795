"""Stores dead letters, and their tallies by processing lane.

A letter is first written to `dead_letters`, and then to the list of its day in `dead_letters_by_day`.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from notifier.adapters.cassandra.driver.session import SERIAL, Cluster
from notifier.adapters.cassandra.schema.partition_keys_and_ttls import ROW_LIFETIME
from notifier.adapters.cassandra.stores.leases_epochs_throttles_audit import append_to_audit
from notifier.codec import pack, unpack
from notifier.codec.messagepack import from_ms, to_ms
from notifier.domain.delivery.dead_letter_limit import DeadLetterTally, LaneStop, resume_audit, resumed
from notifier.domain.errors import StoreUnavailable
from notifier.ports.event_log_and_dead_letters import DeadLetter
from notifier.ports.leases_queues_throttles_clock import Clock

# No TTL is bound: both tables expire rows after 91 days by default.
_INSERT_LETTER = "INSERT INTO dead_letters (id, stage, cause, body, at) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS"
_SELECT_LETTER = "SELECT id, stage, cause, body, at FROM dead_letters WHERE id = ?"
_INSERT_IN_DAY = "INSERT INTO dead_letters_by_day (day, at, id) VALUES (?, ?, ?)"
_SELECT_IDS_OF_DAY = "SELECT id FROM dead_letters_by_day WHERE day = ? LIMIT ?"

_MS_PER_DAY = timedelta(days=1) // timedelta(milliseconds=1)
READ_AHEAD = timedelta(minutes=5)
"""How far into the future letters are listed, because the clock of the machine that wrote a letter may be ahead."""


class CassandraDeadLetters:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def put(self, letter: DeadLetter) -> None:
        # If the response is lost, this method raises, and the caller puts the letter again, as it does after a crash
        # between the two writes. If the second attempt finds the letter stored, the list gets the stored time.
        at = to_ms(letter.at)
        if not self._cluster.compare_and_set(_INSERT_LETTER, (letter.id, letter.stage, letter.cause, letter.body, at)):
            at = self._cluster.query(_SELECT_LETTER, (letter.id,), profile=SERIAL)[0].at
        self._cluster.query(_INSERT_IN_DAY, (at // _MS_PER_DAY, at, letter.id))

    def list(self, limit: int) -> Sequence[DeadLetter]:
        now = self._clock.now()
        letters: list[DeadLetter] = []
        for day in range(to_ms(now + READ_AHEAD) // _MS_PER_DAY, to_ms(now - ROW_LIFETIME) // _MS_PER_DAY - 1, -1):
            if len(letters) >= limit:
                break
            ids = self._cluster.query(_SELECT_IDS_OF_DAY, (day, limit - len(letters)))
            letters += [letter_of(rows[0]) for rows in self._cluster.query_each(_SELECT_LETTER, ids) if rows]
        return letters


def letter_of(row: tuple[str, str, str, bytes, int]) -> DeadLetter:
    id, stage, cause, body, at = row
    return DeadLetter(id=id, stage=stage, cause=cause, body=body, at=from_ms(at))


# Tallies of processing lanes: each is replaced only by its next version, decided by Paxos.

_SELECT_TALLY = "SELECT blob FROM lane_tallies WHERE lane = ?"
_INSERT_TALLY = "INSERT INTO lane_tallies (version, blob, lane) VALUES (?, ?, ?) IF NOT EXISTS"
_UPDATE_TALLY = "UPDATE lane_tallies SET version = ?, blob = ? WHERE lane = ? IF version = ?"


class CassandraDeadLetterTallies:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def read(self, lanes: Collection[str]) -> Mapping[str, DeadLetterTally]:
        # A plain read may be stale, which is harmless. Each process reads again after a second, and the compare-and-set
        # that precedes a dead letter fails on a stale tally.
        results = self._cluster.query_each(_SELECT_TALLY, [(lane,) for lane in lanes])
        return {lane: _tally(lane, rows) for lane, rows in zip(lanes, results, strict=True)}

    def compare_and_set(self, tally: DeadLetterTally) -> DeadLetterTally:
        row = (tally.version, pack(tally), tally.lane)
        write = (_INSERT_TALLY, row) if tally.version == 1 else (_UPDATE_TALLY, (*row, tally.version - 1))
        [applied] = self._cluster.compare_and_set_each([write])
        if applied:
            return tally
        stored = self._read_serial(tally.lane)
        if applied is None and stored.version < tally.version:
            # The compare-and-set may still take effect.
            raise StoreUnavailable(f"Unknown whether the tally of {tally.lane} was replaced.")
        return stored

    def resume(self, lane: str, operator: str, reason: str, now: datetime) -> LaneStop | None:
        stored = self._read_serial(lane)
        if stored.stop is None:
            return None
        # Write the audit row first: a crash after that leaves a row without its operation. The other order could leave
        # a resumed lane without an operator's name.
        append_to_audit(
            self._cluster,
            at=now,
            operator=operator,
            action="lane.resume",
            detail=resume_audit(lane, stored.stop, reason),
        )
        # Only a resume changes the tally of a stopped lane. If another process replaced the tally after our read, that
        # process has ended the stop that is returned here.
        self.compare_and_set(resumed(stored))
        return stored.stop

    def _read_serial(self, lane: str) -> DeadLetterTally:
        """Read at SERIAL, which completes an interrupted compare-and-set."""
        return _tally(lane, self._cluster.query(_SELECT_TALLY, (lane,), profile=SERIAL))


def _tally(lane: str, rows: list[tuple[bytes]]) -> DeadLetterTally:
    return unpack(DeadLetterTally, rows[0][0]) if rows else DeadLetterTally(lane=lane)
