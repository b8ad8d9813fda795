"""Push senders for APNs, FCM and Web Push."""

from notifier.adapters.push.apns.provider_token import AppleKey, ProviderTokens
from notifier.adapters.push.apns.sender import ApnsSender
from notifier.adapters.push.fcm.access_token import AccessTokens
from notifier.adapters.push.fcm.sender import FcmSender
from notifier.adapters.push.fcm.service_account import ServiceAccount

__all__ = ["AccessTokens", "ApnsSender", "AppleKey", "FcmSender", "ProviderTokens", "ServiceAccount"]
