"""Cassandra: the durable store past one machine."""

from notifier.adapters.cassandra.migrate import Phase, migrate, pending
from notifier.adapters.cassandra.session import Access, Cluster

__all__ = ["Access", "Cluster", "Phase", "migrate", "pending"]
