"""A follower of the change feed of bursts."""

from asyncio import run

from notifier.domain.bursts.burst import Burst
from notifier.ports.inbox_versions import BurstChanges, FeedPosition


class Follower:
    """Reads the feed from its current end, as a cache does."""

    def __init__(self, changes: BurstChanges) -> None:
        self._changes = changes
        self.position: FeedPosition = run(changes.begin())
        self.lapses = 0

    def read(self) -> list[Burst]:
        answer = run(self._changes.after(self.position))
        assert answer is not None
        self.position = answer.position
        self.lapses += answer.has_viewer_lapse
        return list(answer.bursts)
