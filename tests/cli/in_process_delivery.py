"""Take one event through every stage in this process, without a server."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from notifier import topics
from notifier.cli.commands.send_events import mention_event as event
from notifier.config import Settings
from notifier.consumer_loop import build_stream_processor
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.delivery.slice_and_pool import Slice
from notifier.metrics import Metrics
from notifier.profiles import choose
from notifier.wiring.delivery import build_slice_worker
from notifier.wiring.shared_parts import System, build_system
from tests.support.example_event_and_acceptance import accept


def deliver_mention(folder: Path, *mentioned: str, only: Callable[[Slice], bool] = lambda _: True) -> None:
    """Deliver a mention by `ada`. Only the slices that `only` accepts are processed."""
    with _system(folder) as system:
        now = system.ports.clock.now()
        accept(system, event("e1", "ada", mentioned, text="hi", protected=False, now=now))
        _sequence(system)
        work = build_slice_worker(system)
        for slice_ in _slices(list(system.ports.store_scan.burst_progress())):
            if only(slice_):
                work(slice_)


def sequence(folder: Path) -> None:
    """Process everything that is waiting in the log."""
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


def _slices(bursts: Sequence[BurstProgress]) -> list[Slice]:
    return [slice_ for burst in bursts for slice_ in burst.slice_states]


def _sequence(system: System) -> None:
    for stream in topics.PARTITION_COUNTS:
        consumer_loop = build_stream_processor(system, stream)
        while consumer_loop.step(timedelta(milliseconds=20)):
            pass
        consumer_loop.consumer.close()
