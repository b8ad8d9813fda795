"""The client: events go to the service until each is answered, or the time is up."""

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
from notifier.client.event import EventReceipt, EventRefusal, MentionEvent, ReceiptStatus, refusal_of, refused
from notifier.client.http import HttpConnections, HttpReply, NoResponse, RetryBudget, asked_for

PATH = "/v1/events"

ANSWERS_WITHIN = timedelta(seconds=10)
"""One try; the service itself gives up on a busy disk earlier."""
SENT_WITHIN = timedelta(seconds=30)
"""All tries."""

LATER = frozenset({408, 429})
"""And every 5xx: not now. Nobody knows whether a 500 or a 502 came before or after the event was stored."""
NOT_AS_IT_IS = frozenset({400, 409, 413, 422})
"""About the events. Of a batch: not one of them was taken, and this is about the first."""


@dataclass(slots=True)
class Client:
    """Sends events, and sends them again with the same ids until they are answered.

    That is safe: an event that arrived although its answer was lost is answered as a duplicate. `http.client` of the
    standard library does the talking, because one POST over kept connections is all there is to say, and a library
    for it would be one more that the tweet service has to agree with us on. Any number of threads may share a client;
    processes may not, so make it after a fork. Nothing connects before the first event.
    """

    url: str
    key: str = field(repr=False)
    _: KW_ONLY
    source: str = "//tweet-service"
    """Who speaks; ids are unique within a source."""
    answers_within: timedelta = ANSWERS_WITHIN
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = field(default_factory=lambda: random.Random().random)
    """Of the client's own: whoever seeds the process's random numbers finds them undisturbed."""
    _wire: HttpConnections = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Raises BadSetting."""
        self._wire = HttpConnections(self.url, self.key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Idle connections are closed; a client that is used again opens new ones."""
        self._wire.close()

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
        within: timedelta = SENT_WITHIN,
    ) -> EventReceipt:
        """Sends one event; without an `id` it has the tweet's. Raises what `send` raises."""
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

    def send(self, events: Iterable[MentionEvent], *, within: timedelta = SENT_WITHIN) -> Sequence[EventReceipt]:
        """A receipt an event, in their order; refusals are receipts.

        Raises Unanswered when the time is up, Denied or NotTheService; the error has the receipts there are and the
        events that have none.
        """
        wanted = tuple(events)
        patience = RetryBudget(
            deadline=self.clock() + within.total_seconds(), clock=self.clock, sleep=self.sleep, chance=self.chance
        )
        receipts: list[EventReceipt] = []
        try:
            for found in self._answers(deque(batches(wanted, self.source)), patience):
                receipts += found
        except ClientError as error:
            error.receipts, error.events = tuple(receipts), wanted[len(receipts) :]
            raise
        return receipts

    def _answers(self, waiting: deque[EventBatch], patience: RetryBudget) -> "Iterable[Sequence[EventReceipt]]":
        """In the order of the events."""
        while waiting:
            batch = waiting.popleft()
            if batch.letters[0].too_large:
                yield [refused(batch.letters[0].event.id, TOO_LARGE)]
                continue
            reply = self._reply(batch, patience)
            if reply.status in NOT_AS_IT_IS and len(batch.letters) > 1:
                # What is said of the first isn't said of the others: halves, until each has a refusal of its own. It
                # is also what helps when a proxy takes smaller bodies than the service.
                waiting.extendleft(reversed(batch.halves()))
            else:
                yield _receipts(batch, reply)

    def _reply(self, batch: EventBatch, patience: RetryBudget) -> HttpReply:
        """The first that isn't "not now"."""
        body = batch.body
        while True:
            try:
                within = max(0.001, min(patience.left(), self.answers_within.total_seconds()))
                reply = self._wire.post(PATH, batch.kind, body, within)
            except NoResponse as error:
                patience.pause(f"The last try ended with {error}.")
                continue
            if reply.status not in LATER and reply.status < 500:
                return reply
            patience.pause(f"The last answer was {_said(reply)}.", asked_for(reply.retry_after), reply.status)


def _receipts(batch: EventBatch, reply: HttpReply) -> Sequence[EventReceipt]:
    """Raises Denied or NotTheService."""
    if reply.status in (401, 403):
        raise AccessDenied(f"It says {_said(reply)}.")
    try:
        match reply.status:
            case 202 if len(batch.letters) == 1:
                return [_receipt(batch.letters[0].event, json.loads(reply.body))]
            case 202:
                results = zip(batch.letters, json.loads(reply.body)["results"], strict=True)
                return [_receipt(letter.event, result) for letter, result in results]
            case status if status in NOT_AS_IT_IS:
                return [refused(batch.letters[0].event.id, _refusal(reply))]
    except (ValueError, KeyError, TypeError) as error:
        raise NotTheService(f"It says {reply.status} in words of its own.") from error
    raise NotTheService(f"It says {_said(reply)}.")


def _receipt(event: MentionEvent, result: dict[str, Any]) -> EventReceipt:
    status = ReceiptStatus(result["status"])
    refusal = refusal_of(result["problem"]) if status is ReceiptStatus.REFUSED else None
    return EventReceipt(id=event.id, status=status, refusal=refusal)


def _refusal(reply: HttpReply) -> EventRefusal:
    return refusal_of(json.loads(reply.body))


def _said(reply: HttpReply) -> str:
    """The problem's code and words, or the bare status."""
    try:
        return f"{reply.status} {_refusal(reply)}".rstrip(".")
    except (ValueError, KeyError, TypeError):
        return str(reply.status)
