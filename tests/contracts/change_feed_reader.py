"""A reader of the change feed of bursts."""

from asyncio import run

from notifier.domain.bursts.burst import Burst
from notifier.ports.inbox_cache_freshness import BurstChanges, FeedPosition


class FeedReader:
    """Reads the feed from its current end, as a cache does."""

    def __init__(self, changes: BurstChanges) -> None:
        self._changes = changes
        self.position: FeedPosition = run(changes.begin())
        self.lapse_count = 0

    def read(self) -> list[Burst]:
        answer = run(self._changes.after(self.position))
        assert answer is not None
        self.position = answer.position
        self.lapse_count += answer.has_viewer_lapse
        return list(answer.bursts)
