"""Valkey server that runs as a supervised child process."""

from notifier.adapters.valkey.server import ValkeyServer, flush_all, valkey_binary

__all__ = ["ValkeyServer", "flush_all", "valkey_binary"]
