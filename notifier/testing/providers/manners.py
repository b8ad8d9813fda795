"""Manners: how the push services word what they refuse."""

import json
from collections.abc import Mapping
from enum import StrEnum

from notifier.ports.push import Reply
from notifier.testing.providers.vapid import Fault


class Manner(StrEnum):
    APPLE = "apple"
    GOOGLE = "google"
    MOZILLA = "mozilla"


REASONS: Mapping[int, str] = {
    400: "BadWebPushRequest",
    404: "BadPath",
    410: "Unregistered",
    413: "PayloadTooLarge",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}
"""Apple's."""
ERRNOS: Mapping[int, int] = {400: 111, 401: 109, 404: 102, 410: 103, 413: 104, 429: 201, 503: 201}
"""Mozilla's."""
OTHER_KEY = (
    "the VAPID credentials in the authorization header do not correspond to the credentials used to create the "
    "subscriptions.\n"
)
"""Google's, as it says "invalid JWT provided" to everything else about a token, and little to the rest."""


def refusal(manner: Manner, why: int | Fault, *, after: str = "") -> Reply:
    """A status, or what is wrong with an authorization."""
    status, body = _of_token(manner, why) if isinstance(why, Fault) else (why, _of_status(manner, why))
    return Reply(status=status, headers={"retry-after": after} if after else {}, body=body.encode())


def _of_token(manner: Manner, wrong: Fault) -> tuple[int, str]:
    other = wrong is Fault.OTHER_KEY
    match manner:
        case Manner.APPLE:
            return 403, json.dumps({"reason": "VapidPkHashMismatch" if other else "BadJwtToken"})
        case Manner.GOOGLE:
            return 403, OTHER_KEY if other else "invalid JWT provided\n"
        case Manner.MOZILLA:
            return 401, _of_status(manner, 401)


def _of_status(manner: Manner, status: int) -> str:
    match manner:
        case Manner.APPLE:
            return json.dumps({"reason": REASONS[status]})
        case Manner.GOOGLE:
            return f"<HTML>\n<HEAD>\n<TITLE>Error {status}</TITLE>\n</HEAD>\n</HTML>\n"
        case Manner.MOZILLA:
            return json.dumps({"code": status, "errno": ERRNOS[status], "error": "refused", "message": "refused"})
