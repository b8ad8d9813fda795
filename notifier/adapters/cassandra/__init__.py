"""Cassandra: the durable store past one machine."""

from notifier.adapters.cassandra.archive import CassandraArchive
from notifier.adapters.cassandra.bursts import CassandraBursts
from notifier.adapters.cassandra.claims import CassandraClaims
from notifier.adapters.cassandra.deadletters import CassandraDeadLetters
from notifier.adapters.cassandra.heads import CassandraHeads
from notifier.adapters.cassandra.inbox import CassandraInbox
from notifier.adapters.cassandra.leases import CassandraLeases
from notifier.adapters.cassandra.ledger import CassandraLedger
from notifier.adapters.cassandra.migrate import Phase, migrate, pending
from notifier.adapters.cassandra.recent import CassandraRecentBursts
from notifier.adapters.cassandra.seals import CassandraSeals
from notifier.adapters.cassandra.sent import CassandraSent
from notifier.adapters.cassandra.session import Access, Cluster
from notifier.adapters.cassandra.throttles import CassandraThrottles
from notifier.adapters.cassandra.timeline import CassandraTimeline

__all__ = [
    "Access",
    "CassandraArchive",
    "CassandraBursts",
    "CassandraClaims",
    "CassandraDeadLetters",
    "CassandraHeads",
    "CassandraInbox",
    "CassandraLeases",
    "CassandraLedger",
    "CassandraRecentBursts",
    "CassandraSeals",
    "CassandraSent",
    "CassandraThrottles",
    "CassandraTimeline",
    "Cluster",
    "Phase",
    "migrate",
    "pending",
]
