"""Read Google service account files, and sign access token requests."""

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Self
from urllib.parse import urlencode, urlsplit

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from notifier.adapters.push.jwt import parse_private_key
from notifier.domain.errors import BadSetting
from notifier.ports.push import Post

SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_LIFETIME = timedelta(hours=1)
"""Lifetime of the signed assertion that requests a token: Google's maximum."""
_PROJECT_PATTERN = re.compile(r"[a-z0-9][a-z0-9.:-]{0,99}")
"""Project id, safe in a path."""
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
"""Hosts for which a `token_uri` may be plain HTTP."""


class _ServiceAccountFile(msgspec.Struct):
    """Required fields of a service account file. Other fields are ignored."""

    type: str
    project_id: str
    private_key_id: str
    private_key: str
    client_email: str
    token_uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccount:
    project: str
    email: str
    key_id: str
    key: RSAPrivateKey = field(repr=False)
    token_origin: str
    token_path: str
    audience: str
    """Token URI exactly as written in the file: Google compares it character by character."""

    @classmethod
    def read(cls, text: bytes) -> Self:
        """Parse a service account file. Raises BadSetting."""
        file = _parse_file(text)
        if file.type != "service_account":
            raise BadSetting("The service account of FCM must have the type service_account.")
        if not _PROJECT_PATTERN.fullmatch(file.project_id):
            raise BadSetting("The service account of FCM has no valid project_id.")
        key_name = "The private_key in the service account of FCM"
        pem = file.private_key.encode("utf-8", "replace")
        origin, path = _parse_token_uri(file.token_uri)
        return cls(
            project=file.project_id,
            email=file.client_email,
            key_id=file.private_key_id,
            key=parse_private_key(pem, RSAPrivateKey, key_name=key_name, required_kind="RSA"),  # type: ignore[type-abstract]  # only for isinstance
            token_origin=origin,
            token_path=path,
            audience=file.token_uri,
        )

    def token_request(self, now: datetime) -> Post:
        """Return the signed request for an access token."""
        issued_at = int(now.timestamp())
        claims = {
            "iss": self.email,
            "scope": SCOPE,
            "aud": self.audience,
            "iat": issued_at,
            "exp": issued_at + int(ASSERTION_LIFETIME.total_seconds()),
        }
        assertion = jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": self.key_id})
        return Post(
            origin=self.token_origin,
            path=self.token_path,
            headers=(("content-type", "application/x-www-form-urlencoded"),),
            body=urlencode({"grant_type": GRANT_TYPE, "assertion": assertion}).encode(),
        )


def _parse_file(text: bytes) -> _ServiceAccountFile:
    # Drop the cause and its message: they may quote the file.
    try:
        return msgspec.json.decode(text, type=_ServiceAccountFile)
    except (msgspec.ValidationError, RecursionError):
        names = ", ".join(_ServiceAccountFile.__struct_fields__)
        raise BadSetting(f"The service account of FCM must contain {names}, all as text.") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadSetting("The service account of FCM is not valid JSON.") from None


def _parse_token_uri(address: str) -> tuple[str, str]:
    """Return the origin and path of the token URI. Raises BadSetting.

    Only https is allowed, except to a loopback address: the signed assertion gives access to the project.
    """
    try:
        url = urlsplit(address)
        port = url.port or {"https": 443, "http": 80}[url.scheme]
    except (ValueError, KeyError):
        raise BadSetting("The token_uri in the service account of FCM is not a URL.") from None
    if not url.hostname or (url.scheme == "http" and url.hostname not in LOOPBACK_HOSTS):
        raise BadSetting("The token_uri in the service account of FCM must be https.")
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return f"{url.scheme}://{host}:{port}", url.path or "/"
