"""Web Push sender: encrypted per browser, VAPID-signed, restricted to push services."""

from notifier.adapters.push.webpush.encrypted_message import MessageKeyPairs
from notifier.adapters.push.webpush.sender import WebPushSender
from notifier.adapters.push.webpush.ssrf_guard import BlockedAddress, Resolver, guarded
from notifier.adapters.push.webpush.vapid import Vapid

__all__ = ["BlockedAddress", "MessageKeyPairs", "Resolver", "Vapid", "WebPushSender", "guarded"]
