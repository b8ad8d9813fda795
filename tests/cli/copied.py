"""A process of `notifier` that begins in a moment: a copy of a template, as the roles of `notifier up` are."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from notifier.cli.supervisor.forkserver_client import Copies, Copy
from tests.cli.running import until

BEGINS_WITHIN = 50.0
"""Seconds, on a machine that is busy with other tests; an idle one needs one."""


@contextmanager
def template(folder: Path, profile: str = "embedded") -> Iterator[Copies]:
    """For several tests, and another after one ended it."""
    made = Copies(profile=profile, log=folder / "template.log")
    try:
        yield made
    finally:
        made.end()


def copied(copies: Copies, log: Path, *words: str, **environment: str) -> Copy:
    """What it says is added to the log."""
    until(lambda: not copies.pending(), BEGINS_WITHIN)
    with log.open("ab") as out:
        copy = copies.copy(words, environment, out)
    assert copy, (copies.log.read_text(), log.read_text())
    return copy
