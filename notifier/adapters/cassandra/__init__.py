"""Cassandra: the durable store past one machine."""

from notifier.adapters.cassandra.archive import CassandraArchive
from notifier.adapters.cassandra.bursts import CassandraBursts
from notifier.adapters.cassandra.inbox import CassandraInbox
from notifier.adapters.cassandra.migrate import Phase, migrate, pending
from notifier.adapters.cassandra.recent import CassandraRecentBursts
from notifier.adapters.cassandra.seals import CassandraSeals
from notifier.adapters.cassandra.session import Access, Cluster
from notifier.adapters.cassandra.timeline import CassandraTimeline

__all__ = [
    "Access",
    "CassandraArchive",
    "CassandraBursts",
    "CassandraInbox",
    "CassandraRecentBursts",
    "CassandraSeals",
    "CassandraTimeline",
    "Cluster",
    "Phase",
    "migrate",
    "pending",
]
