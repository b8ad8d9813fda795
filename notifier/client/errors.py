"""What can keep events from being answered, as one tree; an error's docstring is its message.

ClientError
├── BadSetting      the address or the key can't be used; nothing was sent
├── Denied          the key is not the service's
├── NotTheService   somebody else answers at that address
└── Unanswered      the time is up, and the service couldn't or didn't answer

A refused event is no error: its receipt says so.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from notifier.client.event import EventReceipt, MentionEvent


class ClientError(Exception):
    """The events could not be sent."""

    receipts: "Sequence[EventReceipt]" = ()
    """Of the events that were answered before, in their order."""
    events: "Sequence[MentionEvent]" = ()
    """The others, in their order. Some may have arrived; to send them all again, as they are, is safe."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail)
        self.detail = detail

    def __str__(self) -> str:
        title = (type(self).__doc__ or "").strip().split("\n")[0]
        return f"{title} {self.detail}".strip()


class InvalidClientSetting(ClientError):
    """The address or the key of the notification service can't be used."""


class AccessDenied(ClientError):
    """The notification service doesn't take this key."""


class NotTheService(ClientError):
    """What answered is not the notification service."""


class Unanswered(ClientError):
    """The notification service did not take the events in time; they may be sent again."""

    def __init__(self, detail: str = "", *, asked: float = 0.0, status: int = 0) -> None:
        super().__init__(detail)
        self.status = status
        """Of the last answer; 0 when there was none."""
        self.asked = asked
        """Seconds for which it wants to be left alone."""
