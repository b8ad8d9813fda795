"""Fake of Google's token endpoint: exchanges a signed JWT for an access token."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2s
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from notifier.ports.push import Post, Reply

GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ACCEPTED_SCOPES = (
    "https://www.googleapis.com/auth/firebase.messaging",
    "https://www.googleapis.com/auth/cloud-platform",
)
MAX_ASSERTION_LIFETIME = timedelta(hours=1)
MAX_CLOCK_SKEW = timedelta(minutes=5)


@dataclass(slots=True, kw_only=True)
class TokenEndpoint:
    """Token endpoint of one service account. It accepts JWTs that the account's key has signed."""

    email: str
    key_id: str
    key: RSAPublicKey
    audience: str
    lifetime: timedelta = timedelta(seconds=3_599)
    """Lifetime of an access token, as at Google."""
    expiry_by_token: dict[str, datetime] = field(default_factory=dict)

    def answer(self, post: Post, now: datetime) -> Reply:
        refusal = self._refusal(post, now)
        if refusal is not None:
            error, description = refusal
            return _reply(400, {"error": error, "error_description": description})
        token = "ya29." + blake2s(f"{self.email}/{len(self.expiry_by_token)}".encode(), digest_size=16).hexdigest()
        self.expiry_by_token[token] = now + self.lifetime
        lifetime_seconds = int(self.lifetime.total_seconds())
        return _reply(200, {"access_token": token, "expires_in": lifetime_seconds, "token_type": "Bearer"})

    def is_valid(self, authorization: str, now: datetime) -> bool:
        scheme, _, token = authorization.partition(" ")
        return scheme.lower() == "bearer" and token in self.expiry_by_token and now < self.expiry_by_token[token]

    def revoke(self) -> None:
        self.expiry_by_token = dict.fromkeys(self.expiry_by_token, datetime.min.replace(tzinfo=UTC))

    def _refusal(self, post: Post, now: datetime) -> tuple[str, str] | None:
        """Return the error code and description, or None if the request is valid."""
        form = parse_qs(post.body.decode("utf-8", "replace"))
        if dict(post.headers).get("content-type") != "application/x-www-form-urlencoded":
            return "invalid_request", "Required parameter is missing: grant_type"
        if form.get("grant_type") != [GRANT_TYPE]:
            return "unsupported_grant_type", "Invalid grant_type"
        assertion = form.get("assertion", [""])[0]
        try:
            kid = jwt.get_unverified_header(assertion).get("kid")
            claims = jwt.decode(
                assertion,
                self.key,
                algorithms=["RS256"],
                audience=self.audience,
                options={"verify_iat": False, "verify_exp": False},
            )
            issued, expires = (datetime.fromtimestamp(claims[name], UTC) for name in ("iat", "exp"))
        except jwt.InvalidSignatureError:
            return "invalid_grant", "Invalid JWT Signature."
        except (jwt.PyJWTError, KeyError, ValueError, TypeError, OverflowError):
            return "invalid_grant", "Invalid JWT: Failed audience check or malformed."
        if kid != self.key_id or claims.get("iss") != self.email:
            return "invalid_grant", "Invalid grant: account not found"
        if not {*str(claims.get("scope")).split()} & {*ACCEPTED_SCOPES}:
            return "invalid_scope", "Invalid OAuth scope or ID token audience provided."
        if expires - issued > MAX_ASSERTION_LIFETIME or not issued - MAX_CLOCK_SKEW <= now <= expires:
            return (
                "invalid_grant",
                "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
                "Check your iat and exp values in the JWT claim.",
            )
        return None


def _reply(status: int, body: dict[str, object]) -> Reply:
    return Reply(status=status, headers={"content-type": "application/json"}, body=json.dumps(body).encode())
