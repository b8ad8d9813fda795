"""The sleeper: a burst of which nothing is to be done before a moment, because its last people sleep."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.domain.subject import BurstKey

FAR = timedelta(minutes=1)
"""What goes on sooner stays at hand: to lay it down and fetch it again is as much work as to hold it for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleeper:
    burst: BurstKey
    opened_at: datetime
    until: datetime
    """The first moment at which there is something to do."""
