"""The throttles that operators set, durable and audited."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from notifier.domain.delivery.throttle import Throttle


class Throttles(Protocol):
    """Durable. Raises StoreUnavailable, and Full where it writes."""

    def put(self, throttle: Throttle) -> None:
        """Sets it, and writes who did to the audit in the same step."""
        ...

    def lift(self, id: str, who: str, now: datetime) -> Throttle | None:
        """Ends it now; None when there is no such throttle or it has ended."""
        ...

    def since(self, moment: datetime) -> Sequence[Throttle]:
        """Those that are in force or ended after the moment, oldest first."""
        ...
