"""Epochs in memory."""

from collections import Counter
from threading import Lock


class MemoryEpochs:
    def __init__(self) -> None:
        self._given: Counter[str] = Counter()
        self._lock = Lock()

    def begin(self, name: str) -> int:
        with self._lock:
            self._given[name] += 1
            return self._given[name] - 1
