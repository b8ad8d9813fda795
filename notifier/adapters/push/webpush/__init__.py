"""Web Push: encrypted for one browser, signed by one key, and sent nowhere but to push services."""

from notifier.adapters.push.webpush.sender import WebPush
from notifier.adapters.push.webpush.ssrf_guard import Blocked, Resolver, guarded
from notifier.adapters.push.webpush.vapid import Pairs, Vapid

__all__ = ["Blocked", "Pairs", "Resolver", "Vapid", "WebPush", "guarded"]
