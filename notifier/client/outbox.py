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

from notifier.client.batching import MOST_EVENTS
from notifier.client.client import Client
from notifier.client.errors import ClientError, Unanswered
from notifier.client.event import EventReceipt, EventRefusal, MentionEvent, ReceiptStatus
from notifier.client.quarantine import Aside

LOGGER = logging.getLogger("notifier.client")

ROUND = timedelta(seconds=30)
"""So often it tells that nothing moves; and as long as an event fails alone, it is tried."""
PROBE = timedelta(seconds=2)
"""For each half, while the event is looked for at which the service fails: ten halves of a full batch."""
FAILS = 500
"""The one answer that may be about an event and no other. A 502, a 503 or none at all is about the service."""
CLOSED_WITHIN = timedelta(seconds=5)


def log_refusal(receipt: EventReceipt) -> None:
    if receipt.status is ReceiptStatus.ASIDE:
        LOGGER.error("The event %s is set aside until it is sent again by order: %s", receipt.id, receipt.refusal)
    elif not receipt.taken:
        LOGGER.error("The event %s was refused: %s", receipt.id, receipt.refusal)


@dataclass(slots=True)
class Outbox:
    """A bounded line of events in memory, in order, and one thread that sends from its head.

    An event leaves the line when it is answered and not before; while the service is away the line grows until it is
    full, and then `submit` says so. What is in line dies with the process: who can't have that keeps the event in
    the transaction that stores the tweet, and sends from there with a client.

    One event at which the service fails every time (500) holds up nobody behind it: it is found among its batch, has
    a round to itself, and is then set aside, with a receipt that says so, until `again`.
    """

    client: Client
    _: KW_ONLY
    capacity: int = 10_000
    """Events; a typical one is half a kilobyte."""
    told: Callable[[EventReceipt], None] = log_refusal
    """Gets every receipt, in the outbox's thread."""
    closed_within: timedelta = CLOSED_WITHIN
    """For what is still in line at the end of its block."""
    aside: Aside = field(default_factory=Aside)
    """With a path, what is set aside outlives the process; without one it counts in the capacity."""
    _line: deque[MentionEvent] = field(default_factory=deque, init=False, repr=False)
    _changed: Condition = field(default_factory=Condition, init=False, repr=False)
    _thread: Thread | None = field(default=None, init=False, repr=False)
    _closed: bool = field(default=False, init=False)
    """Takes no more."""
    _over: bool = field(default=False, init=False)
    """Sends no more."""
    _suspects: int = field(default=0, init=False)
    """Events at the head of the line among which one is that the service fails at; 0: nobody is suspected."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if left := self.close(self.closed_within):
            LOGGER.error("%d events were not sent; the first is %s", len(left), left[0].id)

    def submit(self, event: MentionEvent) -> bool:
        """Never waits for the service. False when the line is full or closed: the event stays the caller's to keep."""
        event.spelled(self.client.source)  # what can't be spelled fails here, and not in the thread for ever after
        with self._changed:
            if self._closed or len(self._line) + len(self._unsafe()) >= self.capacity:
                return False
            self._queue(event)
        return True

    def again(self) -> int:
        """Lines up once more what was set aside, by this process or an earlier one with the same file; how many.

        They stay set aside until they are answered, so that none is lost by whatever happens meanwhile.
        """
        with self._changed:
            waiting = {event.id for event in self._line}
            found = [] if self._closed else [event for event in self.aside.events() if event.id not in waiting]
            for event in found:
                self._queue(event)
        return len(found)

    def flush(self, within: timedelta) -> Sequence[MentionEvent]:
        """Waits until everything is answered or the time is up; returns what isn't answered, in order.

        With it, and before it, what is set aside in no file.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._line, within.total_seconds())
            waiting = {event.id for event in self._line}
            return (*(event for event in self._unsafe() if event.id not in waiting), *self._line)

    def close(self, within: timedelta) -> Sequence[MentionEvent]:
        """Takes no more and flushes. Of what it returns some may have arrived; to send all of it again is safe."""
        with self._changed:
            self._closed = True
        left = self.flush(within)
        with self._changed:
            self._over = True
            self._changed.notify_all()
        return left

    def _queue(self, event: MentionEvent) -> None:
        self._line.append(event)
        if self._thread is None:
            self._thread = Thread(target=self._run, name="notifier-outbox", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _unsafe(self) -> Sequence[MentionEvent]:
        return () if self.aside.kept else self.aside.events()

    def _run(self) -> None:
        while batch := self._head():
            try:
                alone = len(batch) == 1
                self._answered(self.client.send(batch, within=PROBE if self._suspects and not alone else ROUND))
            except ClientError as error:
                self._answered(error.receipts)
                if isinstance(error, Unanswered) and error.status == FAILS:
                    self._suspect(error)
                    self._rest(error.asked)
                    continue
                self._suspects = 0
                LOGGER.warning("%d events wait: %s", len(self._line), error)
                # Who gave no answer had the whole round for it, unless it asked for more than the round had left.
                self._rest(error.asked if isinstance(error, Unanswered) else ROUND.total_seconds())
            except Exception:
                LOGGER.exception("%d events wait", len(self._line))
                self._rest(ROUND.total_seconds())

    def _head(self) -> Sequence[MentionEvent]:
        """Waits for events; they stay in line. None of them when it is over. Of suspects the first half."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._line)
            most = (self._suspects + 1) // 2 or MOST_EVENTS
            return () if self._over else tuple(islice(self._line, most))

    def _suspect(self, error: Unanswered) -> None:
        """The one it fails at is among these; once it is alone it leaves the line, after it is safe elsewhere."""
        if len(error.events) > 1:
            LOGGER.warning("%d events wait: %s", len(self._line), error)
            self._suspects = len(error.events)
            return
        [event] = error.events
        try:
            self.aside.put(event)
        except (OSError, ValueError):
            LOGGER.exception("The event %s can't be set aside, and is tried again", event.id)
            return
        refusal = EventRefusal(code="error", title="The service failed at it every time.", detail=error.detail)
        self._answered([EventReceipt(id=event.id, status=ReceiptStatus.ASIDE, refusal=refusal)])
        self._suspects = 0

    def _rest(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._over, seconds)

    def _answered(self, receipts: Sequence[EventReceipt]) -> None:
        for receipt in receipts:
            try:
                self.told(receipt)
            except Exception:
                LOGGER.exception("Who is told of %s failed", receipt.id)
        self._settled([receipt.id for receipt in receipts if receipt.status is not ReceiptStatus.ASIDE])
        with self._changed:
            self._suspects = max(0, self._suspects - len(receipts))
            for _ in receipts:
                self._line.popleft()
            self._changed.notify_all()

    def _settled(self, ids: Sequence[str]) -> None:
        try:
            self.aside.drop(ids)
        except (OSError, ValueError):  # sent again they are duplicates
            LOGGER.exception("What was set aside and is answered can't be taken from its file")
