"""Errors of the client, as one tree.

ClientError
├── InvalidClientSetting  the URL or the key is malformed; nothing was sent
├── AccessDenied          the service rejects the key
├── NotTheService         another server responds at that URL
└── Unanswered            the service gave no final response in time

A refused event is not an error: its receipt has the reason. The first line of an error's docstring is its message.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from notifier.client.event_and_receipt import EventReceipt, MentionEvent


class ClientError(Exception):
    """The events could not be sent."""

    receipts: "Sequence[EventReceipt]" = ()
    """Receipts that were received before the error, in the order of the events."""
    events: "Sequence[MentionEvent]" = ()
    """Events without a receipt, in order. Some may have arrived. Sending all of them again, unchanged, is safe."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail)
        self.detail = detail

    def __str__(self) -> str:
        title = (type(self).__doc__ or "").strip().split("\n")[0]
        return f"{title} {self.detail}".strip()


class InvalidClientSetting(ClientError):
    """The address or the key of the notification service can't be used."""


class AccessDenied(ClientError):
    """The notification service rejects this key."""


class NotTheService(ClientError):
    """The response does not come from a notification service."""


class Unanswered(ClientError):
    """The notification service did not take the events in time; they may be sent again."""

    def __init__(self, detail: str = "", *, retry_after: float = 0.0, status: int = 0) -> None:
        super().__init__(detail)
        self.status = status
        """HTTP status of the last attempt's response; 0 without a response."""
        self.retry_after = retry_after
        """Seconds to wait before the next attempt, as the service requested; at most MAX_RETRY_AFTER_SECONDS."""
