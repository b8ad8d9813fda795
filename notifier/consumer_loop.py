"""Consumer loop: reads a batch from the log, runs a stage, then commits the offsets."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Event as Signal

from notifier import topics
from notifier.domain.backoff_due_times_alert_ages import Backoff
from notifier.domain.errors import OUTAGES, LaneStopped, Poison
from notifier.flow.dead_letter_lane_stops import LaneGuard
from notifier.metrics import Metrics
from notifier.ports.event_log_and_dead_letters import Consumer, DeadLetter, DeadLetters, Logged
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.wiring.indexers_and_device_registry import (
    build_account_indexer,
    build_activity_indexer,
    build_device_indexer,
    build_graph_indexer,
)
from notifier.wiring.intake import build_router
from notifier.wiring.sequencing import build_coordinator, build_retractor
from notifier.wiring.shared_parts import System, build_lane_guards

LOGGER = logging.getLogger("notifier.consumer_loop")

BATCH_SIZE = 400
"""Maximum number of records per batch.

The coordinator replaces a subject's head equally often, whether a batch has one of its mentions or a hundred. So larger
batches raise the throughput. A head whose outbox contains a whole batch has a few megabytes at most.
"""
MAX_ATTEMPTS = 3
"""Attempts at a single record that fails without an outage. After the last one, or after the error `Poison`, it becomes
a dead letter."""


@dataclass(slots=True, kw_only=True)
class StreamProcessor:
    """Passes the records of one stream to a stage, and commits their offsets. Not thread-safe."""

    name: str
    """Name of the stage, which is also that of the consumer group."""
    consumer: Consumer
    stage: Callable[[Sequence[Logged]], None]
    dead_letters: DeadLetters
    guard: LaneGuard
    clock: Clock
    metrics: Metrics
    unprocessed: Sequence[Logged] = ()
    """Records that were polled and not committed yet."""

    def step(self, wait: timedelta = timedelta(0)) -> int:
        """Process one batch and return its size.

        Raises one of OUTAGES. The next call then retries the batch, if this consumer still owns all of its records.
        Raises LaneStopped if records wait and the processing lane is stopped. If this call stopped the lane,
        `unprocessed` begins with the record whose dead letter would exceed the limit.
        """
        # After losing a partition, poll again even while the lane is stopped, so that the reported lag stays current.
        if self.unprocessed and not self.consumer.still_owns_polled_records():
            self.unprocessed = ()
        self.unprocessed = self.unprocessed or self.consumer.poll(BATCH_SIZE, wait)
        stop = self.guard.check()
        if not self.unprocessed:
            return 0
        if stop is not None:
            # Keep the batch, as in an outage.
            raise LaneStopped(f"Lane: {self.guard.lane}.")
        batch = self.unprocessed
        self._process(batch)
        # Commit last: a crash before this line repeats the batch and never skips it.
        self._commit(len(batch))
        return len(batch)

    def _commit(self, count: int) -> None:
        """Commit the first `count` records of the batch and keep the others."""
        self.consumer.commit({logged.partition: logged.offset for logged in self.unprocessed[:count]})
        self.unprocessed = self.unprocessed[count:]

    def _process(self, records: Sequence[Logged]) -> None:
        """Process the records together. If that fails, process each alone, so that a bad one blocks no others."""
        try:
            self.stage(records)
        except OUTAGES:
            raise
        except Exception as cause:
            if len(records) == 1:
                self._retry(records[0], cause)
            else:
                self._process_each(records)
        else:
            self.guard.record_successes(len(records))

    def _process_each(self, records: Sequence[Logged]) -> None:
        for processed_count, record in enumerate(records):
            try:
                self._process([record])
            except LaneStopped:
                # Commit the earlier records: their effects are durable. Otherwise they would be repeated after a
                # resume, which empties the tally, and their dead letters would count again.
                if processed_count:
                    self._commit(processed_count)
                raise

    def _retry(self, record: Logged, cause: Exception) -> None:
        for _ in range(MAX_ATTEMPTS - 1):
            if isinstance(cause, Poison):
                break
            try:
                self.stage([record])
            except OUTAGES:
                raise
            except Exception as error:
                cause = error
            else:
                return self.guard.record_successes(1)
        return self._put_dead_letter(record, cause)

    def _put_dead_letter(self, record: Logged, cause: Exception) -> None:
        id = f"{record.partition}/{record.offset}"
        # Count the dead letter durably before writing it. After a crash in between, the record is repeated, but counted
        # only once. If the dead letter were written first, each restart could add one above the limit.
        if not self.guard.admit_dead_letter(id, f"{type(cause).__name__}: {cause}"):
            raise LaneStopped(f"Lane: {self.guard.lane}.")
        LOGGER.error("%s: %s/%d becomes a dead letter: %s", self.name, record.partition, record.offset, cause)
        letter = DeadLetter(
            id=id,
            stage=self.name,
            cause=f"{type(cause).__name__}: {cause}",
            body=record.record.value,
            at=self.clock.now(),
        )
        self.dead_letters.put(letter)
        self.metrics.dead_letters.labels(self.name).inc()


def build_stream_processor(system: System, stream: str) -> StreamProcessor:
    """Subscribe to one stream, and build the processor of its records. The caller closes its `consumer` at the end."""
    ports, group = system.ports, topics.GROUPS[stream]
    consumer = ports.log.subscribe(stream, group, system.owner)
    return StreamProcessor(
        name=group,
        consumer=consumer,
        stage=build_stage(system, stream, consumer.still_owns_polled_records),
        dead_letters=ports.dead_letters,
        guard=build_lane_guards(system).guard_for(stream),
        clock=ports.clock,
        metrics=system.metrics,
    )


def build_stage(system: System, stream: str, owns_records: Callable[[], bool]) -> Callable[[Sequence[Logged]], None]:
    """Build the stage that handles records of `stream`.

    `owns_records` returns whether this process still owns the partitions of the records that it polled last.
    """
    match topics.GROUPS[stream]:
        case "router":
            return build_router(system)
        case "coordinator":
            return build_coordinator(system)
        case "account_indexer":
            return build_account_indexer(system, owns_records)
        case "device_indexer":
            return build_device_indexer(system, owns_records)
        case "activity_indexer":
            return build_activity_indexer(system)
        case "retractor":
            return build_retractor(system)
        case _:
            return build_graph_indexer(system, owns_records)


BACKOFF = Backoff(first=timedelta(milliseconds=100), longest=timedelta(seconds=2))
"""Pauses after failed steps in a row."""
STOPPED_LANE_CHECK_SECONDS = 1.0
"""Seconds between two checks whether a stopped lane was resumed. The lane's guard reads the store once a second."""


@dataclass(slots=True, kw_only=True)
class Loop:
    """Repeats a step until `stop_signal` is set. An outage, an error or a stopped lane only slows it down."""

    name: str
    step: Callable[[], object]
    """Returns a true value if the next step should follow without a pause."""
    idle: timedelta
    """Pause after a step that found nothing to do."""
    stop_signal: Signal
    metrics: Metrics
    failures_in_a_row: int = 0

    def run(self) -> None:
        while not self.stop_signal.is_set():
            self.stop_signal.wait(self._run_step())

    def _run_step(self) -> float:
        """Run one step and return the seconds to wait before the next."""
        try:
            has_more = self.step()
        except LaneStopped:  # logged once, by the guard
            self.failures_in_a_row = 0
            return STOPPED_LANE_CHECK_SECONDS
        except OUTAGES as outage:
            self.metrics.outages.labels(self.name).inc()
            LOGGER.warning("%s is waiting: %s", self.name, outage)
        except Exception:
            LOGGER.exception("%s failed", self.name)
        else:
            self.failures_in_a_row = 0
            return 0.0 if has_more else self.idle.total_seconds()
        self.failures_in_a_row += 1
        return BACKOFF.delay(self.failures_in_a_row - 1).total_seconds()
