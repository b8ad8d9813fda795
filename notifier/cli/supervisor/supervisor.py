"""The supervisor: keeps the roles running, says where they are once all are up, and stops them together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event as Signal
from time import monotonic

from notifier.cli.group import ENVIRONMENT
from notifier.cli.supervisor.child import Child
from notifier.cli.supervisor.pid_files import Roster
from notifier.domain.errors import Environment, Unwritable

LOOKS_EVERY = 0.05
"""Seconds; a look is a few system calls."""
STOPS_WITHIN = 2.5
"""Seconds; who takes longer is killed, which loses nothing."""

FIRST_TRIES = 5
"""A role that dies so often before everything was up once will not come up by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervisor:
    children: Sequence[Child]
    roster: Roster
    answers: Callable[[], bool]
    """Whether the service can be used by now; asked until it is."""
    announce: Callable[[Mapping[str, int]], None]
    """Called once everything is up, and again whenever a process id has changed."""
    others: Callable[[], Mapping[str, int]]
    """Process ids of what is kept running by somebody else."""
    last_words: Callable[[str], str]
    """Of a role: why it ended, as far as it said so."""
    stopping: Signal

    def run(self) -> None:
        """Until it is told to stop. Raises Environment when a role can't be run here at all."""
        announced: Mapping[str, int] = {}
        try:
            while not self.stopping.is_set():
                for child in self.children:
                    child.tend()
                pids = self._pids()
                if pids != announced and self._complete() and (announced or self._all_up()):
                    announced = self._told(pids, announced)
                if not announced:
                    self._give_up()
                self.stopping.wait(LOOKS_EVERY)
        finally:
            self._stop()

    def _told(self, pids: Mapping[str, int], announced: Mapping[str, int]) -> Mapping[str, int]:
        """What is announced now: while a full disk takes no news, everything runs on, and the next look tries again."""
        try:
            self.announce(pids)
        except Unwritable:
            if not announced:
                raise
            return announced
        return pids

    def _pids(self) -> dict[str, int]:
        return {child.role: child.pid for child in self.children if child.pid is not None} | dict(self.others())

    def _complete(self) -> bool:
        """Nobody is told of a role without a process: what was announced stands until its successor is there."""
        return all(child.pid is not None for child in self.children)

    def _all_up(self) -> bool:
        awaited = [child for child in self.children if child.awaited]
        return all(self.roster.signed(child.role, child.pid) for child in awaited) and self.answers()

    def _give_up(self) -> None:
        """Before the first success; later, whatever goes wrong is tried again for ever."""
        for child in self.children:
            if ENVIRONMENT in child.exits or len(child.exits) >= FIRST_TRIES:
                raise Environment(f"The role {child.role} doesn't start: {self.last_words(child.role)}")

    def _stop(self) -> None:
        for child in self.children:
            child.ask_to_stop()
        deadline = monotonic() + STOPS_WITHIN
        for child in self.children:
            child.end(deadline)
