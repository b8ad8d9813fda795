"""A fork server for tests, and `notifier` processes that are forked from it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from notifier.cli.supervisor.forkserver_client import ForkedRole, ForkServer
from tests.cli.running_service import until

STARTS_WITHIN = 50.0
"""Seconds, on a machine that is busy with other tests; an idle machine needs one second."""


@contextmanager
def fork_server(folder: Path, profile: str = "embedded") -> Iterator[ForkServer]:
    """Yield a fork server for several tests. It restarts if a test ends it."""
    started = ForkServer(profile=profile, log=folder / "forkserver.log")
    try:
        yield started
    finally:
        started.end()


def fork_role(forks: ForkServer, log: Path, *arguments: str, **environment: str) -> ForkedRole:
    """Return a process whose output is appended to the log."""
    until(lambda: not forks.poll_starting(), STARTS_WITHIN)
    with log.open("ab") as out:
        role = forks.fork(arguments, environment, out)
    assert role, (forks.log.read_text(), log.read_text())
    return role
