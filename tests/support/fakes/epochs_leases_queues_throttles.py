"""In-memory epochs, leases, task queues and throttles."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Lock

from notifier.domain.delivery.slice_and_pool import Pool, Slice
from notifier.domain.delivery.throttle_and_backpressure import Throttle


class MemoryEpochs:
    def __init__(self) -> None:
        self._next: Counter[str] = Counter()
        self._lock = Lock()

    def begin(self, name: str) -> int:
        with self._lock:
            self._next[name] += 1
            return self._next[name] - 1


# Leader leases.


class MemoryLeases:
    def __init__(self) -> None:
        self._leases: dict[str, tuple[str, datetime]] = {}

    def acquire(self, name: str, owner: str, now: datetime, term: timedelta) -> bool:
        holder, until = self._leases.get(name, (owner, now))
        if holder != owner and until > now:
            return False
        self._leases[name] = owner, now + term
        return True


# Task queues as plain lists, which the simulator may truncate, duplicate and shuffle.


@dataclass(slots=True)
class MemoryQueue:
    waiting: dict[Pool, list[Slice]] = field(default_factory=lambda: {pool: [] for pool in Pool})
    """Oldest first."""

    def wipe(self) -> None:
        for slices in self.waiting.values():
            slices.clear()

    def enqueue(self, slices: Sequence[Slice]) -> None:
        for slice_ in slices:
            self.waiting[slice_.pool].append(slice_)

    def depth(self, pool: Pool) -> int:
        return len(self.waiting[pool])

    def take(self, pool: Pool) -> Slice | None:
        """Take the next task as a worker does; None if the queue is empty."""
        waiting = self.waiting[pool]
        place = next((place for place, slice_ in enumerate(waiting) if slice_.has_priority), 0)
        return waiting.pop(place) if waiting else None


# Throttles, with a list as audit log.


class MemoryThrottles:
    def __init__(self) -> None:
        self._throttles: dict[str, Throttle] = {}
        self.audit: list[tuple[str, str, Throttle]] = []
        """Operator, action and throttle."""

    def put(self, throttle: Throttle) -> None:
        self._throttles[throttle.id] = throttle
        self.audit.append((throttle.operator, "throttle.put", throttle))

    def lift(self, id: str, operator: str, now: datetime) -> Throttle | None:
        throttle = self._throttles.get(id)
        if throttle is None or throttle.ends_at <= now:
            return None
        lifted = self._throttles[id] = replace(throttle, ends_at=now)
        self.audit.append((operator, "throttle.lift", lifted))
        return lifted

    def ending_after(self, moment: datetime) -> Sequence[Throttle]:
        active = [throttle for throttle in self._throttles.values() if throttle.ends_at > moment]
        return sorted(active, key=lambda throttle: (throttle.starts_at, throttle.id))
