"""What push services answer, and what follows from it: a table.

By RFC 8030 and 8292, Apple's "Sending web push notifications in web apps and browsers", Mozilla's autopush, and what is
seen of Google's, as of 2026.
"""

from collections.abc import Mapping
from datetime import datetime

from notifier.adapters.push.requests import as_asked, in_a_while, read
from notifier.adapters.push.webpush.vapid import KeyReputation
from notifier.domain.push.receipt import Accepted, ConfigError, DropToken, PayloadError, Receipt, RetryAt
from notifier.ports.push import Reply

BAD_TOKEN: Mapping[str, str] = {
    "BadJwtToken": "badjwttoken",  # Apple, of a subject that it can't reach, too
    "BadVapidPublicKey": "badvapidpublickey",  # Apple
    "InvalidJwt": "invalid jwt",  # Google
}
"""What no subscription can bring about: reason, and how a body says it."""
OTHER_KEY: Mapping[str, str] = {
    "VapidPkHashMismatch": "vapidpkhashmismatch",  # Apple
    "OtherKey": "do not correspond to the credentials",  # Google
}
"""The subscription was made for another key than ours."""
NO_KEY: Mapping[str, str] = {"UnauthorizedRegistration": "unauthorizedregistration"}
"""Google, of a token as of a subscription that was made for none."""
MOZILLA = "errno 109"
"""Of a token as of another key."""
_WORDS = {**BAD_TOKEN, **OTHER_KEY, **NO_KEY}
_LATER = {406, 408, 421, 425, 429}
"""Beside what is wrong with the servers. 406 is Windows' word for too many."""
WINDOWS_SAYS, OWN_LIMIT = "x-wns-notificationstatus", "channelthrottled"
"""Where it is one browser that gets too many."""
_FOR_GOOD = {301, 308}
_READ = 4096
"""Bytes of an answer: what matters is said in a few words."""


def receipt_of(reply: Reply, origin: str, standing: KeyReputation, now: datetime, chance: float) -> Receipt:
    if 200 <= reply.status < 300:
        standing.taken(origin)
        return Accepted()
    reason, again = _reason(reply), as_asked(reply.headers, now) or in_a_while(now, chance)
    match reply.status:
        case 401 | 403:
            return _refused(reason, origin, standing, again)
        case 400 if reason in _WORDS:
            return _refused(reason, origin, standing, again)
        case 404 | 410:
            return DropToken(reason=reason)
        case status if 300 <= status < 400:
            return _elsewhere(status, again)
        case status if status in _LATER or status >= 500:
            # Of 429 nobody says whom it is about: the service is asked less then.
            return RetryAt(at=again, reason=reason, alone=reply.headers.get(WINDOWS_SAYS, "").lower() == OWN_LIMIT)
        case _:  # 413 among them
            return PayloadError(reason=reason)


def _refused(reason: str, origin: str, standing: KeyReputation, again: datetime) -> Receipt:
    named = reason in _WORDS or reason == MOZILLA
    if standing.refused(origin, named=named) or reason in BAD_TOKEN:
        return ConfigError(reason=f"{reason}: {origin} refuses who sends; look at the key, its subject and the clock.")
    # Never for us, if the key is good for others: only a new subscription brings it back.
    if reason in OTHER_KEY:
        return DropToken(reason=reason)
    return RetryAt(at=again, reason=reason, alone=True)


def _elsewhere(status: int, again: datetime) -> Receipt:
    """A redirect is never followed: it would lead past the list of push services, and nothing of Web Push has one. What
    has moved for good is dropped, as its browser has to subscribe anew; what hasn't may be a push service in trouble,
    which must not cost everybody their subscription."""
    reason = f"status {status}: a redirect, which isn't followed"
    return DropToken(reason=reason) if status in _FOR_GOOD else RetryAt(at=again, reason=reason)


def _reason(reply: Reply) -> str:
    """One of the words above, a number of Mozilla's, or the status; nothing else of what was answered is kept."""
    body = reply.body[:_READ]
    lowered = body.decode("utf-8", "replace").lower()
    for reason, said in _WORDS.items():
        if said in lowered:
            return reason
    number = read(body).get("errno")
    known = isinstance(number, int) and not isinstance(number, bool) and 0 < number < 1000
    return f"errno {number}" if known else f"status {reply.status}"
