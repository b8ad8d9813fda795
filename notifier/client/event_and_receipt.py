"""Mention events, encoded as CloudEvents 1.0 in JSON, and their receipts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

MENTIONED_TYPE = "notifier.tweet.mentioned.v1"

MAX_TEXT_LENGTH = 1_000
"""Number of characters after which the client cuts the text. The service keeps no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionEvent:
    """A tweet that mentions at least one account.

    Events are immutable, so every retry has the same content. The service refuses an event with a known id and other
    content as a conflict.
    """

    id: str
    """Event id. It must be the same at each attempt to send the event, also after a restart. Use the tweet id."""
    at: datetime
    """Time of the tweet, with its time zone. Do not use the time of sending, which differs between retries."""
    tweet: str
    author: str
    mentions: Sequence[str]
    """Mentioned accounts, 1 to 100."""
    text: str = ""
    protected: bool = False
    """Whether the author's tweets are visible to the author's followers only."""

    def __post_init__(self) -> None:
        if isinstance(self.mentions, str):
            raise TypeError(f"mentions must be a list of accounts; write [{self.mentions!r}].")

    def to_json(self, source: str) -> bytes:
        """Encode the event as ASCII JSON, without validation."""
        data = {
            "tweet": self.tweet,
            "author": self.author,
            "mentions": list(self.mentions),
            # Some phones send unpaired surrogates. The service would refuse an event that contains them.
            "text": self.text[:MAX_TEXT_LENGTH].encode("utf-8", "replace").decode(),
            "protected": self.protected,
        }
        head = {
            "specversion": "1.0",
            "type": MENTIONED_TYPE,
            "source": source,
            "id": self.id,
            "time": self.at.isoformat(),
        }
        return json.dumps({**head, "data": data}, separators=(",", ":")).encode()


# Receipts.


class ReceiptStatus(StrEnum):
    ACCEPTED = "accepted"
    """The event is stored durably: it survives a crash of any process of the service."""
    DUPLICATE = "duplicate"
    """The event was accepted before, perhaps by an attempt whose response was lost. The event is processed once."""
    REFUSED = "refused"
    """The service does not accept the event as it is."""
    QUARANTINED = "quarantined"
    """The outbox quarantined the event, because the service failed at every attempt.

    `Outbox.retry_quarantined` queues it once more.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRefusal:
    """Reason why an event was not accepted.

    A `code` is stable, the texts may change. docs/tweet-service.md has a remedy for each code.
    """

    code: str
    title: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.title} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReceipt:
    id: str
    status: ReceiptStatus
    refusal: EventRefusal | None = None
    """Reason, if the event was refused or quarantined."""

    @property
    def is_accepted(self) -> bool:
        return self.status in (ReceiptStatus.ACCEPTED, ReceiptStatus.DUPLICATE)


def refused(id: str, refusal: EventRefusal) -> EventReceipt:
    return EventReceipt(id=id, status=ReceiptStatus.REFUSED, refusal=refusal)


def refusal_of(problem: Mapping[str, Any]) -> EventRefusal:
    """Read the reason from a problem+json body. Raises KeyError if the code or the title is missing."""
    return EventRefusal(code=str(problem["code"]), title=str(problem["title"]), detail=str(problem.get("detail", "")))
