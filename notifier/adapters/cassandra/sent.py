"""What was sent to phones: an intent before each window of sends, its outcome after."""

from collections.abc import Sequence

from notifier.adapters.cassandra.session import Cluster
from notifier.adapters.cassandra.together import together
from notifier.ports.push import Sending

# No TTL is bound: a window doesn't say when its burst opened, and the default is a day more than it can be delivered.
_INTEND = "INSERT INTO sent (subject, seq, tier, shard) VALUES (?, ?, ?, ?)"
_SENT = "SELECT shard, sent FROM sent WHERE subject = ? AND seq = ? AND tier = ? AND shard IN ?"
_OUTCOME = "INSERT INTO sent (subject, seq, tier, shard, sent) VALUES (?, ?, ?, ?, ?)"


class CassandraSent:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def intend(self, sendings: Sequence[Sending]) -> Sequence[Sending]:
        if not sendings:
            return ()
        # Rows without their outcome: written behind one that has it, they leave the outcome as it is.
        keys = [_key(sending) for sending in sendings]
        self._cluster.ask(*together(_INTEND, keys))
        # All are of one partition, so that this is one question, too.
        told = self._cluster.ask(_SENT, (*keys[0][:-1], [sending.shard for sending in sendings]))
        known = {row.shard for row in told if row.sent is not None}
        return [sending for sending in sendings if sending.shard not in known]

    def outcome(self, sending: Sending, sent: int) -> None:
        self._cluster.ask(_OUTCOME, (*_key(sending), sent))


def _key(sending: Sending) -> tuple[str, int, str, int]:
    return str(sending.burst.subject), sending.burst.seq, str(sending.tier), sending.shard
