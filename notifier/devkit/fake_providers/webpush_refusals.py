"""Validation of VAPID authorization (RFC 8292), and error responses of Web Push services."""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey

from notifier.ports.push import Reply

MAX_LIFETIME = timedelta(hours=24)
_VAPID = re.compile(r"vapid t=([\w-]+\.[\w-]+\.[\w-]+), ?k=([\w-]+)", re.ASCII)
_SUBJECT = re.compile(r"mailto:[^@\s<>]+@[^@\s<>]+\.[a-z]+|https://[^\s<>@/]+\.[a-z]+(/\S*)?", re.ASCII)


class AuthorizationFault(StrEnum):
    MISSING = "missing authorization"
    UNREADABLE = "not a VAPID header"
    FORGED = "not signed by the key that it names"
    ELSEWHERE = "issued for another push service"
    OVER = "expired, or valid for more than a day"
    NOBODY = "subject is not a contact address"
    OTHER_KEY = "signed by another key than the subscription's"


def fault(authorization: str | None, origin: str | None, key: str, now: datetime) -> AuthorizationFault | None:
    """Return the fault of an authorization header, or None if it is valid.

    `key` is the application server key of the subscription. Without an origin a token for any push service is valid.
    """
    if authorization is None:
        return AuthorizationFault.MISSING
    if not (match := _VAPID.fullmatch(authorization)):
        return AuthorizationFault.UNREADABLE
    claims = _claims(*match.groups())
    if isinstance(claims, AuthorizationFault):
        return claims
    if match[2] != key:
        return AuthorizationFault.OTHER_KEY
    return _fault_of(claims, origin, now)


def _claims(token: str, key: str) -> dict[str, Any] | AuthorizationFault:
    try:
        point = urlsafe_b64decode(key + "=" * (-len(key) % 4))
        public = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)
        # `_fault_of` checks expiry, by this service's clock, and audience, by exact comparison.
        return jwt.decode(token, key=public, algorithms=["ES256"], options={"verify_exp": False, "verify_aud": False})
    except jwt.InvalidSignatureError:
        return AuthorizationFault.FORGED
    except (ValueError, jwt.PyJWTError):
        return AuthorizationFault.UNREADABLE


def _fault_of(claims: dict[str, Any], origin: str | None, now: datetime) -> AuthorizationFault | None:
    expires, subject = claims.get("exp"), claims.get("sub")
    if origin is not None and claims.get("aud") != origin:
        return AuthorizationFault.ELSEWHERE
    if not isinstance(expires, int) or not now.timestamp() < expires <= (now + MAX_LIFETIME).timestamp():
        return AuthorizationFault.OVER
    if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
        return AuthorizationFault.NOBODY
    return None


# Error responses of each push service.


class RefusalDialect(StrEnum):
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
"""Apple's reasons by status."""
ERRNOS: Mapping[int, int] = {400: 111, 401: 109, 404: 102, 410: 103, 413: 104, 429: 201, 503: 201}
"""Mozilla's error numbers by status."""
OTHER_KEY_RESPONSE = (
    "the VAPID credentials in the authorization header do not correspond to the credentials used to create the "
    "subscriptions.\n"
)
"""Google's response to another key. To any other token error it responds "invalid JWT provided"."""


def refusal(dialect: RefusalDialect, cause: int | AuthorizationFault, *, after: str = "") -> Reply:
    """Build the error response for a status or for an authorization fault."""
    status, body = (
        _authorization_refusal(dialect, cause)
        if isinstance(cause, AuthorizationFault)
        else (cause, _status_body(dialect, cause))
    )
    return Reply(status=status, headers={"retry-after": after} if after else {}, body=body.encode())


def _authorization_refusal(dialect: RefusalDialect, authorization_fault: AuthorizationFault) -> tuple[int, str]:
    is_other_key = authorization_fault is AuthorizationFault.OTHER_KEY
    match dialect:
        case RefusalDialect.APPLE:
            return 403, json.dumps({"reason": "VapidPkHashMismatch" if is_other_key else "BadJwtToken"})
        case RefusalDialect.GOOGLE:
            return 403, OTHER_KEY_RESPONSE if is_other_key else "invalid JWT provided\n"
        case RefusalDialect.MOZILLA:
            return 401, _status_body(dialect, 401)


def _status_body(dialect: RefusalDialect, status: int) -> str:
    match dialect:
        case RefusalDialect.APPLE:
            return json.dumps({"reason": REASONS[status]})
        case RefusalDialect.GOOGLE:
            return f"<HTML>\n<HEAD>\n<TITLE>Error {status}</TITLE>\n</HEAD>\n</HTML>\n"
        case RefusalDialect.MOZILLA:
            return json.dumps({"code": status, "errno": ERRNOS[status], "error": "refused", "message": "refused"})
