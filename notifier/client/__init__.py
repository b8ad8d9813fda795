"""What the tweet service imports to say who was mentioned; it needs nothing but Python."""

from notifier.client.client import Client
from notifier.client.errors import BadSetting, ClientError, Denied, NotTheService, Unanswered
from notifier.client.event import Event, Receipt, Refusal, Status
from notifier.client.outbox import Outbox
from notifier.client.quarantine import Aside

__all__ = [
    "Aside",
    "BadSetting",
    "Client",
    "ClientError",
    "Denied",
    "Event",
    "NotTheService",
    "Outbox",
    "Receipt",
    "Refusal",
    "Status",
    "Unanswered",
]
