"""Live publisher: sends burst updates to the live bus and buffers them during outages."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.ports.live_bus import LiveBus, MissedUpdates

MAX_BUFFERED = 1_000
"""Buffered updates: a minute of a storm. After more, clients should reload; their connection was lost anyway."""


@dataclass(slots=True, kw_only=True, eq=False)
class LivePublisher:
    """Publishes live updates, one instance for all threads of a process. Each buffer operation is one atomic call.

    Listeners treat a late update like a current one, so connected and reconnected clients handle it alike. An update
    left in doubt by a timeout is sent again; listeners compare the burst's version. The unsent updates of a crashed
    process are unknown, so every process starts with `MissedUpdates`, and sends it again after dropping updates.
    """

    bus: LiveBus
    buffer: deque[Burst] = field(default_factory=deque)
    has_missed: bool = True

    def publish(self, bursts: Sequence[Burst]) -> None:
        """Publish the bursts. Fails open: unsent bursts go out before the next ones, or with `speak`."""
        self.buffer.extend(bursts)
        if self.buffer:
            self.flush()

    def flush(self) -> None:
        """Send everything buffered. Call this regularly: after an outage there may be no new burst to trigger it."""
        if missed := self.has_missed:
            self.has_missed = False  # reset before publishing, so that another thread's loss is never overwritten
        bursts = self._drain()
        if not (missed or bursts):
            return
        try:
            self.bus.publish([*([MissedUpdates()] if missed else []), *bursts])
        except CacheUnavailable:
            self._restore(bursts, missed)
        except BaseException:
            self.has_missed = True
            raise

    def _drain(self) -> list[Burst]:
        bursts = []
        while True:
            try:
                bursts.append(self.buffer.popleft())
            except IndexError:  # another thread may have taken the last one
                return bursts

    def _restore(self, bursts: list[Burst], missed: bool) -> None:
        if len(bursts) + len(self.buffer) > MAX_BUFFERED:
            bursts, missed = [], True
        self.buffer.extendleft(reversed(bursts))
        self.has_missed = self.has_missed or missed
