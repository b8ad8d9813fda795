"""Signs of life: a role touches a file while it really works, and whoever watches the file knows when it hangs."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from time import monotonic

from notifier.consumer_loop import BACKOFF

BEATS_EVERY = 1.0
"""Seconds; a touch costs some microseconds."""

SILENT_FOR = 60.0
"""Seconds. Everything that a role may wait for between two beats gives up far earlier: a locked file after 5, a broker
after 5, a step between two retries after 2; so who is silent for so long waits for something that will never come."""

STARTS_WITHIN = 180.0
"""Seconds until the first beat: an idle machine needs one, a crowded one may be long at importing."""

AWAY_FOR = 5.0
"""Seconds between two looks, of which there are 20 a second: then the watcher itself was stopped, or the machine slept,
and the watched had no more time to beat than that."""


@dataclass(slots=True, kw_only=True)
class Beat:
    """A role's side."""

    file: Path
    now: Callable[[], float] = monotonic
    last: float = -inf

    def __call__(self) -> None:
        """Cheap enough for every turn of a loop. Never raises: a disk that takes nothing is no reason to stop."""
        if self.now() >= self.last + BEATS_EVERY:
            self.last = self.now()
            with suppress(OSError):
                self.file.touch()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatLimits:
    silent_for: float = SILENT_FOR
    starts_within: float = STARTS_WITHIN


@dataclass(slots=True, kw_only=True)
class Pulse:
    """The watcher's side. Times are its own clock's alone, so that nobody who sets the machine's clock kills a role."""

    file: Path
    patience: HeartbeatLimits = field(default_factory=HeartbeatLimits)
    now: Callable[[], float] = monotonic
    mark: int = 0
    heard: bool = False
    since: float = 0.0
    looked_at: float = 0.0

    def begin(self) -> None:
        """A new process: what the one before it left is no sign of this one."""
        self.mark, self.heard = self._mark(), False
        self.since = self.looked_at = self.now()

    def hangs(self) -> bool:
        """To be asked all the time: a watcher that couldn't ask begins counting anew."""
        now, mark = self.now(), self._mark()
        if mark != self.mark:
            self.mark, self.heard, self.since = mark, True, now
        elif now > self.looked_at + AWAY_FOR:
            self.since = now
        self.looked_at = now
        if now < self.since + self.limit:
            return False
        self.since = now
        return self._proves()

    @property
    def limit(self) -> float:
        return self.patience.silent_for if self.heard else self.patience.starts_within

    def _mark(self) -> int:
        try:
            return self.file.stat().st_mtime_ns
        except OSError:
            return 0

    def _proves(self) -> bool:
        """Where the watcher can't touch the file either, silence says nothing of the role."""
        try:
            self.file.touch()
        except OSError:
            return False
        return True


def alone(data: Path, role: str) -> Path:
    """Of a role that was started by itself: its beats would hide that the one of `up` hangs."""
    return beat_file(data, f"{role}.alone")


def beat_file(data: Path, role: str) -> Path:
    return data / "run" / "beats" / role


# Who of the threads of one process is still there: each signs when a step begins and when it ends.

STEP_WITHIN = 60.0
"""Seconds: a batch of 200 mentions of 200 accounts takes one, and forty on a disk that needs 50 ms for a sync."""


@dataclass(slots=True, kw_only=True)
class Attendance:
    now: Callable[[], float] = monotonic
    due: dict[str, float] = field(default_factory=dict)
    """By name: when the next sign comes at the latest."""

    def signed(
        self, name: str, step: Callable[[], object], idle: float, within: float = STEP_WITHIN
    ) -> Callable[[], object]:
        """The step, which now signs. One that ends with an outage has ended: who waits for a store is there."""
        rest = max(idle, BACKOFF.longest.total_seconds())
        self.due[name] = self.now() + within

        def signing() -> object:
            self.due[name] = self.now() + within
            try:
                return step()
            finally:
                self.due[name] = self.now() + rest + within

        return signing

    def complete(self) -> bool:
        return all(self.now() < due for due in self.due.values())
