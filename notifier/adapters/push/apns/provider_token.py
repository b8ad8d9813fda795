"""APNs provider tokens, which processes sign without coordination."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from notifier.adapters.push.jwt import es256_token, parse_es256_key
from notifier.domain.errors import BadSetting

ISSUE_INTERVAL = timedelta(minutes=30)
"""A token's issue time is normally rounded down to a multiple of this interval, so all processes sign the same token.

Apple accepts a token for an hour.
"""
MIN_TOKEN_INTERVAL = timedelta(minutes=20)
"""Minimum time between two renewals, because Apple accepts a new token at most every 20 minutes."""
_APPLE_ID_PATTERN = re.compile(r"[A-Z0-9]{10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppleKey:
    """APNs key as issued by Apple."""

    key: EllipticCurvePrivateKey = field(repr=False)
    key_id: str
    team_id: str

    @classmethod
    def read(cls, pem: bytes, *, key_id: str, team_id: str) -> Self:
        """Parse and check the key. Raises BadSetting."""
        for name, value in (("key id", key_id), ("team id", team_id)):
            if not _APPLE_ID_PATTERN.fullmatch(value):
                # Do not quote the value: it may be the key in the wrong setting.
                raise BadSetting(
                    f"The {name} of APNs must have ten characters, each a capital letter or a digit; "
                    "the configured value does not."
                )
        required_kind = "an elliptic curve key on P-256, as in Apple's AuthKey_….p8,"
        return cls(
            key=parse_es256_key(pem, key_name="The key of APNs", required_kind=required_kind),
            key_id=key_id,
            team_id=team_id,
        )

    def token(self, issued_at: datetime) -> str:
        claims = {"iss": self.team_id, "iat": int(issued_at.timestamp())}
        return es256_token(self.key, {"alg": "ES256", "kid": self.key_id}, claims)


@dataclass(slots=True)
class ProviderTokens:
    """Token source of one process."""

    key: AppleKey
    _last_signed: tuple[datetime, str] | None = None
    """Issue time and text of the last signed token."""
    _renewed_at: datetime | None = None
    """Issue time of the last token that `renew` issued."""

    def current(self, now: datetime) -> str:
        renewed_at = self._renewed_at
        issued_at = (
            renewed_at
            if renewed_at is not None and timedelta() <= now - renewed_at < ISSUE_INTERVAL
            else _last_issue_time(now)
        )
        if self._last_signed is None or self._last_signed[0] != issued_at:
            self._last_signed = (issued_at, self.key.token(issued_at))
        return self._last_signed[1]

    def renew(self, refused_token: str, now: datetime) -> bool:
        """Renew a token that Apple refused as expired. Return whether there is a different token to try.

        This machine's clock may be behind by more than half an hour. So the issue time of the new token is not rounded
        down. `renew` issues at most one token in MIN_TOKEN_INTERVAL.
        """
        if self.current(now) != refused_token:
            return True
        if self._renewed_at is not None and now - self._renewed_at < MIN_TOKEN_INTERVAL:
            return False
        self._renewed_at = now.replace(microsecond=0)
        return self.current(now) != refused_token


def _last_issue_time(now: datetime) -> datetime:
    interval = int(ISSUE_INTERVAL.total_seconds())
    return datetime.fromtimestamp(int(now.timestamp()) // interval * interval, UTC)
