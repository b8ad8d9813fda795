"""The pump: log -> stage -> commit, in this order, for ever; and the loops in which it and its like run."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event as Signal

from notifier import topics
from notifier.domain.errors import OUTAGES, Poison
from notifier.ports.clock import Clock
from notifier.ports.deadletters import DeadLetter, DeadLetters
from notifier.ports.log import Consumer, Logged
from notifier.system import System
from notifier.telemetry import Metrics

LOGGER = logging.getLogger("notifier.pump")

BATCH = 400
"""Records: of one celebrity twice as many a second as with half of it, because its head is swapped twice a batch, and a
head with all of them has some megabytes at the most."""
TRIES = 3
"""A record that fails so often by itself, for another reason than an outage, is poison."""


@dataclass(slots=True, kw_only=True)
class Pump:
    name: str
    consumer: Consumer
    stage: Callable[[Sequence[Logged]], None]
    dead_letters: DeadLetters
    clock: Clock
    metrics: Metrics
    held: Sequence[Logged] = ()
    """Polled and not done: an outage came in between."""

    def step(self, wait: timedelta = timedelta(0)) -> int:
        """One batch; returns its size. Raises one of OUTAGES, and then goes on with the same batch next time, if nobody
        else has it by then."""
        if self.held and not self.consumer.holds():
            self.held = ()
        self.held = self.held or self.consumer.poll(BATCH, wait)
        if not self.held:
            return 0
        self._process(self.held)
        # Only now, when every effect is durable: a crash before this line repeats the batch, and never skips it.
        self.consumer.commit({logged.partition: logged.offset for logged in self.held})
        done, self.held = len(self.held), ()
        return done

    def _process(self, records: Sequence[Logged]) -> None:
        """One bad record doesn't hold up its batch: the others are processed without it."""
        try:
            self.stage(records)
        except OUTAGES:
            raise
        except Exception as cause:
            if len(records) > 1:
                for record in records:
                    self._process([record])
            else:
                self._retry(records[0], cause)

    def _retry(self, record: Logged, cause: Exception) -> None:
        for _ in range(TRIES - 1):
            if isinstance(cause, Poison):
                break
            try:
                return self.stage([record])
            except OUTAGES:
                raise
            except Exception as again:
                cause = again
        self._bury(record, cause)
        return None

    def _bury(self, record: Logged, cause: Exception) -> None:
        LOGGER.error("%s: %s/%d is poison: %s", self.name, record.partition, record.offset, cause)
        letter = DeadLetter(
            id=f"{record.partition}/{record.offset}",
            stage=self.name,
            cause=f"{type(cause).__name__}: {cause}",
            body=record.record.value,
            at=self.clock.now(),
        )
        self.dead_letters.put(letter)
        self.metrics.dead.labels(self.name).inc()


def pump(system: System, stream: str) -> Pump:
    """Of one stream, for as long as its consumer isn't closed."""
    ports, group = system.ports, topics.GROUPS[stream]
    consumer = ports.log.subscribe(stream, group, system.owner)
    return Pump(
        name=group,
        consumer=consumer,
        stage=system.stage(stream, consumer.holds),
        dead_letters=ports.dead_letters,
        clock=ports.clock,
        metrics=system.metrics,
    )


BACKOFF = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds between tries while a part doesn't answer."""


@dataclass(slots=True, kw_only=True)
class Loop:
    """Runs one step after another until it is told to stop; an outage slows it, and nothing ends it."""

    name: str
    step: Callable[[], object]
    """Something true when there may be more to do at once."""
    idle: timedelta
    stopping: Signal
    metrics: Metrics
    failures: int = field(default=0)

    def run(self) -> None:
        while not self.stopping.is_set():
            self.stopping.wait(self._go())

    def _go(self) -> float:
        """One step; returns the seconds to wait before the next."""
        try:
            more = self.step()
        except OUTAGES as outage:
            self.metrics.outages.labels(self.name).inc()
            LOGGER.warning("%s waits: %s", self.name, outage)
        except Exception:
            LOGGER.exception("%s failed", self.name)
        else:
            self.failures = 0
            return 0.0 if more else self.idle.total_seconds()
        self.failures += 1
        return BACKOFF[min(self.failures, len(BACKOFF)) - 1]
