"""APNs provider tokens, identical in all processes without coordination."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from notifier.adapters.push.jwt import es256_key, es256_token
from notifier.domain.errors import BadSetting

GRID = timedelta(minutes=30)
"""Issue times of tokens are multiples of this interval, so that all processes sign the same token.

Apple accepts a token for an hour, and a new one at most every 20 minutes.
"""
LEAST_BETWEEN = timedelta(minutes=20)
"""Minimum time between two tokens (Apple's limit)."""
_NAME = re.compile(r"[A-Z0-9]{10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppleKey:
    """APNs key as issued by Apple. `key` is excluded from the repr."""

    key: EllipticCurvePrivateKey = field(repr=False)
    key_id: str
    team_id: str

    @classmethod
    def read(cls, pem: bytes, *, key_id: str, team_id: str) -> Self:
        """Parse and check the key. Raises BadSetting."""
        for name, value in (("key id", key_id), ("team id", team_id)):
            if not _NAME.fullmatch(value):
                # Do not quote the value: it may be the key in the wrong setting.
                raise BadSetting(
                    f"The {name} of APNs must be ten capital letters and digits; the configured value is not."
                )
        called = "an elliptic curve key on P-256, as in Apple's AuthKey_….p8,"
        return cls(key=es256_key(pem, whose="The key of APNs", called=called), key_id=key_id, team_id=team_id)

    def token(self, issued: datetime) -> str:
        claims = {"iss": self.team_id, "iat": int(issued.timestamp())}
        return es256_token(self.key, {"alg": "ES256", "kid": self.key_id}, claims)


@dataclass(slots=True)
class ProviderTokens:
    """Token source of one process. It has no state that other processes would need."""

    key: AppleKey
    _signed: tuple[datetime, str] | None = None
    _renewed_at: datetime | None = None
    """Issue time of the last token outside the grid."""

    def current(self, now: datetime) -> str:
        fresh = self._renewed_at
        issued = fresh if fresh is not None and timedelta() <= now - fresh < GRID else _grid_time(now)
        if self._signed is None or self._signed[0] != issued:
            self._signed = (issued, self.key.token(issued))
        return self._signed[1]

    def renew(self, refused: str, now: datetime) -> bool:
        """Return whether there is a newer token to try after ExpiredProviderToken.

        A local clock that is late by more than half an hour causes that answer. The new token is issued now instead of
        on the grid, at most once in LEAST_BETWEEN.
        """
        if self.current(now) != refused:
            return True
        if self._renewed_at is not None and now - self._renewed_at < LEAST_BETWEEN:
            return False
        self._renewed_at = now.replace(microsecond=0)
        return self.current(now) != refused


def _grid_time(now: datetime) -> datetime:
    seconds = int(GRID.total_seconds())
    return datetime.fromtimestamp(int(now.timestamp()) // seconds * seconds, UTC)
