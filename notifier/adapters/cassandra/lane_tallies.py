"""The lane tallies: each is replaced only by the version that follows the stored one, decided by Paxos."""

from collections.abc import Collection, Mapping
from datetime import datetime

from notifier.adapters.cassandra.audit import record
from notifier.adapters.cassandra.session import SERIAL, Cluster
from notifier.codec import pack, unpack
from notifier.domain.delivery.dead_letter_limit import LaneStop, LaneTally, resume_audit, resumed
from notifier.domain.errors import StoreUnavailable

_READ = "SELECT blob FROM lane_tallies WHERE lane = ?"
_FIRST = "INSERT INTO lane_tallies (version, blob, lane) VALUES (?, ?, ?) IF NOT EXISTS"
_NEXT = "UPDATE lane_tallies SET version = ?, blob = ? WHERE lane = ? IF version = ?"


class CassandraLaneTallies:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def read(self, lanes: Collection[str]) -> Mapping[str, LaneTally]:
        # A plain read: a process asks once a second, and `swap` decides before anything is buried.
        answers = self._cluster.ask_each(_READ, [(lane,) for lane in lanes])
        return {lane: _tally(lane, rows) for lane, rows in zip(lanes, answers, strict=True)}

    def swap(self, tally: LaneTally) -> LaneTally:
        row = (tally.version, pack(tally), tally.lane)
        question = (_FIRST, row) if tally.version == 1 else (_NEXT, (*row, tally.version - 1))
        [applied] = self._cluster.decide_each([question])
        if applied:
            return tally
        stored = self._serial(tally.lane)
        if applied is None and stored.version < tally.version:
            # The swap may still take effect, however late.
            raise StoreUnavailable(f"Whether the tally of {tally.lane} was replaced isn't known yet.")
        return stored

    def resume(self, lane: str, who: str, reason: str, now: datetime) -> LaneStop | None:
        stored = self._serial(lane)
        if stored.stop is None:
            return None
        # The audit first: a crash here leaves an entry without its deed. The other order could leave a resumed lane and
        # no operator's name.
        record(self._cluster, at=now, who=who, what="lane.resume", detail=resume_audit(lane, stored.stop, reason))
        # A stopped tally changes by a resume alone: a swap that won meanwhile has resumed the same stop.
        self.swap(resumed(stored))
        return stored.stop

    def _serial(self, lane: str) -> LaneTally:
        """At SERIAL: finishes a swap that was cut off, so that what is decided next stands on it."""
        return _tally(lane, self._cluster.ask(_READ, (lane,), profile=SERIAL))


def _tally(lane: str, rows: list[tuple[bytes]]) -> LaneTally:
    return unpack(LaneTally, rows[0][0]) if rows else LaneTally(lane=lane)
