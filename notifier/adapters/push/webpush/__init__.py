"""Web Push sender: encrypted per browser, VAPID-signed, restricted to push services."""

from notifier.adapters.push.webpush.sender import WebPush
from notifier.adapters.push.webpush.ssrf_guard import Blocked, Resolver, guarded
from notifier.adapters.push.webpush.vapid import Pairs, Vapid

__all__ = ["Blocked", "Pairs", "Resolver", "Vapid", "WebPush", "guarded"]
