"""Phones in memory: every alert that arrived, in order."""

from collections.abc import Sequence

from notifier.domain.alert import Alert
from notifier.domain.errors import Unavailable
from notifier.domain.subject import Member


class MemoryPhones:
    def __init__(self) -> None:
        self.arrived: list[tuple[Alert, tuple[Member, ...]]] = []
        self.away = False
        """While it is, nothing is taken."""

    def send(self, alert: Alert, members: Sequence[Member]) -> None:
        if self.away:
            raise Unavailable("alerts: for a test.")
        if members:
            self.arrived.append((alert, tuple(members)))
