"""One event: a tweet that mentions somebody, and how it is spelled on the wire (CloudEvents 1.0 in JSON)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

TYPE = "notifier.tweet.mentioned.v1"

TEXT_KEPT = 1_000
"""Characters; the service keeps no more, and only the beginning is ever shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionEvent:
    """Immutable, so that every retry is spelled the same: the same id with other words is refused as a conflict."""

    id: str
    """The same for the same tweet, also after a restart; the tweet's own id is a good one."""
    at: datetime
    """When it was tweeted, with its time zone; not when it is sent, which differs from one try to the next."""
    tweet: str
    author: str
    mentions: Sequence[str]
    """Accounts, 1 to 100."""
    text: str = ""
    protected: bool = False
    """The author's tweets are for the author's followers only."""

    def __post_init__(self) -> None:
        if isinstance(self.mentions, str):
            raise TypeError(f"mentions is a list of accounts; write [{self.mentions!r}].")

    def spelled(self, source: str) -> bytes:
        """ASCII, whatever the words are. What is wrong with an event is for the service alone to say."""
        data = {
            "tweet": self.tweet,
            "author": self.author,
            "mentions": list(self.mentions),
            # Half a character, as some phones send them, would have the whole event refused.
            "text": self.text[:TEXT_KEPT].encode("utf-8", "replace").decode(),
            "protected": self.protected,
        }
        head = {"specversion": "1.0", "type": TYPE, "source": source, "id": self.id, "time": self.at.isoformat()}
        return json.dumps({**head, "data": data}, separators=(",", ":")).encode()


# Receipts: what the service answered to an event.


class ReceiptStatus(StrEnum):
    ACCEPTED = "accepted"
    """It survives a crash of any process of the service."""
    DUPLICATE = "duplicate"
    """It was accepted before, perhaps by a try whose answer was lost; nothing happens twice."""
    REFUSED = "refused"
    """It will never be taken as it is."""
    ASIDE = "aside"
    """An outbox's own: the service failed at it every time. It is kept, and sent again by order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRefusal:
    """What docs/tweet-service.md tells you to do depends on `code`, which never changes; the texts may."""

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
    """Of one that wasn't taken."""

    @property
    def taken(self) -> bool:
        return self.status in (ReceiptStatus.ACCEPTED, ReceiptStatus.DUPLICATE)


def refused(id: str, refusal: EventRefusal) -> EventReceipt:
    return EventReceipt(id=id, status=ReceiptStatus.REFUSED, refusal=refusal)


def refusal_of(problem: Mapping[str, Any]) -> EventRefusal:
    """From problem+json. Raises KeyError when it is none of ours."""
    return EventRefusal(code=str(problem["code"]), title=str(problem["title"]), detail=str(problem.get("detail", "")))
