"""Gateway: appends validated events to the log, then hides retracted content."""

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2b

from notifier import topics
from notifier.codec import UpstreamEvent, pack
from notifier.domain.audience.account_flags import AccountChange, AccountRecord
from notifier.domain.audience.activity import Sighting
from notifier.domain.bursts.events_and_mentions import Event, EventId
from notifier.domain.bursts.retraction import Retraction
from notifier.domain.errors import OUTAGES, CacheUnavailable, EventConflict, NotifierError, Poison
from notifier.domain.upstream.graph_stream_records import FollowChange, GraphRecord
from notifier.domain.users.user_blocks import UserBlockChange
from notifier.flow.sequencing.retracted_burst_updates import RetractionSettlement
from notifier.metrics import Metrics
from notifier.ports.event_log_and_dead_letters import EventLog, Record
from notifier.ports.recent_events_and_load_limits import RecentEvents

CONTENT_HASH_BYTES = 16
CONTENT_HASH_PATTERN = re.compile(f"[0-9a-f]{{{2 * CONTENT_HASH_BYTES}}}")

MAX_RETRACTIONS_HIDDEN = 20
"""Maximum number of retractions of a request that the gateway settles before the response. Twenty take tens of
milliseconds.

If a request has more, the gateway settles none of them, and leaves all to the retractor.
"""
MAX_MENTIONS_HIDDEN = 2_000
"""Maximum number of mentions that the gateway hides before the response, in about a second. The retractor hides further
mentions."""


class IntakeStatus(StrEnum):
    ACCEPTED = "accepted"
    """The event is durable, and survives a crash of any process."""
    DUPLICATE = "duplicate"
    """The event was accepted before. It has no further effect."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeReceipt:
    status: IntakeStatus
    event: EventId | None = None
    error: NotifierError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    log: EventLog
    recent_events: RecentEvents
    settlement: RetractionSettlement
    metrics: Metrics

    def accept(self, events: Sequence[UpstreamEvent | NotifierError]) -> Sequence[IntakeReceipt]:
        """Append the events, hide what they retract, and return one receipt per event, in order."""
        receipts = self.append(events)
        # Append first. If the process crashes before or while hiding, the retractor reads the same retractions from the
        # log and hides their content.
        self.hide([event for event in events if isinstance(event, Retraction)])
        return receipts

    def append(self, events: Sequence[UpstreamEvent | NotifierError]) -> Sequence[IntakeReceipt]:
        """Make the events durable, and return one receipt per event, in order. The receipt of an error is REFUSED.

        If this raises, some events may be in the log. It is safe to send all of them again.
        """
        known_hashes = dict(self._read_hashes([event.id for event in events if isinstance(event, Event)]))
        receipts, new_hashes = [], dict[EventId, str]()
        mention_records, other_records = list[Record](), list[Record]()
        for event in events:
            receipt = _receipt(event, known_hashes)
            receipts.append(receipt)
            if isinstance(event, Event):
                if receipt.status is IntakeStatus.ACCEPTED:
                    known_hashes[event.id] = new_hashes[event.id] = content_hash(event)
                    mention_records.append(Record(stream=topics.MENTIONS, key=str(event.id), value=pack(event)))
            elif not isinstance(event, NotifierError):
                other_records.append(_record(event))
        if mention_records or other_records:
            self.log.append([*mention_records, *other_records])
            # Remember the IDs after the append. If an ID were remembered first and the append failed, the client's
            # retry would be dropped as a duplicate. A crash or a cache outage here is harmless: the coordinator finds
            # duplicates in the store.
            with suppress(CacheUnavailable):
                self.recent_events.remember(new_hashes)
        for receipt in receipts:
            self.metrics.events.labels(receipt.status).inc()
        return receipts

    def refuse(self, error: NotifierError) -> IntakeReceipt:
        """Refuse a single malformed event, without the log or the cache, and without blocking."""
        self.metrics.events.labels(IntakeStatus.REFUSED).inc()
        return IntakeReceipt(status=IntakeStatus.REFUSED, error=error)

    def hide(self, retractions: Collection[Retraction]) -> bool:
        """Settle retractions that are already in the log. Return False if there are none or too many, or on failure.

        Up to MAX_MENTIONS_HIDDEN mentions are hidden. The retractor settles all retractions from the log, so after a
        failure the content disappears later.
        """
        if not 0 < len(retractions) <= MAX_RETRACTIONS_HIDDEN:
            return False
        try:
            self.settlement.settle(retractions, MAX_MENTIONS_HIDDEN)
        except (*OUTAGES, Poison):
            return False
        return True

    def _read_hashes(self, ids: Collection[EventId]) -> Mapping[EventId, str]:
        try:
            hashes = self.recent_events.content_hashes(ids)
            # Ignore corrupt values: an event with such a value would be refused as a conflict.
            return {id: value for id, value in hashes.items() if CONTENT_HASH_PATTERN.fullmatch(value)}
        except CacheUnavailable:  # fails open: the coordinator finds the duplicates later
            self.metrics.outages.labels("cache").inc()
            return {}


def content_hash(event: Event) -> str:
    """Return a hash of the event's content. It depends neither on the acceptance time nor on the JSON format."""
    return blake2b(pack(replace(event, accepted_at=event.happened_at)), digest_size=CONTENT_HASH_BYTES).hexdigest()


def _record(event: FollowChange | UserBlockChange | AccountChange | Retraction | Sighting) -> Record:
    """Return the log record of an event other than a mention.

    Its reader may apply it twice: changes have a sequence number or rank, and a sighting only sets a bit.
    """
    match event:
        case FollowChange():
            return Record(stream=topics.FOLLOWS, key=event.followed, value=pack(GraphRecord(change=event)))
        case UserBlockChange():
            return Record(stream=topics.FOLLOWS, key=event.blocker, value=pack(GraphRecord(user_block_change=event)))
        case AccountChange():
            return Record(stream=topics.USERS, key=event.user, value=pack(AccountRecord(change=event)))
        case Retraction():
            return Record(stream=topics.RETRACTIONS, key=event.tweet or event.author, value=pack(event))
        case Sighting():
            return Record(stream=topics.ACTIVITY, key=event.user, value=pack(event))


def _receipt(event: UpstreamEvent | NotifierError, known_hashes: Mapping[EventId, str]) -> IntakeReceipt:
    if isinstance(event, NotifierError):
        return IntakeReceipt(status=IntakeStatus.REFUSED, error=event)
    if not isinstance(event, Event):
        return IntakeReceipt(status=IntakeStatus.ACCEPTED, event=event.id)
    match known_hashes.get(event.id):
        case None:
            return IntakeReceipt(status=IntakeStatus.ACCEPTED, event=event.id)
        case known_hash if known_hash == content_hash(event):
            return IntakeReceipt(status=IntakeStatus.DUPLICATE, event=event.id)
        case _:
            conflict = EventConflict(f"The id is {event.id.id}.")
            return IntakeReceipt(status=IntakeStatus.REFUSED, event=event.id, error=conflict)
