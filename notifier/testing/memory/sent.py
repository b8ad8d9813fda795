"""What was sent to phones, in memory."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from notifier.domain.ids import BurstKey, Platform
from notifier.domain.push.send_log import Sending, Window


class MemorySent:
    def __init__(self) -> None:
        self.windows: dict[Sending, dict[int, Window]] = defaultdict(dict)
        """By their numbers."""

    def read(self, burst: BurstKey, platform: Platform, shards: Collection[int]) -> Mapping[Sending, Sequence[Window]]:
        wanted = set(shards)
        return {
            sending: [windows[n] for n in sorted(windows)]
            for sending, windows in self.windows.items()
            if (sending.burst, sending.platform) == (burst, platform) and sending.shard in wanted and windows
        }

    def intend(self, windows: Sequence[tuple[Sending, Window]]) -> Sequence[bool]:
        return [self._intend(sending, window) for sending, window in windows]

    def close(self, windows: Sequence[tuple[Sending, Window]]) -> None:
        for sending, window in windows:
            if (intended := self.windows[sending].get(window.n)) is not None:
                self.windows[sending][window.n] = replace(intended, missed=window.missed)

    def _intend(self, sending: Sending, window: Window) -> bool:
        if window.n in self.windows[sending]:
            return False
        self.windows[sending][window.n] = replace(window, missed=None)
        return True
