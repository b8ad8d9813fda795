"""Single values in Redis, each under a key of its own until it expires."""

from datetime import timedelta

from notifier.adapters.redis.calls import Command, ask, discard
from notifier.adapters.redis.keys import unwrap, wrap
from notifier.adapters.redis.node import Client


class Value:
    """A value under one key. Thread-safe. Raises CacheUnavailable."""

    def __init__(self, client: Client, key: str) -> None:
        self._client = client
        self._key = key

    def set(self, value: bytes, lasting: timedelta) -> None:
        # SET replaces whatever the key holds, of any type.
        ask(self._client, [Command("set", self._key, (wrap(self._key, value),), {"px": lasting})])

    def get(self) -> bytes | None:
        """Return the value; None when there is none, or garbage, which is deleted."""
        [held] = ask(self._client, [Command("get", self._key)])
        if held is None:
            return None
        value = unwrap(self._key, held)
        if value is None:
            ask(self._client, [discard(self._key, {"": held})])
        return value
