"""Live publisher: sends burst updates to the live bus and buffers them during outages."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.ports.live_bus import LiveBus, MissedUpdates

KEPT = 1_000
"""Buffered updates: a minute of a storm. After more, clients should reload; their connection was lost anyway."""


@dataclass(slots=True, kw_only=True, eq=False)
class Voice:
    """Publishes live updates, one instance for all threads of a process. Each buffer operation is one atomic call.

    Listeners treat a late update like a current one, so connected and reconnected clients handle it alike. An update
    left in doubt by a timeout is sent again; listeners compare the burst's version. The unsent updates of a crashed
    process are unknown, so every process starts with `MissedUpdates`, and sends it again after dropping updates.
    """

    bus: LiveBus
    kept: deque[Burst] = field(default_factory=deque)
    missed: bool = True

    def publish(self, bursts: Sequence[Burst]) -> None:
        """Publish the bursts. Fails open: unsent bursts go out before the next ones, or with `speak`."""
        self.kept.extend(bursts)
        if self.kept:
            self.speak()

    def speak(self) -> None:
        """Send everything buffered. Call this regularly: after an outage there may be no new burst to trigger it."""
        if missed := self.missed:
            self.missed = False  # reset before publishing, so that another thread's loss is never overwritten
        bursts = self._taken()
        if not (missed or bursts):
            return
        try:
            self.bus.publish([*([MissedUpdates()] if missed else []), *bursts])
        except CacheUnavailable:
            self._keep(bursts, missed)
        except BaseException:
            self.missed = True
            raise

    def _taken(self) -> list[Burst]:
        bursts = []
        while True:
            try:
                bursts.append(self.kept.popleft())
            except IndexError:  # another thread may have taken the last one
                return bursts

    def _keep(self, bursts: list[Burst], missed: bool) -> None:
        if len(bursts) + len(self.kept) > KEPT:
            bursts, missed = [], True
        self.kept.extendleft(reversed(bursts))
        self.missed = self.missed or missed
