"""The gateway: an event is validated, made durable and answered; who sent it never waits for more."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2b

from notifier import topics
from notifier.codec import Told, pack, read_events
from notifier.domain.audience.account_flags import AccountChange, AccountRecord
from notifier.domain.audience.activity import Sighting
from notifier.domain.bursts.mention import Event, EventId
from notifier.domain.bursts.retraction import Retraction
from notifier.domain.errors import OUTAGES, CacheUnavailable, EventConflict, NotifierError, Poison
from notifier.domain.ids import UserId
from notifier.domain.upstream.graph_changes import GraphChange, GraphRecord
from notifier.domain.users.user_blocks import PartingChange
from notifier.metrics import Metrics
from notifier.ports.cache import Recent
from notifier.ports.clock import Clock
from notifier.ports.event_log import EventLog, Record

DIGEST_BYTES = 16
DIGEST = re.compile(f"[0-9a-f]{{{2 * DIGEST_BYTES}}}")


AT_ONCE = 20
"""Retractions: some tens of milliseconds. Whoever sends more in one batch doesn't wait for them."""
PLACES_AT_ONCE = 2_000
"""Mentions that they are about, the latest ones of an author: a second or so. Nobody waits for a life's work."""


class Answer(StrEnum):
    ACCEPTED = "accepted"
    """It is durable, and survives a crash of any process."""
    DUPLICATE = "duplicate"
    """It was accepted before; nothing happens again."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    answer: Answer
    event: EventId | None = None
    retraction: Retraction | None = None
    """To be settled; it is in the log."""
    error: NotifierError | None = None
    seen: UserId | None = None
    """Who was seen elsewhere, and may open the inbox next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    log: EventLog
    recent: Recent
    clock: Clock
    metrics: Metrics
    settle: Callable[[Collection[Retraction]], object] = len
    """What was taken back is so when it returns, for whoever reads from then on."""

    def __call__(self, body: bytes, *, batch: bool = False, settles: bool = True) -> Sequence[Receipt]:
        """One receipt an event, in order. Raises LogUnavailable or Full; then nothing was accepted for certain.

        What is taken back is settled before it returns, or else by whoever asked for it not to be.
        """
        found = read_events(body, self.clock.now(), batch=batch)
        before = dict(self._digests([event.id for event in found if isinstance(event, Event)]))
        receipts, fresh = [], {}
        for event in found:
            receipt = _receipt(event, before)
            if isinstance(event, Event) and receipt.answer is Answer.ACCEPTED:
                before[event.id] = fresh[event] = digest(event)
            receipts.append(receipt)
        self._accept(fresh, [record for one in found if (record := _of_change(one))])
        if settles:
            self.at_once([one for one in found if isinstance(one, Retraction)])
        for receipt in receipts:
            self.metrics.events.labels(receipt.answer).inc()
        return receipts

    def _accept(self, fresh: Mapping[Event, str], changes: Collection[Record]) -> None:
        if not fresh and not changes:
            return
        mentions = [Record(stream=topics.MENTIONS, key=str(event.id), value=pack(event)) for event in fresh]
        self.log.append([*mentions, *changes])
        # Only now: an id remembered before its event is durable would turn the sender's retry into a loss.
        # A crash here costs nothing, because the coordinator knows duplicates by the store. Fails open.
        with suppress(CacheUnavailable):
            self.recent.remember({event.id: known for event, known in fresh.items()})

    def at_once(self, retractions: Collection[Retraction]) -> None:
        """At once, where they are few: the retractor, who reads them from the log, does it in any case. So an outage, a
        crash, or a large batch costs time and loses nothing; what can't be read is for its dead letters to tell."""
        if 0 < len(retractions) <= AT_ONCE:
            with suppress(*OUTAGES, Poison):
                self.settle(retractions)

    def _digests(self, ids: Collection[EventId]) -> Mapping[EventId, str]:
        try:
            found = self.recent.digests(ids)
            # What isn't a digest is somebody else's word, and no reason to call an event a conflict. Fails open.
            return {id: known for id, known in found.items() if DIGEST.fullmatch(known)}
        except CacheUnavailable:  # fails open: duplicates are then found by the coordinator
            self.metrics.outages.labels("cache").inc()
            return {}


def digest(event: Event) -> str:
    """Of what the event says; when it was accepted and how it was spelled don't matter."""
    return blake2b(pack(replace(event, accepted_at=event.happened_at)), digest_size=DIGEST_BYTES).hexdigest()


def _of_change(told: Told | NotifierError) -> Record | None:
    """Whoever says a change twice says nothing new: its pair, or its account, has a sequence; and seen is seen."""
    match told:
        case GraphChange():
            return Record(stream=topics.FOLLOWS, key=told.followed, value=pack(GraphRecord(change=told)))
        case PartingChange():
            return Record(stream=topics.FOLLOWS, key=told.blocker, value=pack(GraphRecord(parting=told)))
        case AccountChange():
            return Record(stream=topics.USERS, key=told.user, value=pack(AccountRecord(change=told)))
        case Retraction():
            return Record(stream=topics.RETRACTIONS, key=told.tweet or told.author, value=pack(told))
        case Sighting():
            return Record(stream=topics.ACTIVITY, key=told.user, value=pack(told))
        case _:
            return None


def _receipt(event: Told | NotifierError, before: Mapping[EventId, str]) -> Receipt:
    if isinstance(event, NotifierError):
        return Receipt(answer=Answer.REFUSED, error=event)
    if not isinstance(event, Event):
        retraction = event if isinstance(event, Retraction) else None
        seen = event.user if isinstance(event, Sighting) else None
        return Receipt(answer=Answer.ACCEPTED, event=event.id, retraction=retraction, seen=seen)
    match before.get(event.id):
        case None:
            return Receipt(answer=Answer.ACCEPTED, event=event.id)
        case known if known == digest(event):
            return Receipt(answer=Answer.DUPLICATE, event=event.id)
        case _:
            conflict = EventConflict(f"The id is {event.id.id}.")
            return Receipt(answer=Answer.REFUSED, event=event.id, error=conflict)
