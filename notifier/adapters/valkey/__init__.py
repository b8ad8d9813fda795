"""A Valkey server of our own, started, watched and stopped as a child process."""

from notifier.adapters.valkey.server import ValkeyServer, empty, valkey_binary

__all__ = ["ValkeyServer", "empty", "valkey_binary"]
