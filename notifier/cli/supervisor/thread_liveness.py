"""Who of the threads of one process is still there: each signs when a step begins and when it ends."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from notifier.consumer_loop import BACKOFF

STEP_WITHIN = 60.0
"""Seconds: a batch of 200 mentions of 200 accounts takes one, and forty on a disk that needs 50 ms for a sync."""


@dataclass(slots=True, kw_only=True)
class Attendance:
    now: Callable[[], float] = monotonic
    due: dict[str, float] = field(default_factory=dict)
    """By name: when the next sign comes at the latest."""

    def signed(
        self, name: str, step: Callable[[], object], idle: float, within: float = STEP_WITHIN
    ) -> Callable[[], object]:
        """The step, which now signs. One that ends with an outage has ended: who waits for a store is there."""
        rest = max(idle, BACKOFF[-1])
        self.due[name] = self.now() + within

        def signing() -> object:
            self.due[name] = self.now() + within
            try:
                return step()
            finally:
                self.due[name] = self.now() + rest + within

        return signing

    def complete(self) -> bool:
        return all(self.now() < due for due in self.due.values())
