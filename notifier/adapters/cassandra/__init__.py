"""Cassandra: the durable store past one machine."""

from notifier.adapters.cassandra.bursts import CassandraBursts
from notifier.adapters.cassandra.migrate import Phase, migrate, pending
from notifier.adapters.cassandra.recent import CassandraRecentBursts
from notifier.adapters.cassandra.session import Access, Cluster

__all__ = ["Access", "CassandraBursts", "CassandraRecentBursts", "Cluster", "Phase", "migrate", "pending"]
