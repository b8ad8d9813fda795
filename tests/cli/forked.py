"""A process of `notifier` that starts at once: a fork of a server that has made the imports, like a role of `up`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from notifier.cli.supervisor.forkserver_client import ForkedRole, ForkServer
from tests.cli.running import until

STARTS_WITHIN = 50.0
"""Seconds, on a machine that is busy with other tests; an idle one needs one."""


@contextmanager
def server(folder: Path, profile: str = "embedded") -> Iterator[ForkServer]:
    """Shared by several tests. Starts again after a test ended it."""
    started = ForkServer(profile=profile, log=folder / "forkserver.log")
    try:
        yield started
    finally:
        started.end()


def forked(forks: ForkServer, log: Path, *words: str, **environment: str) -> ForkedRole:
    """Return a process whose output is added to the log."""
    until(lambda: not forks.pending(), STARTS_WITHIN)
    with log.open("ab") as out:
        role = forks.fork(words, environment, out)
    assert role, (forks.log.read_text(), log.read_text())
    return role
