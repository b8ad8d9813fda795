"""Client library with which the tweet service sends mention events; uses the standard library only."""

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
