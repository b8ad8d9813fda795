"""Convert responses of Web Push services to receipts.

Sources, as of 2026: RFC 8030 and 8292, Apple's "Sending web push notifications in web apps and browsers", Mozilla's
autopush, and observed answers of Google.
"""

from collections.abc import Mapping
from datetime import datetime

from notifier.adapters.push.request_rounds_and_replies import parse_object, retry_after_time, soon_with_jitter
from notifier.adapters.push.webpush.vapid import KeyReputation
from notifier.domain.push.receipt import Accepted, ConfigError, DropDevice, PayloadError, Receipt, RetryAt
from notifier.ports.push import Reply

BAD_TOKEN: Mapping[str, str] = {
    "BadJwtToken": "badjwttoken",  # Apple, also for a subject that it cannot reach
    "BadVapidPublicKey": "badvapidpublickey",  # Apple
    "InvalidJwt": "invalid jwt",  # Google
}
"""Refusals that blame the sender, not the subscription: each reason, and the phrase in the body that identifies it."""
OTHER_KEY: Mapping[str, str] = {
    "VapidPkHashMismatch": "vapidpkhashmismatch",  # Apple
    "OtherKey": "do not correspond to the credentials",  # Google
}
"""Refusals of a subscription that was created for another key."""
NO_KEY: Mapping[str, str] = {"UnauthorizedRegistration": "unauthorizedregistration"}
"""Refusal by Google of a bad token, or of a subscription that was created without a key."""
MOZILLA_REFUSAL = "errno 109"
"""Refusal by Mozilla of a bad token, or of a subscription for another key."""
_KNOWN_PHRASES = {**BAD_TOKEN, **OTHER_KEY, **NO_KEY}
_RETRYABLE_STATUSES = {406, 408, 421, 425, 429}
"""Statuses that are retried, in addition to server errors. 406 is the rate limit of Windows."""
WINDOWS_STATUS_HEADER, WINDOWS_DEVICE_LIMIT = "x-wns-notificationstatus", "channelthrottled"
"""Header and value with which Windows reports the rate limit of a single browser."""
_PERMANENT_REDIRECTS = {301, 308}
_MAX_SEARCHED_BYTES = 4096
"""Bytes of a response that are searched. Real responses are short."""


def receipt_of(reply: Reply, origin: str, reputation: KeyReputation, now: datetime, random_number: float) -> Receipt:
    """Return the receipt for a response of the push service at `origin`, and update the key's reputation."""
    if 200 <= reply.status < 300:
        reputation.record_acceptance(origin)
        return Accepted()
    reason, retry_at = _reason(reply), retry_after_time(reply.headers, now) or soon_with_jitter(now, random_number)
    match reply.status:
        case 401 | 403:
            return _refused(reason, origin, reputation, retry_at)
        case 400 if reason in _KNOWN_PHRASES:
            return _refused(reason, origin, reputation, retry_at)
        case 404 | 410:
            return DropDevice(reason=reason)
        case status if 300 <= status < 400:
            return _redirected(status, retry_at)
        case status if status in _RETRYABLE_STATUSES or status >= 500:
            # Only Windows marks the rate limit of a single browser. An unmarked one counts against the push service.
            return RetryAt(
                at=retry_at,
                reason=reason,
                is_device_only=reply.headers.get(WINDOWS_STATUS_HEADER, "").lower() == WINDOWS_DEVICE_LIMIT,
            )
        case _:  # including 413
            return PayloadError(reason=reason)


def _refused(reason: str, origin: str, reputation: KeyReputation, retry_at: datetime) -> Receipt:
    mentions_key = reason in _KNOWN_PHRASES or reason == MOZILLA_REFUSAL
    is_key_to_blame = reputation.record_refusal(origin, mentions_key=mentions_key)
    if is_key_to_blame or reason in BAD_TOKEN:
        return ConfigError(reason=f"{reason}: {origin} rejects the sender; check the key, its subject and the clock.")
    if reason in OTHER_KEY:
        # This subscription never works with the key: the browser must subscribe again.
        return DropDevice(reason=reason)
    # The cause is unknown: retry this device only.
    return RetryAt(at=retry_at, reason=reason, is_device_only=True)


def _redirected(status: int, retry_at: datetime) -> Receipt:
    """Return the receipt of a redirect, which is never followed.

    The new address may not belong to an allowed push service. After a permanent redirect the browser must subscribe
    again. A temporary redirect may be an outage, which must not cost all users their subscriptions.
    """
    reason = f"status {status}: redirects are not followed"
    return DropDevice(reason=reason) if status in _PERMANENT_REDIRECTS else RetryAt(at=retry_at, reason=reason)


def _reason(reply: Reply) -> str:
    """Return a known reason, an error number of Mozilla, or the status. The rest of the response is dropped."""
    body = reply.body[:_MAX_SEARCHED_BYTES]
    lowered = body.decode("utf-8", "replace").lower()
    for reason, phrase in _KNOWN_PHRASES.items():
        if phrase in lowered:
            return reason
    number = parse_object(body).get("errno")
    is_error_number = isinstance(number, int) and not isinstance(number, bool) and 0 < number < 1000
    return f"errno {number}" if is_error_number else f"status {reply.status}"
