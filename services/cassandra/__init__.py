"""Cassandra, one node or three, on the loopback."""

from services.cassandra.node import Sync, node, nodes

__all__ = ["Sync", "node", "nodes"]
