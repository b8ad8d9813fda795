"""The outbox: events leave in a thread of their own, so that who tweets never waits."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from itertools import islice
from threading import Condition, Thread
from types import TracebackType
from typing import Self

from notifier.client.batches import MOST_EVENTS
from notifier.client.client import Client
from notifier.client.errors import ClientError, Unanswered
from notifier.client.event import Event
from notifier.client.receipt import Receipt

LOGGER = logging.getLogger("notifier.client")

ROUND = timedelta(seconds=30)
"""So often it tells that nothing moves."""
CLOSED_WITHIN = timedelta(seconds=5)


def log_refusal(receipt: Receipt) -> None:
    if not receipt.taken:
        LOGGER.error("The event %s was refused: %s", receipt.id, receipt.refusal)


@dataclass(slots=True)
class Outbox:
    """A bounded line of events in memory, in order, and one thread that sends from its head.

    An event leaves the line when it is answered and not before; while the service is away the line grows until it is
    full, and then `submit` says so. What is in line dies with the process: who can't have that keeps the event in
    the transaction that stores the tweet, and sends from there with a client.
    """

    client: Client
    _: KW_ONLY
    capacity: int = 10_000
    """Events; a typical one is half a kilobyte."""
    told: Callable[[Receipt], None] = log_refusal
    """Gets every receipt, in the outbox's thread."""
    closed_within: timedelta = CLOSED_WITHIN
    """For what is still in line at the end of its block."""
    _line: deque[Event] = field(default_factory=deque, init=False, repr=False)
    _changed: Condition = field(default_factory=Condition, init=False, repr=False)
    _thread: Thread | None = field(default=None, init=False, repr=False)
    _closed: bool = field(default=False, init=False)
    """Takes no more."""
    _over: bool = field(default=False, init=False)
    """Sends no more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if left := self.close(self.closed_within):
            LOGGER.error("%d events were not sent; the first is %s", len(left), left[0].id)

    def submit(self, event: Event) -> bool:
        """Never waits for the service. False when the line is full or closed: the event stays the caller's to keep."""
        event.spelled(self.client.source)  # what can't be spelled fails here, and not in the thread for ever after
        with self._changed:
            if self._closed or len(self._line) >= self.capacity:
                return False
            self._line.append(event)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="notifier-outbox", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return True

    def flush(self, within: timedelta) -> Sequence[Event]:
        """Waits until everything is answered or the time is up; returns what isn't answered, in order."""
        with self._changed:
            self._changed.wait_for(lambda: not self._line, within.total_seconds())
            return tuple(self._line)

    def close(self, within: timedelta) -> Sequence[Event]:
        """Takes no more and flushes. Of what it returns some may have arrived; to send all of it again is safe."""
        with self._changed:
            self._closed = True
        left = self.flush(within)
        with self._changed:
            self._over = True
            self._changed.notify_all()
        return left

    def _run(self) -> None:
        while batch := self._head():
            try:
                self._answered(self.client.send(batch, within=ROUND))
            except ClientError as error:
                self._answered(error.receipts)
                LOGGER.warning("%d events wait: %s", len(self._line), error)
                # Who gave no answer had the whole round for it, unless it asked for more than the round had left.
                self._rest(error.asked if isinstance(error, Unanswered) else ROUND.total_seconds())
            except Exception:
                LOGGER.exception("%d events wait", len(self._line))
                self._rest(ROUND.total_seconds())

    def _head(self) -> Sequence[Event]:
        """Waits for events; they stay in line. None of them when it is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._line)
            return () if self._over else tuple(islice(self._line, MOST_EVENTS))

    def _rest(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._over, seconds)

    def _answered(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            try:
                self.told(receipt)
            except Exception:
                LOGGER.exception("Who is told of %s failed", receipt.id)
        with self._changed:
            for _ in receipts:
                self._line.popleft()
            self._changed.notify_all()
