"""What was sent to phones: an intent before each window of sends, its outcome after."""

from notifier.adapters.cassandra.session import Cluster
from notifier.ports.push import Sending

# No TTL is bound: a window doesn't say when its burst opened, and the default is a day more than it can be delivered.
_INTEND = "INSERT INTO sent (subject, seq, tier, shard) VALUES (?, ?, ?, ?)"
_SENT = "SELECT sent FROM sent WHERE subject = ? AND seq = ? AND tier = ? AND shard = ?"
_OUTCOME = "INSERT INTO sent (subject, seq, tier, shard, sent) VALUES (?, ?, ?, ?, ?)"


class CassandraSent:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def intend(self, sending: Sending) -> bool:
        # The row without its outcome: written behind one that has it, it leaves the outcome as it is.
        self._cluster.ask(_INTEND, _key(sending))
        return self._cluster.ask(_SENT, _key(sending))[0].sent is None

    def outcome(self, sending: Sending, sent: int) -> None:
        self._cluster.ask(_OUTCOME, (*_key(sending), sent))


def _key(sending: Sending) -> tuple[str, int, str, int]:
    return str(sending.burst.subject), sending.burst.seq, str(sending.tier), sending.shard
