"""The leases: one row each, taken by compare-and-set; whose clock it is read by is the owner's."""

from datetime import datetime, timedelta

from notifier.adapters.cassandra.driver.session import SERIAL, Cluster
from notifier.codec.timestamps import to_ms

_READ = "SELECT owner, until FROM leases WHERE name = ?"
_FIRST = "INSERT INTO leases (name, owner, until) VALUES (?, ?, ?) IF NOT EXISTS"
_NEXT = "UPDATE leases SET owner = ?, until = ? WHERE name = ? IF owner = ? AND until = ?"


class CassandraLeases:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def hold(self, name: str, owner: str, now: datetime, term: timedelta) -> bool:
        # A swap whose answer is lost raises: whoever doesn't know leads nobody, and finds the lease his next time.
        until = to_ms(now + term)
        stored = self._cluster.ask(_READ, (name,), profile=SERIAL)
        if not stored:
            return self._cluster.decide(_FIRST, (name, owner, until))
        holder, ends = stored[0]
        if holder != owner and ends > to_ms(now):
            return False
        return self._cluster.decide(_NEXT, (owner, until, name, holder, ends))
