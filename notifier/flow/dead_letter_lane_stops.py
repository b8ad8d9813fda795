"""Lane guard: stops a processing lane at its dead-letter limit."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from notifier.domain.backoff_due_times_alert_ages import is_due
from notifier.domain.delivery.dead_letter_limit import (
    DeadLetterLimit,
    DeadLetterTally,
    LaneStop,
    count_death,
    count_successes,
)
from notifier.domain.errors import OUTAGES, StoreUnavailable
from notifier.metrics import Metrics
from notifier.ports.event_log_and_dead_letters import DeadLetterTallies
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.topics import PROCESSING_LANES

LOGGER = logging.getLogger("notifier.lanes")

TALLY_READ_INTERVAL = timedelta(seconds=1)
"""Age up to which `check` uses the last tally. A stop or resume by another process is noticed up to this much later."""
SUCCESSES_WRITE_INTERVAL = timedelta(seconds=10)
"""Minimum interval between writes of successes alone. A tally without dead letters gets no such writes."""
MAX_COMPARE_AND_SETS = 16
"""Maximum attempts at one change. An attempt fails if another process has changed the tally."""


@dataclass(slots=True, kw_only=True)
class LaneGuard:
    """Applies the dead-letter limit to one lane, on behalf of one process.

    All processes of a lane share the tally in the store, so a restart does not begin a new count. Not thread-safe: only
    one thread of a process works on a lane.
    """

    lane: str
    limit: DeadLetterLimit
    tallies: DeadLetterTallies
    clock: Clock
    metrics: Metrics
    owner: str
    tally: DeadLetterTally | None = None
    """The last tally that was read or written; None before the first read."""
    success_count: int = 0
    """Number of handled records that the stored tally lacks."""
    read_at: datetime | None = None
    successes_added_at: datetime | None = None

    def check(self) -> LaneStop | None:
        """Return the stop of the lane, as last read; None if it is not stopped.

        Raises StoreUnavailable if no read has succeeded yet.
        """
        now = self.clock.now()
        if self.tally is not None and not is_due(self.read_at, TALLY_READ_INTERVAL, now):
            return self.tally.stop
        self.read_at = now
        return self._read().stop

    def record_successes(self, count: int) -> None:
        """Count handled records. Raises no outage.

        Until the successes are written, the stored tally has too few records, and the limit may be reached too early.
        """
        if not self.limit.is_enabled:
            return
        self.success_count += count
        now = self.clock.now()
        if (
            self.tally is None
            or not self.tally.deaths
            or not is_due(self.successes_added_at, SUCCESSES_WRITE_INTERVAL, now)
        ):
            return
        self.successes_added_at = now
        with suppress(*OUTAGES):  # fails open: a later call adds the successes
            self._change(self._with_successes)

    def admit_dead_letter(self, letter_id: str, cause: str) -> bool:
        """Count a record that is to become a dead letter, or stop the lane. Return whether the record may become one.

        Call this before the dead letter is written. The count is durable on return, so no crash or restart lets more
        records become dead letters than the limit allows. If the process crashes between the count and the dead letter,
        the record fails again, but counts only once. Raises StoreUnavailable or DiskFull.
        """

        def with_death(tally: DeadLetterTally) -> DeadLetterTally:
            now = self.clock.now()
            return count_death(
                self._with_successes(tally), self.limit, record=letter_id, cause=cause, stopped_by=self.owner, at=now
            )

        return self._change(with_death).stop is None

    def _with_successes(self, tally: DeadLetterTally) -> DeadLetterTally:
        return count_successes(tally, self.limit, self.success_count)

    def _change(self, change: Callable[[DeadLetterTally], DeadLetterTally]) -> DeadLetterTally:
        """Apply the change to the tally by compare-and-set; return the tally that is stored afterwards."""
        current = self.tally or self._read()
        for _ in range(MAX_COMPARE_AND_SETS):
            changed = change(current)
            if changed == current:  # stopped, already counted, or no limit
                return self._set_tally(current)
            new = replace(changed, version=current.version + 1)
            current = self.tallies.compare_and_set(new)
            if current == new:
                self.success_count = 0
                return self._set_tally(current)
        raise StoreUnavailable(f"Other processes keep changing the tally of {self.lane}.")

    def _read(self) -> DeadLetterTally:
        try:
            stored = self.tallies.read([self.lane])[self.lane]
        except StoreUnavailable:
            if self.tally is None:  # fails closed: the lane may be stopped
                raise
            return self.tally  # fails open: while the store is down, no dead letter can be written either
        # A plain read may be stale, and return an older tally than the one that this process has written.
        return self._set_tally(
            stored if self.tally is None else max(stored, self.tally, key=lambda tally: tally.version)
        )

    def _set_tally(self, tally: DeadLetterTally) -> DeadLetterTally:
        """Keep the tally; log if it stops or resumes the lane."""
        previous_stop, self.tally = self.tally.stop if self.tally else None, tally
        self.metrics.lane_stopped.labels(self.lane).set(tally.stop is not None)
        if tally.stop is not None and tally.stop != previous_stop:
            self._log_stop(tally.stop)
        elif tally.stop is None and previous_stop is not None:
            self.success_count = 0  # these were counted before the resume, which has reset the tally
            LOGGER.warning("lane %s was resumed", self.lane, extra={"lane": self.lane})
        return tally

    def _log_stop(self, stop: LaneStop) -> None:
        LOGGER.error(
            "lane %s is stopped by its dead-letter limit: %s; stopped at %s: %s",
            self.lane,
            stop.reason,
            stop.record,
            stop.cause,
            extra={"lane": self.lane, "kind": str(stop.kind), "record": stop.record, "stopped_by": stop.stopped_by},
        )


@dataclass(slots=True, kw_only=True)
class LaneGuards:
    """The guards of the lanes that one consumer loop or worker works on."""

    limit: DeadLetterLimit
    tallies: DeadLetterTallies
    clock: Clock
    metrics: Metrics
    owner: str
    guards: dict[str, LaneGuard] = field(default_factory=dict)

    def guard_for(self, lane: str) -> LaneGuard:
        if lane not in self.guards:
            self.guards[lane] = LaneGuard(
                lane=lane,
                limit=self.limit,
                tallies=self.tallies,
                clock=self.clock,
                metrics=self.metrics,
                owner=self.owner,
            )
        return self.guards[lane]


def stopped_lanes(tallies: DeadLetterTallies) -> Mapping[str, LaneStop]:
    """Return the stop of each stopped lane, in the order of PROCESSING_LANES. Raises StoreUnavailable."""
    current = tallies.read(PROCESSING_LANES)
    return {lane: stop for lane in PROCESSING_LANES if (stop := current[lane].stop) is not None}
