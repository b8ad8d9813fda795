"""Client library for the tweet service; uses the standard library only."""

from notifier.client.client import Client
from notifier.client.errors import AccessDenied, ClientError, InvalidClientSetting, NotTheService, Unanswered
from notifier.client.event_and_receipt import EventReceipt, EventRefusal, MentionEvent, ReceiptStatus
from notifier.client.in_memory_outbox import Outbox
from notifier.client.quarantine import Quarantine

__all__ = [
    "AccessDenied",
    "Client",
    "ClientError",
    "EventReceipt",
    "EventRefusal",
    "InvalidClientSetting",
    "MentionEvent",
    "NotTheService",
    "Outbox",
    "Quarantine",
    "ReceiptStatus",
    "Unanswered",
]
