"""The bundles of the contracts on Cassandra, and the facts about people that no port writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from notifier.adapters.cassandra import CassandraArchive, CassandraInbox, CassandraSeals, CassandraTimeline, Cluster
from notifier.adapters.cassandra.bursts import CassandraBursts
from notifier.adapters.cassandra.claims import CassandraClaims
from notifier.adapters.cassandra.deadletters import CassandraDeadLetters
from notifier.adapters.cassandra.heads import CassandraHeads
from notifier.adapters.cassandra.leases import CassandraLeases
from notifier.adapters.cassandra.ledger import CassandraLedger
from notifier.adapters.cassandra.reader import Reader
from notifier.adapters.cassandra.recent import CassandraRecentBursts
from notifier.adapters.cassandra.sent import CassandraSent
from notifier.adapters.cassandra.throttles import CassandraThrottles
from notifier.testing.memory.clock import ManualClock
from notifier.testing.memory.log import MemoryLog
from tests.contracts.backends import Backend
from tests.contracts.flow_stores import Store


class _Absent:
    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(name)


ABSENT: Any = _Absent()


def in_cassandra(cluster: Cluster, clock: ManualClock) -> Backend:
    """The log is another engine's, and has its own contract."""
    return Backend(
        clock=clock,
        log=MemoryLog(clock),
        directory=ABSENT,
        sets=ABSENT,
        throttles=CassandraThrottles(cluster, clock),
        dead_letters=CassandraDeadLetters(cluster, clock),
        sent=CassandraSent(cluster),
        leases=CassandraLeases(cluster),
        archive=CassandraArchive(cluster, CassandraLedger(cluster, clock)),
        bursts=CassandraBursts(cluster, clock),
        seals=CassandraSeals(cluster, clock),
        inbox=CassandraInbox(cluster, clock),
        ledger=CassandraLedger(cluster, clock),
    )


@contextmanager
def cassandra_store(cluster: Cluster, clock: ManualClock) -> Iterator[Store]:
    """Whoever opens it again has a session of his own."""
    yield Store(
        clock=clock,
        again=partial(_again, cluster, clock),
        expires=True,
        heads=CassandraHeads(cluster),
        bursts=CassandraBursts(cluster, clock),
        recent=CassandraRecentBursts(cluster, clock),
        seals=CassandraSeals(cluster, clock),
        inbox=CassandraInbox(cluster, clock),
        ledger=CassandraLedger(cluster, clock),
        claims=CassandraClaims(cluster),
        people=ABSENT,
        timeline=CassandraTimeline(Reader(cluster), clock),
        directory=ABSENT,
        sets=ABSENT,
        facts=ABSENT,
        spared=ABSENT,
    )


@contextmanager
def _again(cluster: Cluster, clock: ManualClock) -> Iterator[Store]:
    other = Cluster(cluster.access)
    try:
        with cassandra_store(other, clock) as store:
            yield store
    finally:
        other.close()
