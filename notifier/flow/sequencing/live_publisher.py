"""The voice: what a process has to say on the live bus, kept until it could be said; lost with the process alone."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.ports.live_bus import LiveBus, MissedUpdates

KEPT = 1_000
"""Words: a minute of a storm. After more, those who listen had better load their pages; they lost their line anyway."""


@dataclass(slots=True, kw_only=True, eq=False)
class Voice:
    """One for all threads of a process: every step on what waits is a single call of it.

    The hub hears a late word as if it were said then: who was away meanwhile, and who is there, gets it alike. A word
    that a time-out left in doubt is said again, and the version of its burst tells. What a dead process still had to
    say nobody knows, so its successor begins with `Missed`, and so does whoever had to drop something.
    """

    bus: LiveBus
    kept: deque[Burst] = field(default_factory=deque)
    missed: bool = True

    def publish(self, bursts: Sequence[Burst]) -> None:
        """Fails open: what can't be said now is said before whatever comes next, or by `speak`."""
        self.kept.extend(bursts)
        if self.kept:
            self.speak()

    def speak(self) -> None:
        """All that waits. To be called every now and then: after a silence nobody may have anything new to say."""
        if missed := self.missed:
            self.missed = False  # only by who says it: another thread's word of a loss is never overwritten
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
        found = []
        while True:
            try:
                found.append(self.kept.popleft())
            except IndexError:  # another thread may have taken the last
                return found

    def _keep(self, bursts: list[Burst], missed: bool) -> None:
        if len(bursts) + len(self.kept) > KEPT:
            bursts, missed = [], True
        self.kept.extendleft(reversed(bursts))
        self.missed = self.missed or missed
