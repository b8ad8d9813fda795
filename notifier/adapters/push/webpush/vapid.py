"""VAPID tokens (RFC 8292), message key pairs and the reputation of the VAPID key."""

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Event, Thread
from typing import Self
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from notifier.adapters.push.jwt import base64url, es256_key, es256_token
from notifier.domain.errors import BadSetting
from notifier.domain.push.device import MAX_DEVICES

GRID = timedelta(hours=6)
"""Tokens begin and end at multiples of this interval, so all processes send the same token and sign it once."""
TOKEN_LIFETIME = timedelta(hours=12)
"""Lifetime of a token, from the last multiple of GRID.

A token in use is valid for another 6 to 12 hours: less than the allowed 24 hours, and valid even if this machine's
clock is off by hours.
"""
ORIGINS = 256
"""Maximum number of cached tokens, one per push service. There are four services; Windows uses some dozens of names."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_MAIL = re.compile(r"mailto:[^\s<>@:?&#]+@([^\s<>@:?&#]+)", re.ASCII)
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z](?:[a-z0-9-]*[a-z0-9])?", re.ASCII)
_NOWHERE = ("local", "localhost", "internal", "invalid", "test", "example")
"""Top-level domains that are not reachable from elsewhere (RFC 2606, 6762): Apple answers them with BadJwtToken."""


@dataclass(slots=True, kw_only=True)
class Vapid:
    """VAPID key and its tokens. The key and the tokens are excluded from the repr."""

    key: EllipticCurvePrivateKey = field(repr=False)
    subject: str
    public: str
    """Public key with which browsers subscribe, as `applicationServerKey`."""
    _headers: dict[str, tuple[datetime, str]] = field(default_factory=dict, repr=False)
    """Cached header by origin, with the start of its token on the grid."""

    @classmethod
    def read(cls, pem: bytes, *, subject: str) -> Self:
        """Parse the key and check the subject. Raises BadSetting."""
        key = es256_key(pem, whose="The key of Web Push", called="an elliptic curve key on P-256")
        if not _reachable(subject):
            raise BadSetting(
                "The subject of Web Push must be mailto: with a mail address, or an https:// address "
                "on a public host. Push services use it to report problems with alerts."
            )
        public = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return cls(key=key, subject=subject, public=base64url(public))

    def authorization(self, origin: str, now: datetime) -> str:
        """Return the value of the authorization header for a push service."""
        start = now - (now - _EPOCH) % GRID
        cached_start, header = self._headers.get(origin, (None, ""))
        if cached_start != start:
            header = f"vapid t={self._token(origin, start + TOKEN_LIFETIME)}, k={self.public}"
            if len(self._headers) >= ORIGINS:  # there are not so many push services: a client invents names
                self._headers.clear()
            self._headers[origin] = start, header
        return header

    def _token(self, origin: str, expires_at: datetime) -> str:
        claims = {"aud": origin, "exp": int(expires_at.timestamp()), "sub": self.subject}
        return es256_token(self.key, {"typ": "JWT", "alg": "ES256"}, claims)


def _reachable(subject: str) -> bool:
    if match := _MAIL.fullmatch(subject):
        return _is_host(match[1])
    try:
        parts = urlsplit(subject)
        plain = subject.isascii() and subject.isprintable() and not re.search(r"[\s\\<>\"]", subject)
        return plain and parts.scheme == "https" and "@" not in parts.netloc and _is_host(parts.hostname or "")
    except ValueError:
        return False


def _is_host(text: str) -> bool:
    host = text.lower()
    return bool(_HOST.fullmatch(host)) and host.rpartition(".")[2] not in _NOWHERE


# Ephemeral key pairs, one for each message: messages must not share one, because it determines their encryption keys
# (RFC 8291).
#
# Generating a pair and encoding its public key takes 27 µs of the 122 µs that a message takes. It does not depend on
# the message, so `MessageKeyPairs` generates them in advance.


@dataclass(frozen=True, slots=True)
class MessageKeyPair:
    private: EllipticCurvePrivateKey
    public: bytes
    """Encoded public key, 65 bytes."""

    @classmethod
    def of(cls, private: EllipticCurvePrivateKey) -> Self:
        return cls(private, private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))

    @classmethod
    def new(cls) -> Self:
        return cls.of(generate_private_key(SECP256R1()))


# Key pairs generated in advance, while nothing is sent. No pair is used for two messages.

PREGENERATED = 2_000
"""Number of pairs in advance: the devices of one send batch. They take 55 ms of a core, and some 2 MB."""
PAUSES_FOR = 0.05
"""Seconds without a message after which pairs are generated. Doing that during a send would slow it down."""


class MessageKeyPairs:
    """Source of key pairs for one sending thread, with a background thread that generates them.

    Closing it ends the background thread.
    """

    def __init__(
        self,
        make: Callable[[], MessageKeyPair] = MessageKeyPair.new,
        *,
        ahead: int = PREGENERATED,
        pauses_for: float = PAUSES_FOR,
    ):
        self._make, self._ahead, self._rests_for = make, ahead, pauses_for
        self._made: deque[MessageKeyPair] = deque()
        self._taken, self._closing = Event(), Event()
        self._thread = Thread(target=self._run, name="pairs", daemon=True)
        self._thread.start()

    def __call__(self) -> MessageKeyPair:
        """Return a pair that is used only once. If none is left, generate it at once instead of waiting."""
        try:
            pair = self._made.popleft()
        except IndexError:
            pair = self._make()
        self._taken.set()
        return pair

    def close(self) -> None:
        self._closing.set()
        self._taken.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._fill()
            self._taken.wait()
            while self._taken.is_set():
                self._taken.clear()
                if self._closing.wait(self._rests_for):
                    return

    def _fill(self) -> None:
        while len(self._made) < self._ahead and not self._taken.is_set():
            self._made.append(self._make())


# Reputation of the VAPID key: it decides whether a refusal is caused by the key or by one subscription.
#
# Most refusals of a token may mean either. Any client can register a subscription that was created for another key,
# or a URL of a push service that is not a subscription. A configuration error stops all alerts, so it needs strong
# evidence: a refusal that names a key at a service that never accepted ours, or more consecutive refusals than one
# user has browsers.

REPUTATION_ORIGINS = 256
"""Maximum number of remembered origins. Invented names of push services accept nothing, so they take no space."""


@dataclass(slots=True)
class KeyReputation:
    """Reputation of the VAPID key in one process."""

    accepted_at: set[str] = field(default_factory=set)
    """Origins that have accepted the key."""
    refusals: int = 0
    """Consecutive refusals, at any origin."""

    def on_accepted(self, origin: str) -> None:
        self.refusals = 0
        if len(self.accepted_at) < REPUTATION_ORIGINS:
            self.accepted_at.add(origin)

    def on_refused(self, origin: str, *, named: bool) -> bool:
        """Record a refusal, and return whether the key or token is to blame.

        With `named`, the answer explicitly blames a token or its key.
        """
        self.refusals += 1
        return (named and origin not in self.accepted_at) or self.refusals > MAX_DEVICES
