"""The sleepers in memory."""

from collections.abc import Sequence
from datetime import datetime

from notifier.domain.delivery.backlog import Sleeper
from notifier.domain.ids import BurstKey
from notifier.testing.memory.ledger import MemoryLedger


class MemorySleepers:
    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def lay(self, sleepers: Sequence[Sleeper], now: datetime) -> None:
        asleep = self._ledger.asleep
        for one in sleepers:
            asleep[one.burst] = min(one, asleep.get(one.burst, one), key=lambda each: each.until)
        self._ledger.close([one.burst for one in sleepers])

    def wake(self, now: datetime, most: int) -> Sequence[BurstKey]:
        asleep = self._ledger.asleep
        due = sorted((one.until, key) for key, one in asleep.items() if one.until <= now)
        keys = [key for _, key in due[:most]]
        for key in keys:
            self._ledger.reopen(key)
            del asleep[key]
        return keys

    def count(self) -> int:
        return len(self._ledger.asleep)
