"""Supervisor: keeps the roles running, announces when all are up, and stops them together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event as Signal
from time import monotonic

from notifier.cli.command_groups_and_errors import ENVIRONMENT_EXIT_CODE
from notifier.cli.supervisor.child import Child
from notifier.cli.supervisor.pid_files import PidFiles
from notifier.domain.errors import UnusableEnvironment, Unwritable

CHECK_INTERVAL_SECONDS = 0.05
"""Seconds between two checks. A check is a few system calls."""
STOP_TIMEOUT_SECONDS = 2.5
"""Seconds within which the roles must end once asked to stop. A slower process is killed, which loses nothing."""

MAX_START_FAILURES = 5
"""Number of successive exits of one process after which `up` fails.

A single exit with ENVIRONMENT_EXIT_CODE is enough. An exit after a steady uptime restarts the count at one. Once the
process ids were announced, there is no limit.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervisor:
    """Runs the processes of `up`."""

    children: Sequence[Child]
    pid_files: PidFiles
    is_answering: Callable[[], bool]
    """Returns whether the service answers. Called until it does."""
    announce: Callable[[Mapping[str, int]], None]
    """Called with the process ids once the service is up, and again whenever one has changed."""
    other_pids: Callable[[], Mapping[str, int]]
    """Returns the ids of processes that the supervisor does not manage, by process name."""
    last_log_line: Callable[[str], str]
    """Returns the last log line of a process. It usually says why the process ended."""
    stopping: Signal

    def run(self) -> None:
        """Run the roles until `stopping` is set.

        Raises UnusableEnvironment if a role can't start, and Unwritable if the first announcement fails.
        """
        announced: Mapping[str, int] = {}
        try:
            while not self.stopping.is_set():
                for child in self.children:
                    child.supervise()
                pids = self._pids()
                if pids != announced and self._has_all_processes() and (announced or self._is_all_up()):
                    announced = self._announce_changes(pids, announced)
                if not announced:
                    self._require_startable()
                self.stopping.wait(CHECK_INTERVAL_SECONDS)
        finally:
            self._stop()

    def _announce_changes(self, pids: Mapping[str, int], announced: Mapping[str, int]) -> Mapping[str, int]:
        """Announce the process ids, and return the ids that were announced last.

        Raises Unwritable if the first announcement fails. If a later one fails, as on a full disk, the next check tries
        again.
        """
        try:
            self.announce(pids)
        except Unwritable:
            if not announced:
                raise
            return announced
        return pids

    def _pids(self) -> dict[str, int]:
        return {child.name: child.pid for child in self.children if child.pid is not None} | dict(self.other_pids())

    def _has_all_processes(self) -> bool:
        """Return whether all children have a process. Ids are not announced while a child waits for its restart."""
        return all(child.pid is not None for child in self.children)

    def _is_all_up(self) -> bool:
        awaited = [child for child in self.children if child.is_awaited]
        return all(self.pid_files.is_written(child.name, child.pid) for child in awaited) and self.is_answering()

    def _require_startable(self) -> None:
        """Raise UnusableEnvironment if a role can't start."""
        for child in self.children:
            if ENVIRONMENT_EXIT_CODE in child.exit_codes or len(child.exit_codes) >= MAX_START_FAILURES:
                raise UnusableEnvironment(f"The role {child.name} failed to start: {self.last_log_line(child.name)}")

    def _stop(self) -> None:
        for child in self.children:
            child.ask_to_stop()
        deadline = monotonic() + STOP_TIMEOUT_SECONDS
        for child in self.children:
            child.end(deadline)
