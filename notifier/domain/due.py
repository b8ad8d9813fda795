"""When something is due again that is done every so often."""

from datetime import datetime, timedelta


def due(before: datetime | None, every: timedelta, now: datetime) -> bool:
    """A clock that was set back makes everything due: nothing stands still until it has caught up."""
    return before is None or not before <= now < before + every
