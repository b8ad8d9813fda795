"""Live publisher: sends updates to the live bus; buffers them during outages."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.ports.live_bus import LiveBus, MissedUpdates

MAX_BUFFERED_UPDATES = 1_000
"""Maximum number of buffered updates: about as many as a storm of mentions causes in a minute. If an outage leaves
more, updates are dropped, and the clients load their pages again."""


@dataclass(slots=True, kw_only=True, eq=False)
class LivePublisher:
    """Publishes live updates. One instance serves all threads of a process: each operation on the buffer is atomic.

    Updates may arrive late, or twice after a timeout: listeners ignore versions of a burst that are not newer. A
    crashed process may leave updates unsent. So every process first sends a `MissedUpdates` message, and another one
    after it has dropped updates.
    """

    bus: LiveBus
    buffer: deque[Burst] = field(default_factory=deque)
    has_missed_updates: bool = True
    """Whether to send `MissedUpdates` before the next updates."""

    def publish(self, bursts: Sequence[Burst]) -> None:
        """Publish the bursts. Fails open: bursts that can't be sent are buffered."""
        self.buffer.extend(bursts)
        if self.buffer:
            self.flush()

    def flush(self) -> None:
        """Send everything buffered. Call this regularly: after an outage there may be no new burst to trigger it."""
        if missed := self.has_missed_updates:
            # Reset the flag before publishing: another thread may set it meanwhile, and that must not be overwritten.
            self.has_missed_updates = False
        bursts = self._take_all()
        if not (missed or bursts):
            return
        try:
            self.bus.publish([*([MissedUpdates()] if missed else []), *bursts])
        except CacheUnavailable:
            self._restore(bursts, missed)
        except BaseException:
            self.has_missed_updates = True
            raise

    def _take_all(self) -> list[Burst]:
        bursts = []
        while True:
            try:
                bursts.append(self.buffer.popleft())
            except IndexError:
                # Empty. A check before `popleft` would not help: another thread may take the last burst in between.
                return bursts

    def _restore(self, bursts: list[Burst], missed: bool) -> None:
        """Put unsent bursts back to the front of the buffer. Drop them if the buffer would grow too long."""
        if len(bursts) + len(self.buffer) > MAX_BUFFERED_UPDATES:
            bursts, missed = [], True
        self.buffer.extendleft(reversed(bursts))
        self.has_missed_updates = self.has_missed_updates or missed
