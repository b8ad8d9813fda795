"""Lapses: facts of viewers that changed while the caches of the read path could not be told."""

from typing import Protocol


class ViewerLapses(Protocol):
    """The synchronous side of `BurstChanges.lapse`, for the write path."""

    def record(self) -> None:
        """Every follower of the feed hears of the lapse with its next call of `after`.

        Durable when it returns; idempotent. Raises StoreUnavailable or Full: then it may be recorded or not.
        """
        ...
