"""The help of who keeps the bitmaps: a verb that left work takes part in it until that is done, whoever else runs."""

import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta

from notifier import topics
from notifier.cli.context import owner
from notifier.cli.http import Patience
from notifier.config import Settings
from notifier.consumer_loop import Pump, pump
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports
from notifier.ports.event_log import EventLog, Logged
from notifier.wiring.system import build_system

TURN = timedelta(seconds=0.25)


@dataclass(slots=True)
class Waiting:
    """What the stream's readers hadn't done when this was made."""

    log: EventLog
    stream: str
    count: int = 0
    _ends: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for record in self._records():
            self._ends[record.partition] = record.offset
            self.count += 1

    def left(self) -> bool:
        """What came since is somebody else's."""
        return any(map(self._mine, self._records()))

    def _records(self) -> Iterable[Logged]:
        return self.log.waiting(self.stream, topics.GROUPS[self.stream], sys.maxsize)

    def _mine(self, record: Logged) -> bool:
        return record.offset <= self._ends.get(record.partition, -1)


def index(
    ports: Ports, settings: Settings, waiting: Waiting, patience: Patience, advance: Callable[[int], object]
) -> None:
    system = build_system(ports=ports, settings=settings, metrics=Metrics(), owner=owner("import", ports.nonces.new()))
    helper = pump(system, waiting.stream)
    with closing(helper.consumer):
        while waiting.left():
            patience(lambda: _step(helper, advance))


def _step(helper: Pump, advance: Callable[[int], object]) -> None:
    advance(helper.step(TURN))
