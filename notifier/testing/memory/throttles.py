"""The throttles in memory, with an audit that is a list."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from notifier.domain.delivery.throttle import Throttle


class MemoryThrottles:
    def __init__(self) -> None:
        self._throttles: dict[str, Throttle] = {}
        self.audit: list[tuple[str, str, Throttle]] = []
        """Who did what."""

    def put(self, throttle: Throttle) -> None:
        self._throttles[throttle.id] = throttle
        self.audit.append((throttle.who, "throttle.put", throttle))

    def lift(self, id: str, who: str, now: datetime) -> Throttle | None:
        throttle = self._throttles.get(id)
        if throttle is None or throttle.ends_at <= now:
            return None
        lifted = self._throttles[id] = replace(throttle, ends_at=now)
        self.audit.append((who, "throttle.lift", lifted))
        return lifted

    def since(self, moment: datetime) -> Sequence[Throttle]:
        found = [throttle for throttle in self._throttles.values() if throttle.ends_at > moment]
        return sorted(found, key=lambda throttle: (throttle.starts_at, throttle.id))
