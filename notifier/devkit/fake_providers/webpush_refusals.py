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

MAX_TOKEN_LIFETIME = timedelta(hours=24)
_VAPID = re.compile(r"vapid t=([\w-]+\.[\w-]+\.[\w-]+), ?k=([\w-]+)", re.ASCII)
_SUBJECT = re.compile(r"mailto:[^@\s<>]+@[^@\s<>]+\.[a-z]+|https://[^\s<>@/]+\.[a-z]+(/\S*)?", re.ASCII)


class AuthorizationFault(StrEnum):
    MISSING = "missing authorization"
    MALFORMED = "not a VAPID header"
    WRONG_SIGNATURE = "not signed by the key that it names"
    WRONG_AUDIENCE = "issued for another push service"
    WRONG_EXPIRY = "expired, or valid for more than a day"
    WRONG_SUBJECT = "subject is not a contact address"
    OTHER_KEY = "signed by another key than the subscription's"


def authorization_fault(
    authorization: str | None, origin: str | None, application_server_key: str, now: datetime
) -> AuthorizationFault | None:
    """Return the fault of an authorization header, or None if it is valid.

    `origin` is the push service for which the token must be issued; None accepts any. `application_server_key` is the
    subscription's key.
    """
    if authorization is None:
        return AuthorizationFault.MISSING
    if not (match := _VAPID.fullmatch(authorization)):
        return AuthorizationFault.MALFORMED
    claims = _claims(*match.groups())
    if isinstance(claims, AuthorizationFault):
        return claims
    if match[2] != application_server_key:
        return AuthorizationFault.OTHER_KEY
    return _claim_fault(claims, origin, now)


def _claims(token: str, key: str) -> dict[str, Any] | AuthorizationFault:
    try:
        point = urlsafe_b64decode(key + "=" * (-len(key) % 4))
        public = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)
        # `_claim_fault` checks the expiry by this service's clock, and compares the audience exactly.
        return jwt.decode(token, key=public, algorithms=["ES256"], options={"verify_exp": False, "verify_aud": False})
    except jwt.InvalidSignatureError:
        return AuthorizationFault.WRONG_SIGNATURE
    except (ValueError, jwt.PyJWTError):
        return AuthorizationFault.MALFORMED


def _claim_fault(claims: dict[str, Any], origin: str | None, now: datetime) -> AuthorizationFault | None:
    expires, subject = claims.get("exp"), claims.get("sub")
    if origin is not None and claims.get("aud") != origin:
        return AuthorizationFault.WRONG_AUDIENCE
    if not isinstance(expires, int) or not now.timestamp() < expires <= (now + MAX_TOKEN_LIFETIME).timestamp():
        return AuthorizationFault.WRONG_EXPIRY
    if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
        return AuthorizationFault.WRONG_SUBJECT
    return None


# Error responses of each push service.


class RefusalDialect(StrEnum):
    APPLE = "apple"
    GOOGLE = "google"
    MOZILLA = "mozilla"


APPLE_REASONS: Mapping[int, str] = {
    400: "BadWebPushRequest",
    404: "BadPath",
    410: "Unregistered",
    413: "PayloadTooLarge",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}
MOZILLA_ERRNOS: Mapping[int, int] = {400: 111, 401: 109, 404: 102, 410: 103, 413: 104, 429: 201, 503: 201}
GOOGLE_OTHER_KEY_RESPONSE = (
    "the VAPID credentials in the authorization header do not correspond to the credentials used to create the "
    "subscriptions.\n"
)
"""Google's response to OTHER_KEY. To every other fault it responds "invalid JWT provided"."""


def refusal(dialect: RefusalDialect, cause: int | AuthorizationFault, *, retry_after: str = "") -> Reply:
    status, body = (
        _authorization_refusal(dialect, cause)
        if isinstance(cause, AuthorizationFault)
        else (cause, _status_body(dialect, cause))
    )
    return Reply(status=status, headers={"retry-after": retry_after} if retry_after else {}, body=body.encode())


def _authorization_refusal(dialect: RefusalDialect, fault: AuthorizationFault) -> tuple[int, str]:
    is_other_key = fault is AuthorizationFault.OTHER_KEY
    match dialect:
        case RefusalDialect.APPLE:
            return 403, json.dumps({"reason": "VapidPkHashMismatch" if is_other_key else "BadJwtToken"})
        case RefusalDialect.GOOGLE:
            return 403, GOOGLE_OTHER_KEY_RESPONSE if is_other_key else "invalid JWT provided\n"
        case RefusalDialect.MOZILLA:
            return 401, _status_body(dialect, 401)


def _status_body(dialect: RefusalDialect, status: int) -> str:
    match dialect:
        case RefusalDialect.APPLE:
            return json.dumps({"reason": APPLE_REASONS[status]})
        case RefusalDialect.GOOGLE:
            return f"<HTML>\n<HEAD>\n<TITLE>Error {status}</TITLE>\n</HEAD>\n</HTML>\n"
        case RefusalDialect.MOZILLA:
            return json.dumps(
                {"code": status, "errno": MOZILLA_ERRNOS[status], "error": "refused", "message": "refused"}
            )
