"""Cassandra, one node or three, on the loopback."""

from notifier.devkit.engines.cassandra import Sync, node, nodes

__all__ = ["Sync", "node", "nodes"]
