"""Convert APNs responses to receipts.

The reasons and statuses are those of "Handling notification responses from APNs", as of 2026.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from notifier.adapters.push.request_rounds_and_replies import (
    error_code,
    parse_object,
    retry_after_time,
    soon_with_jitter,
)
from notifier.domain.push.receipt import Accepted, ConfigError, DropDevice, PayloadError, Receipt, RetryAt
from notifier.ports.push import Reply

EXPIRED_PROVIDER_TOKEN = "ExpiredProviderToken"

INVALID_TOKEN_REASONS = {"BadDeviceToken", "DeviceTokenNotForTopic", "ExpiredToken", "Unregistered"}
"""Reasons for which the device token is dropped: the device is gone, or belongs to another app.

A sandbox token sent to production, or the reverse, also gets BadDeviceToken.
"""
DEVICE_LIMIT_REASON = "TooManyRequests"
"""Reason for the rate limit of a single device. Other devices are not affected."""
RETRYABLE_REASONS = {"IdleTimeout", "InternalServerError", "ServiceUnavailable", "Shutdown", DEVICE_LIMIT_REASON}
CONFIGURATION_ERRORS: Mapping[str, str] = {
    EXPIRED_PROVIDER_TOKEN: "Apple rejects even a new provider token as expired: this machine's clock is behind.",
    "InvalidProviderToken": "key, key id and team id do not belong together, the key was revoked, or this machine's "
    "clock is ahead.",
    "MissingProviderToken": "a proxy between this machine and Apple removes the authorization header.",
    "TooManyProviderTokenUpdates": "other senders use this key and create a token for each alert.",
    "TopicDisallowed": "the key may not send to this app: it belongs to another team, or is restricted to other apps.",
    "BadEnvironmentKeyIdInToken": "the key is restricted to the other environment.",
    "BadEnvironmentKeyInToken": "the key is restricted to the other environment.",
    "UnrelatedKeyIdInToken": "two keys are used on one connection.",
    "BadCertificate": "a proxy between this machine and Apple presents a certificate.",
    "BadCertificateEnvironment": "a proxy between this machine and Apple presents a certificate.",
    "Forbidden": "Apple gives no further reason.",
}
"""Reasons caused by the sender's configuration and not by a device, with hints for the operator.

Apple's documentation and its servers spell BadEnvironmentKey… differently.
"""

_INVALID_REQUEST_STATUSES = {400, 404, 413}
"""Statuses of invalid requests, if the reason is in none of the tables above. A retry would be invalid, too."""
_MAX_TIMESTAMP_DIGITS = 15
"""Maximum digits of a timestamp in milliseconds since 1970. Longer numbers are ignored."""


def receipt_of(reply: Reply, now: datetime, random_number: float) -> Receipt:
    """Return the receipt for a response of APNs.

    An unexpected status probably comes from an intermediary: it gets a configuration error, which drops no device.
    """
    if reply.status == 200:
        return Accepted()
    body = parse_object(reply.body)
    reason = error_code(body.get("reason")) or f"status {reply.status}"
    if reason in INVALID_TOKEN_REASONS or reply.status == 410:
        return DropDevice(at=_invalid_since(body, now), reason=reason)
    if reason in CONFIGURATION_ERRORS or reply.status == 403:
        return ConfigError(reason=f"{reason}: {CONFIGURATION_ERRORS.get(reason, 'Apple rejects the sender.')}")
    # Apple does not document Retry-After, but the header is honored if present.
    if reason in RETRYABLE_REASONS or reply.status == 429 or reply.status >= 500:
        retry_at = retry_after_time(reply.headers, now) or soon_with_jitter(now, random_number)
        return RetryAt(at=retry_at, reason=reason, is_device_only=reason == DEVICE_LIMIT_REASON)
    if reply.status in _INVALID_REQUEST_STATUSES:
        return PayloadError(reason=reason)
    return ConfigError(reason=f"{reason}: the response is not from Apple, or its API has changed.")


def is_token_expired(reply: Reply) -> bool:
    return reply.status == 403 and parse_object(reply.body).get("reason") == EXPIRED_PROVIDER_TOKEN


def _invalid_since(body: Mapping[str, Any], now: datetime) -> datetime | None:
    """Return the time since which the token is invalid.

    At most `now`: Apple's clock may be ahead, and a later time would drop a device that registers again meanwhile.
    """
    timestamp = body.get("timestamp")
    if not isinstance(timestamp, int) or isinstance(timestamp, bool) or not 0 < timestamp < 10**_MAX_TIMESTAMP_DIGITS:
        return None
    return min(datetime.fromtimestamp(timestamp // 1000, UTC).replace(microsecond=timestamp % 1000 * 1000), now)
