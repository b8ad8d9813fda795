"""Heartbeats: a role touches a file while it makes progress, and `up` watches the file."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from time import monotonic

from notifier.consumer_loop import BACKOFF

HEARTBEAT_INTERVAL_SECONDS = 1.0
"""Seconds between two heartbeats. Touching a file costs some microseconds."""

MAX_SILENCE_SECONDS = 60.0
"""Seconds without a heartbeat after which a role counts as hung.

Waits between two heartbeats have far shorter timeouts: 5 s for a locked file or a call to Cassandra, 2 s for the delay
between two retries.
"""

START_TIMEOUT_SECONDS = 180.0
"""Time limit of a role's first heartbeat. An idle machine needs one second; imports can be slow on a crowded one."""

MAX_CHECK_GAP_SECONDS = 5.0
"""Seconds without a check after which the supervisor assumes that it was stopped, or the machine suspended.

The time limit then starts again, because the roles may have been stopped too. Normally there are 20 checks a second.
"""


@dataclass(slots=True, kw_only=True)
class HeartbeatSender:
    """Sends the heartbeats of a role."""

    file: Path
    now: Callable[[], float] = monotonic
    last_sent_at: float = -inf

    def __call__(self) -> None:
        """Touch the file if a heartbeat is due. Ignores OSError, so that a full disk does not stop the role."""
        if self.now() >= self.last_sent_at + HEARTBEAT_INTERVAL_SECONDS:
            self.last_sent_at = self.now()
            with suppress(OSError):
                self.file.touch()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatLimits:
    """Time limits in seconds."""

    max_silence: float = MAX_SILENCE_SECONDS
    start_timeout: float = START_TIMEOUT_SECONDS


@dataclass(slots=True, kw_only=True)
class HeartbeatWatch:
    """Watches the heartbeats of a role for the supervisor.

    File times are only tested for a change, and silence is measured on a monotonic clock. A change of the machine's
    clock therefore kills no role.
    """

    file: Path
    limits: HeartbeatLimits = field(default_factory=HeartbeatLimits)
    now: Callable[[], float] = monotonic
    file_time_ns: int = 0
    """Modification time of the file at the last check."""
    has_beaten: bool = False
    """Whether the current process has sent a heartbeat."""
    silent_since: float = 0.0
    """Time of the last change of the file, or of the last restart of the time limit."""
    checked_at: float = 0.0

    def restart(self) -> None:
        """Start watching a new process. Ignores heartbeats of the previous one."""
        self.file_time_ns, self.has_beaten = self._file_time_ns(), False
        self.silent_since = self.checked_at = self.now()

    def poll_hung(self) -> bool:
        """Check the file. Return whether the role hangs.

        Call it several times a second: after a gap of MAX_CHECK_GAP_SECONDS, the time limit restarts.
        """
        now, file_time_ns = self.now(), self._file_time_ns()
        if file_time_ns != self.file_time_ns:
            self.file_time_ns, self.has_beaten, self.silent_since = file_time_ns, True, now
        elif now > self.checked_at + MAX_CHECK_GAP_SECONDS:
            self.silent_since = now
        self.checked_at = now
        if now < self.silent_since + self.limit:
            return False
        self.silent_since = now
        return self._proves_hang()

    @property
    def limit(self) -> float:
        return self.limits.max_silence if self.has_beaten else self.limits.start_timeout

    def _file_time_ns(self) -> int:
        try:
            return self.file.stat().st_mtime_ns
        except OSError:
            return 0

    def _proves_hang(self) -> bool:
        """Return False if the supervisor can't touch the file either: then silence is no proof of a hang."""
        try:
            self.file.touch()
        except OSError:
            return False
        return True


def standalone_heartbeat_file(data: Path, process_name: str) -> Path:
    """Return the heartbeat file of a process that was started without `notifier up`.

    `up` watches another file for its own process of this name. A shared file would hide a hang of that process.
    """
    return heartbeat_file(data, f"{process_name}.alone")


def heartbeat_file(data: Path, process_name: str) -> Path:
    return data / "run" / "heartbeats" / process_name


# Threads of one process: each reports when a step begins and when it ends.

STEP_TIMEOUT_SECONDS = 60.0
"""Time limit of a step in seconds.

A batch of 200 mentions of 200 accounts takes 1 s, and 40 s on a disk that needs 50 ms for a sync.
"""


@dataclass(slots=True, kw_only=True)
class ThreadProgress:
    """Tracks whether all threads of a process still make progress."""

    now: Callable[[], float] = monotonic
    deadlines: dict[str, float] = field(default_factory=dict)
    """Deadline of the next report, by name of the thread."""

    def tracked(
        self, name: str, step: Callable[[], object], idle: float, timeout: float = STEP_TIMEOUT_SECONDS
    ) -> Callable[[], object]:
        """Return a function that runs the step, and reports before and after it.

        A step that raises also reports, because retries during an outage are no hang. `idle` and `timeout` are in
        seconds.
        """
        max_pause = max(idle, BACKOFF.longest.total_seconds())
        self.deadlines[name] = self.now() + timeout

        def tracked_step() -> object:
            self.deadlines[name] = self.now() + timeout
            try:
                return step()
            finally:
                self.deadlines[name] = self.now() + max_pause + timeout

        return tracked_step

    def all_on_time(self) -> bool:
        return all(self.now() < deadline for deadline in self.deadlines.values())
