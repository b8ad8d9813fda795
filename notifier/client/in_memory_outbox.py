"""Outbox: queue of events that a background thread sends."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from itertools import islice
from threading import Condition, Thread
from types import TracebackType
from typing import Self

from notifier.client.batching import MAX_BATCH_EVENTS
from notifier.client.client import Client
from notifier.client.errors import ClientError, Unanswered
from notifier.client.event_and_receipt import EventReceipt, EventRefusal, MentionEvent, ReceiptStatus
from notifier.client.quarantine import Quarantine

LOGGER = logging.getLogger("notifier.client")

SEND_TIMEOUT = timedelta(seconds=30)
"""Deadline of one send. While the service is down, a warning is logged after each send."""
PROBE_TIMEOUT = timedelta(seconds=2)
"""Deadline of one send of several events during a bisection, which looks for a failing event in a batch. A full batch
takes ten halvings."""
SERVER_ERROR = 500
"""The only status for which the outbox suspects a single event. A 502, a 503 or no response is an outage."""
CLOSE_TIMEOUT = timedelta(seconds=5)


def log_refusal(receipt: EventReceipt) -> None:
    if receipt.status is ReceiptStatus.QUARANTINED:
        LOGGER.error("event %s is quarantined until it is sent again manually: %s", receipt.id, receipt.refusal)
    elif not receipt.is_accepted:
        LOGGER.error("event %s was rejected: %s", receipt.id, receipt.refusal)


@dataclass(slots=True)
class Outbox:
    """Bounded, ordered in-memory queue of events, and one thread that sends from its head.

    An event leaves the queue once it is answered or quarantined. While the service is down the queue grows to its
    capacity; then `submit` returns False.

    Queued events are lost if the process dies. If that is not acceptable, store each event in the transaction that
    stores its tweet, and send it from there with a `Client`.

    An event at which the service fails every time (status 500) does not block the events behind it for good. The outbox
    bisects the batch, retries the failing event alone for 30 seconds, and then quarantines it. Its receipt has the
    status QUARANTINED, and `retry_quarantined` queues it once more.
    """

    client: Client
    _: KW_ONLY
    capacity: int = 10_000
    """Maximum number of queued events. A typical event takes half a kilobyte."""
    on_receipt: Callable[[EventReceipt], None] = log_refusal
    """Callback for each receipt. It runs in the outbox's thread."""
    close_timeout: timedelta = CLOSE_TIMEOUT
    """Time to send the events that are still queued when the `with` block ends."""
    quarantine: Quarantine = field(default_factory=Quarantine)
    """Quarantined events. With a path they survive a restart; without a path they count toward the capacity."""
    _pending: deque[MentionEvent] = field(default_factory=deque, init=False, repr=False)
    _changed: Condition = field(default_factory=Condition, init=False, repr=False)
    _thread: Thread | None = field(default=None, init=False, repr=False)
    _is_closed: bool = field(default=False, init=False)
    _is_stopped: bool = field(default=False, init=False)
    _suspect_count: int = field(default=0, init=False)
    """How many events at the head of the queue a bisection examines, to find a failing one; 0 without a bisection."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if unsent := self.close(self.close_timeout):
            LOGGER.error("%d events were not sent; the first is %s", len(unsent), unsent[0].id)

    def submit(self, event: MentionEvent) -> bool:
        """Queue an event without waiting for the service.

        Return False if the outbox is full or closed; then the caller has to keep the event.
        """
        event.to_json(self.client.source)  # fail here if the event cannot be encoded: the thread would retry it forever
        with self._changed:
            if self._is_closed or len(self._pending) + len(self._quarantined_in_memory()) >= self.capacity:
                return False
            self._queue(event)
        return True

    def retry_quarantined(self) -> int:
        """Queue the quarantined events once more. Return how many were queued.

        An event stays in quarantine until it is answered. A closed outbox queues none.
        """
        with self._changed:
            queued = {event.id for event in self._pending}
            events = [] if self._is_closed else [event for event in self.quarantine.events() if event.id not in queued]
            for event in events:
                self._queue(event)
        return len(events)

    def flush(self, within: timedelta) -> Sequence[MentionEvent]:
        """Wait until the queue is empty or `within` has passed. Return the events that are still unanswered.

        Quarantined events that are only in memory come first. The queued events follow in order.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._pending, within.total_seconds())
            queued = {event.id for event in self._pending}
            return (*(event for event in self._quarantined_in_memory() if event.id not in queued), *self._pending)

    def close(self, within: timedelta) -> Sequence[MentionEvent]:
        """Reject new events, flush, stop sending, and return the events that `flush` returned.

        Some of them may have arrived. Sending all of them again is safe.
        """
        with self._changed:
            self._is_closed = True
        unanswered = self.flush(within)
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        return unanswered

    def _queue(self, event: MentionEvent) -> None:
        self._pending.append(event)
        if self._thread is None:
            self._thread = Thread(target=self._run, name="notifier-outbox", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _quarantined_in_memory(self) -> Sequence[MentionEvent]:
        return () if self.quarantine.is_durable else self.quarantine.events()

    def _run(self) -> None:
        while batch := self._next_batch():
            try:
                is_probe = self._suspect_count > 0 and len(batch) > 1
                self._handle_receipts(self.client.send(batch, within=PROBE_TIMEOUT if is_probe else SEND_TIMEOUT))
            except ClientError as error:
                self._handle_receipts(error.receipts)
                if isinstance(error, Unanswered) and error.status == SERVER_ERROR:
                    self._narrow_suspects(error)
                    self._sleep(error.retry_after)
                    continue
                self._suspect_count = 0
                LOGGER.warning("%d events are waiting: %s", len(self._pending), error)
                # After an unanswered send, pause for `Retry-After` only. The send took its whole timeout, or gave up
                # because `Retry-After` was longer than the time left.
                self._sleep(error.retry_after if isinstance(error, Unanswered) else SEND_TIMEOUT.total_seconds())
            except Exception:
                LOGGER.exception("%d events are waiting", len(self._pending))
                self._sleep(SEND_TIMEOUT.total_seconds())

    def _next_batch(self) -> Sequence[MentionEvent]:
        """Wait for events and return the next batch without dequeuing it; empty once sending has stopped.

        During a bisection the batch is the first half of the suspects.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or self._pending)
            count = (self._suspect_count + 1) // 2 or MAX_BATCH_EVENTS
            return () if self._is_stopped else tuple(islice(self._pending, count))

    def _narrow_suspects(self, error: Unanswered) -> None:
        """Bisect the unanswered events next. If there is only one, quarantine it and remove it from the queue."""
        if len(error.events) > 1:
            LOGGER.warning("%d events are waiting: %s", len(self._pending), error)
            self._suspect_count = len(error.events)
            return
        [event] = error.events
        try:
            self.quarantine.put(event)
        except (OSError, ValueError):
            LOGGER.exception("can't quarantine event %s; it is sent again", event.id)
            return
        refusal = EventRefusal(code="error", title="The service failed on this event every time.", detail=error.detail)
        self._handle_receipts([EventReceipt(id=event.id, status=ReceiptStatus.QUARANTINED, refusal=refusal)])
        self._suspect_count = 0

    def _sleep(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped, seconds)

    def _handle_receipts(self, receipts: Sequence[EventReceipt]) -> None:
        for receipt in receipts:
            try:
                self.on_receipt(receipt)
            except Exception:
                LOGGER.exception("receipt callback failed for event %s", receipt.id)
        self._drop_quarantined([receipt.id for receipt in receipts if receipt.status is not ReceiptStatus.QUARANTINED])
        with self._changed:
            self._suspect_count = max(0, self._suspect_count - len(receipts))
            for _ in receipts:
                self._pending.popleft()
            self._changed.notify_all()

    def _drop_quarantined(self, ids: Sequence[str]) -> None:
        try:
            self.quarantine.drop(ids)
        except (OSError, ValueError):  # harmless: if sent again, the events are duplicates
            LOGGER.exception("can't remove answered events from the quarantine file")
