"""The time by which an answer must have come; once it has, nothing keeps it any more.

The driver's own timer holds its question until the time is over, and the question its answer: seconds of bitmaps, in
a ring that only the garbage collector breaks.
"""

from collections.abc import Callable
from typing import Any

from cassandra.cluster import Cluster as Driver


class Deadline:
    """What a question holds of its timer."""

    def __init__(self, passed: Callable[[], object]) -> None:
        self.timer: Any = None
        self._passed: Callable[[], object] | None = passed

    def __call__(self) -> None:
        if (passed := self._passed) is not None:
            passed()

    def cancel(self) -> None:
        timer, self.timer, self._passed = self.timer, None, None
        if timer is not None:
            timer.cancel()


class Connection(Driver.connection_class):  # type: ignore[misc]  # the driver ships no types, and chooses its event loop
    @classmethod
    def create_timer(cls, timeout: float, callback: Callable[[], object]) -> Deadline:
        deadline = Deadline(callback)
        deadline.timer = super().create_timer(timeout, deadline)
        return deadline
