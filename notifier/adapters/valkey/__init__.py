"""A Valkey server of our own, started, watched and stopped as a child process."""

from notifier.adapters.valkey.binary import valkey_binary
from notifier.adapters.valkey.server import ValkeyServer, empty

__all__ = ["ValkeyServer", "empty", "valkey_binary"]
