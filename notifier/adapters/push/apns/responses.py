"""What Apple answers, and what follows from it: a table.

The reasons and their statuses are those of "Handling notification responses from APNs", as of 2026.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from notifier.adapters.push import requests as answers
from notifier.adapters.push.requests import as_asked, in_a_while
from notifier.domain.push.receipt import Accepted, ConfigError, DropToken, PayloadError, Receipt, RetryAt
from notifier.ports.push import Reply

EXPIRED = "ExpiredProviderToken"

DROPS = {"BadDeviceToken", "DeviceTokenNotForTopic", "ExpiredToken", "Unregistered"}
"""Nobody is there, or nobody who could read it. BadDeviceToken is what a token of the other environment gets, too."""
OWN_LIMIT = "TooManyRequests"
"""To this device, of which Apple takes no more for a while; the others wait for nothing."""
AGAIN = {"IdleTimeout", "InternalServerError", "ServiceUnavailable", "Shutdown", OWN_LIMIT}
CONFIGURES: Mapping[str, str] = {
    EXPIRED: "Apple finds our token too old, a new one too: this machine's clock is behind.",
    "InvalidProviderToken": "key, key id and team id don't belong together, the key was revoked, or this machine's "
    "clock is ahead.",
    "MissingProviderToken": "something between Apple and us takes the authorization away.",
    "TooManyProviderTokenUpdates": "others send with this key and make a token for each alert.",
    "TopicDisallowed": "the key may not send to this app: it is another team's, or restricted to other apps.",
    "BadEnvironmentKeyIdInToken": "the key is restricted to the other environment.",
    "BadEnvironmentKeyInToken": "the key is restricted to the other environment.",
    "UnrelatedKeyIdInToken": "two keys send on one connection.",
    "BadCertificate": "something between Apple and us presents a certificate.",
    "BadCertificateEnvironment": "something between Apple and us presents a certificate.",
    "Forbidden": "Apple says no more.",
}
"""Whoever it was for: no device is to blame. With what to look at. Apple's pages spell BadEnvironmentKey… one way and
its servers another."""

_OUR_MISTAKES = {400, 404, 413}
"""Where the reason is none of those above: something that we wrote, and will write again."""
_DIGITS = 15
"""More than this many are no milliseconds since 1970."""


def receipt_of(reply: Reply, now: datetime, chance: float) -> Receipt:
    """Where the body can't be read the status decides, and the less is done the less is known: a status that Apple has
    none of comes from somebody else."""
    if reply.status == 200:
        return Accepted()
    body = answers.read(reply.body)
    reason = answers.name(body.get("reason")) or f"status {reply.status}"
    if reason in DROPS or reply.status == 410:
        return DropToken(at=_since(body, now), reason=reason)
    if reason in CONFIGURES or reply.status == 403:
        return ConfigError(reason=f"{reason}: {CONFIGURES.get(reason, 'Apple refuses who sends.')}")
    # Apple says nothing of Retry-After, and is heard if it says one.
    if reason in AGAIN or reply.status == 429 or reply.status >= 500:
        again = as_asked(reply.headers, now) or in_a_while(now, chance)
        return RetryAt(at=again, reason=reason, alone=reason == OWN_LIMIT)
    if reply.status in _OUR_MISTAKES:
        return PayloadError(reason=reason)
    return ConfigError(reason=f"{reason}: this isn't Apple that answers, or not as it used to.")


def is_expired(reply: Reply) -> bool:
    return reply.status == 403 and answers.read(reply.body).get("reason") == EXPIRED


def _since(body: Mapping[str, Any], now: datetime) -> datetime | None:
    """In milliseconds. Never later than now: by a clock that is ahead of ours the device might be registered again
    before it was gone."""
    stamp = body.get("timestamp")
    if not isinstance(stamp, int) or isinstance(stamp, bool) or not 0 < stamp < 10**_DIGITS:
        return None
    return min(datetime.fromtimestamp(stamp // 1000, UTC).replace(microsecond=stamp % 1000 * 1000), now)
