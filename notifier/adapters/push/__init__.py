"""Alerts on phones: senders for Apple's and Google's servers, over any HTTP/2."""

from notifier.adapters.push.access_token import AccessTokens
from notifier.adapters.push.apns import Apns
from notifier.adapters.push.fcm import Fcm
from notifier.adapters.push.provider_token import AppleKey, ProviderTokens
from notifier.adapters.push.service_account import ServiceAccount

__all__ = ["AccessTokens", "Apns", "AppleKey", "Fcm", "ProviderTokens", "ServiceAccount"]
