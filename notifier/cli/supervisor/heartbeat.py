"""Heartbeats: a role touches a file while it makes progress, and `up` watches the file."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from time import monotonic

from notifier.consumer_loop import BACKOFF

HEARTBEAT_INTERVAL = 1.0
"""Seconds between two heartbeats. Touching a file costs some microseconds."""

SILENT_FOR = 60.0
"""Seconds without a heartbeat after which a role counts as hung.

Everything that a role waits for between two heartbeats has a far shorter timeout: a locked file 5 s, a broker 5 s, the
delay between two retries 2 s.
"""

STARTS_WITHIN = 180.0
"""Seconds until the first heartbeat. An idle machine needs one; imports can be slow on a crowded machine."""

CLOCK_GAP = 5.0
"""Seconds between two checks after which the supervisor assumes that it was stopped, or the machine suspended.

There are normally 20 checks a second. The roles could not send heartbeats in that time either.
"""


@dataclass(slots=True, kw_only=True)
class HeartbeatSender:
    """Sends the heartbeats of a role."""

    file: Path
    now: Callable[[], float] = monotonic
    last: float = -inf

    def __call__(self) -> None:
        """Touch the file if a heartbeat is due. Cheap enough for every iteration of a loop.

        Never raises: a full disk is no reason to stop.
        """
        if self.now() >= self.last + HEARTBEAT_INTERVAL:
            self.last = self.now()
            with suppress(OSError):
                self.file.touch()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatLimits:
    """Time limits in seconds."""

    silent_for: float = SILENT_FOR
    starts_within: float = STARTS_WITHIN


@dataclass(slots=True, kw_only=True)
class HeartbeatWatch:
    """Watches the heartbeats of a role for the supervisor.

    It compares only times of its own monotonic clock, so that setting the machine's clock kills no role.
    """

    file: Path
    limits: HeartbeatLimits = field(default_factory=HeartbeatLimits)
    now: Callable[[], float] = monotonic
    touched_at: int = 0
    is_beating: bool = False
    since: float = 0.0
    checked_at: float = 0.0

    def restart(self) -> None:
        """Start watching a new process. Ignores heartbeats of the previous one."""
        self.touched_at, self.is_beating = self._touched_at(), False
        self.since = self.checked_at = self.now()

    def is_hung(self) -> bool:
        """Return whether the role has been silent for longer than its limit.

        Call it continually. After a pause of the supervisor itself, the time limit starts again.
        """
        now, mark = self.now(), self._touched_at()
        if mark != self.touched_at:
            self.touched_at, self.is_beating, self.since = mark, True, now
        elif now > self.checked_at + CLOCK_GAP:
            self.since = now
        self.checked_at = now
        if now < self.since + self.limit:
            return False
        self.since = now
        return self._silence_is_proof()

    @property
    def limit(self) -> float:
        return self.limits.silent_for if self.is_beating else self.limits.starts_within

    def _touched_at(self) -> int:
        try:
            return self.file.stat().st_mtime_ns
        except OSError:
            return 0

    def _silence_is_proof(self) -> bool:
        """Return whether silence proves a hang.

        It doesn't if the supervisor can't touch the file either.
        """
        try:
            self.file.touch()
        except OSError:
            return False
        return True


def single_role_file(data: Path, role: str) -> Path:
    """Return the heartbeat file of a role that runs alone.

    It differs from the file of the role of `up`, whose hang it would otherwise hide.
    """
    return beat_file(data, f"{role}.alone")


def beat_file(data: Path, role: str) -> Path:
    """Return the heartbeat file of a role of `up`."""
    return data / "run" / "heartbeats" / role


# Threads of one process: each reports when a step begins and when it ends.

STEP_WITHIN = 60.0
"""Time limit of a step in seconds.

A batch of 200 mentions of 200 accounts takes 1 s, and 40 s on a disk that needs 50 ms for a sync.
"""


@dataclass(slots=True, kw_only=True)
class ThreadProgress:
    """Tracks whether all threads of a process still make progress."""

    now: Callable[[], float] = monotonic
    due: dict[str, float] = field(default_factory=dict)
    """Deadline of the next report, by name of the thread."""

    def reporting(
        self, name: str, step: Callable[[], object], idle: float, within: float = STEP_WITHIN
    ) -> Callable[[], object]:
        """Return the step wrapped so that it reports its begin and end.

        A step that ends with an error reports its end as well: a thread that waits for a store still works.
        """
        allowed = max(idle, BACKOFF.longest.total_seconds())
        self.due[name] = self.now() + within

        def signing() -> object:
            self.due[name] = self.now() + within
            try:
                return step()
            finally:
                self.due[name] = self.now() + allowed + within

        return signing

    def is_complete(self) -> bool:
        """Return whether every thread has reported in time."""
        return all(self.now() < due for due in self.due.values())
