"""What the tweet service imports to say who was mentioned; it needs nothing but Python."""

from notifier.client.client import Client
from notifier.client.errors import AccessDenied, ClientError, InvalidClientSetting, NotTheService, Unanswered
from notifier.client.event import EventReceipt, EventRefusal, MentionEvent, ReceiptStatus
from notifier.client.outbox import Outbox
from notifier.client.quarantine import Aside

__all__ = [
    "AccessDenied",
    "Aside",
    "Client",
    "ClientError",
    "EventReceipt",
    "EventRefusal",
    "InvalidClientSetting",
    "MentionEvent",
    "NotTheService",
    "Outbox",
    "ReceiptStatus",
    "Unanswered",
]
