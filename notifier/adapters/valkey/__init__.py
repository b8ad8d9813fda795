"""Valkey server that runs as a supervised child process."""

from notifier.adapters.valkey.server import ValkeyServer, empty, valkey_binary

__all__ = ["ValkeyServer", "empty", "valkey_binary"]
