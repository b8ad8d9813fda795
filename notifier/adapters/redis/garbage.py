"""Garbage in Redis is counted by kind of key, so that an operator learns that something else writes there."""

from prometheus_client import Counter

from notifier.adapters.redis.keys import Kind


class GarbageCount:
    def __init__(self, counter: Counter | None = None) -> None:
        """Without a counter nothing is counted: nobody reads the metrics of a command that looks at a system once."""
        self._counter = counter

    def add(self, kind: Kind, times: int = 1) -> None:
        if self._counter is not None and times:
            self._counter.labels(kind).inc(times)
