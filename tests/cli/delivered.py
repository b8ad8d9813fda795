"""One event taken through every stage in this process, without any server: a folder with something to look at."""

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

from notifier import topics
from notifier.cli.mention import event
from notifier.config import Settings
from notifier.domain.ledger import Account
from notifier.domain.slice import Slice
from notifier.ports.log import Logged
from notifier.profiles import choose
from notifier.pump import Pump
from notifier.system import System
from notifier.telemetry import Metrics


def deliver(folder: Path, *mentioned: str, of: Callable[[Slice], bool] = lambda _: True) -> None:
    """A mention by `ada`; only the slices asked for are worked on."""
    settings = Settings(data=folder, threshold=1_000)
    profile = choose(settings)
    try:
        system = System(ports=profile.ports(), settings=settings, metrics=Metrics(), owner="test")
        now = system.ports.clock.now()
        system.gateway()(json.dumps(event("e1", "ada", mentioned, text="hi", protected=False, now=now)).encode())
        _pumped(system, topics.MENTIONS, system.router())
        _pumped(system, topics.MENTIONS_CELEBRITY, system.coordinator())
        _pumped(system, topics.MENTIONS_STANDARD, system.coordinator())
        work = system.work()
        for piece in _slices(list(system.ports.archive.accounts())):
            if of(piece):
                work(piece)
    finally:
        profile.close()


def _slices(accounts: Sequence[Account]) -> list[Slice]:
    return [piece for account in accounts for piece in account.standings]


def _pumped(system: System, stream: str, stage: Callable[[Sequence[Logged]], None]) -> None:
    ports = system.ports
    consumer = ports.log.subscribe(stream, "test", "test")
    pump = Pump(
        name="test",
        consumer=consumer,
        stage=stage,
        dead_letters=ports.dead_letters,
        clock=ports.clock,
        metrics=system.metrics,
    )
    while pump.step(timedelta(milliseconds=20)):
        pass
    consumer.close()
