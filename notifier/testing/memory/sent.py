"""What was sent to phones, in memory."""

from notifier.ports.push import Sending


class MemorySent:
    def __init__(self) -> None:
        self.windows: dict[Sending, int | None] = {}
        """How many were sent; None in flight."""

    def intend(self, sending: Sending) -> bool:
        return self.windows.setdefault(sending, None) is None

    def outcome(self, sending: Sending, sent: int) -> None:
        if self.windows.get(sending) is None:
            self.windows[sending] = sent
