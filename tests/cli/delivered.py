"""One event taken through every stage in this process, without any server: a folder with something to look at."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from notifier import topics
from notifier.cli.commands.events import mention_event as event
from notifier.config import Settings
from notifier.consumer_loop import pump
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.delivery.slice import Slice
from notifier.metrics import Metrics
from notifier.profiles import choose
from notifier.wiring.delivery import build_slice_worker
from notifier.wiring.system import System, build_system
from tests.support.example_event import accept


def deliver(folder: Path, *mentioned: str, of: Callable[[Slice], bool] = lambda _: True) -> None:
    """A mention by `ada`; only the slices asked for are worked on."""
    with _system(folder) as system:
        now = system.ports.clock.now()
        accept(system, event("e1", "ada", mentioned, text="hi", protected=False, now=now))
        _sequence(system)
        work = build_slice_worker(system)
        for piece in _slices(list(system.ports.archive.accounts())):
            if of(piece):
                work(piece)


def sequence(folder: Path) -> None:
    """Whatever waits in the log is read."""
    with _system(folder) as system:
        _sequence(system)


@contextmanager
def _system(folder: Path) -> Iterator[System]:
    settings = Settings(data=folder, threshold=1_000)
    profile = choose(settings)
    try:
        yield build_system(ports=profile.ports(), settings=settings, metrics=Metrics(), owner="test")
    finally:
        profile.close()


def _slices(accounts: Sequence[BurstProgress]) -> list[Slice]:
    return [piece for account in accounts for piece in account.standings]


def _sequence(system: System) -> None:
    for stream in topics.PARTITIONS:
        reading = pump(system, stream)
        while reading.step(timedelta(milliseconds=20)):
            pass
        reading.consumer.close()
