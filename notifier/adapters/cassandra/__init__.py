"""Cassandra: the durable store past one machine."""

from notifier.adapters.cassandra.bursts import CassandraBursts
from notifier.adapters.cassandra.directory import CassandraDirectory
from notifier.adapters.cassandra.migrate import Phase, migrate, pending
from notifier.adapters.cassandra.people import CassandraPeople
from notifier.adapters.cassandra.reader import Reader
from notifier.adapters.cassandra.recent import CassandraRecentBursts
from notifier.adapters.cassandra.session import Access, Cluster
from notifier.adapters.cassandra.sets import CassandraMemberSets
from notifier.adapters.cassandra.spared import CassandraSpared

__all__ = [
    "Access",
    "CassandraBursts",
    "CassandraDirectory",
    "CassandraMemberSets",
    "CassandraPeople",
    "CassandraRecentBursts",
    "CassandraSpared",
    "Cluster",
    "Phase",
    "Reader",
    "migrate",
    "pending",
]
