"""Client that sends events, with retries up to a deadline."""

import json
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from notifier.client.batching import TOO_LARGE, EventBatch, batches
from notifier.client.errors import AccessDenied, ClientError, NotTheService
from notifier.client.event_and_receipt import (
    EventReceipt,
    EventRefusal,
    MentionEvent,
    ReceiptStatus,
    refusal_of,
    refused,
)
from notifier.client.http import HttpConnections, HttpReply, NoResponse, RetryBudget, retry_after_seconds

PATH = "/v1/events"

REQUEST_TIMEOUT = timedelta(seconds=10)
"""Timeout of a socket operation. A service whose disk is busy responds with an error before that."""
SEND_TIMEOUT = timedelta(seconds=30)
"""Default deadline of one `send`, with all its attempts."""

RETRYABLE_STATUSES = frozenset({408, 429})
"""Statuses that are retried. Every 5xx is retried, too: a 5xx leaves open whether the events were stored."""
REFUSAL_STATUSES = frozenset({400, 409, 413, 422})
"""Statuses that refuse the whole request: nothing was stored."""


@dataclass(slots=True)
class Client:
    """Sends events, and retries them with the same ids.

    Retries are idempotent: if an event arrived and only its response was lost, the receipt of the retry says DUPLICATE.

    The client uses `http.client`: the version of an HTTP library could conflict with what the tweet service uses.

    A client is thread-safe. A forked process needs a client of its own.
    """

    url: str
    key: str = field(repr=False)
    _: KW_ONLY
    source: str = "//tweet-service"
    """CloudEvents `source` of all events. Ids are unique within a source."""
    request_timeout: timedelta = REQUEST_TIMEOUT
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = field(default_factory=lambda: random.Random().random)
    """Returns a random number from 0 to 1. The default generator is not the global one, which may be seeded."""
    _connections: HttpConnections = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Raises InvalidClientSetting."""
        self._connections = HttpConnections(self.url, self.key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections. A client that is used again opens new ones."""
        self._connections.close()

    def mention(
        self,
        *,
        tweet: str,
        author: str,
        mentions: Sequence[str],
        at: datetime,
        text: str = "",
        protected: bool = False,
        id: str | None = None,
        within: timedelta = SEND_TIMEOUT,
    ) -> EventReceipt:
        """Send one event and return its receipt. The `id` defaults to the tweet id. Raises what `send` raises."""
        event = MentionEvent(
            id=tweet if id is None else id,
            at=at,
            tweet=tweet,
            author=author,
            mentions=mentions,
            text=text,
            protected=protected,
        )
        return self.send([event], within=within)[0]

    def send(self, events: Iterable[MentionEvent], *, within: timedelta = SEND_TIMEOUT) -> Sequence[EventReceipt]:
        """Send events and return one receipt per event, in the same order. A refused event has a receipt, too.

        Raises Unanswered if an event is not answered in time, AccessDenied if the key is rejected, and NotTheService if
        another server responds. The error holds the receipts received so far and the events without a receipt.
        """
        all_events = tuple(events)
        budget = RetryBudget(
            deadline=self.clock() + within.total_seconds(), clock=self.clock, sleep=self.sleep, chance=self.chance
        )
        receipts: list[EventReceipt] = []
        try:
            for batch_receipts in self._send_batches(deque(batches(all_events, self.source)), budget):
                receipts += batch_receipts
        except ClientError as error:
            error.receipts, error.events = tuple(receipts), all_events[len(receipts) :]
            raise
        return receipts

    def _send_batches(self, waiting: deque[EventBatch], budget: RetryBudget) -> "Iterable[Sequence[EventReceipt]]":
        """Send the batches, and yield the receipts of each batch in the order of its events."""
        while waiting:
            batch = waiting.popleft()
            if batch.events[0].is_too_large:
                yield [refused(batch.events[0].event.id, TOO_LARGE)]
                continue
            reply = self._post_with_retries(batch, budget)
            if reply.status in REFUSAL_STATUSES and len(batch.events) > 1:
                # The refusal does not tell which event caused it. Split the batch until each event has its own
                # response. Splitting also helps if a proxy refuses bodies that the service would accept.
                waiting.extendleft(reversed(batch.halves()))
            else:
                yield _receipts(batch, reply)

    def _post_with_retries(self, batch: EventBatch, budget: RetryBudget) -> HttpReply:
        """Post the batch until the response has a status that is not retried. Raises Unanswered if no time is left."""
        body = batch.body
        while True:
            try:
                timeout = max(0.001, min(budget.remaining(), self.request_timeout.total_seconds()))
                reply = self._connections.post(PATH, batch.content_type, body, timeout)
            except NoResponse as error:
                budget.pause(f"The last attempt failed: {error}.")
                continue
            if reply.status not in RETRYABLE_STATUSES and reply.status < 500:
                return reply
            budget.pause(
                f"The last answer was {_describe(reply)}.", retry_after_seconds(reply.retry_after_header), reply.status
            )


def _receipts(batch: EventBatch, reply: HttpReply) -> Sequence[EventReceipt]:
    """Convert the response to receipts, one per event. Raises AccessDenied or NotTheService."""
    if reply.status in (401, 403):
        raise AccessDenied(f"The service answered {_describe(reply)}.")
    try:
        match reply.status:
            case 202 if len(batch.events) == 1:
                return [_receipt(batch.events[0].event, json.loads(reply.body))]
            case 202:
                results = zip(batch.events, json.loads(reply.body)["results"], strict=True)
                return [_receipt(encoded.event, result) for encoded, result in results]
            case status if status in REFUSAL_STATUSES:
                return [refused(batch.events[0].event.id, _refusal(reply))]
    except (ValueError, KeyError, TypeError) as error:
        raise NotTheService(f"The answer with status {reply.status} can't be decoded.") from error
    raise NotTheService(f"Unexpected answer: {_describe(reply)}.")


def _receipt(event: MentionEvent, result: dict[str, Any]) -> EventReceipt:
    status = ReceiptStatus(result["status"])
    refusal = refusal_of(result["problem"]) if status is ReceiptStatus.REFUSED else None
    return EventReceipt(id=event.id, status=status, refusal=refusal)


def _refusal(reply: HttpReply) -> EventRefusal:
    return refusal_of(json.loads(reply.body))


def _describe(reply: HttpReply) -> str:
    """Return the status, with the code and text of the problem if the response has one."""
    try:
        return f"{reply.status} {_refusal(reply)}".rstrip(".")
    except (ValueError, KeyError, TypeError):
        return str(reply.status)
