"""VAPID (RFC 8292): who sends, said to each push service in a token of its own."""

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
from notifier.domain.push.device import MOST_DEVICES

GRID = timedelta(hours=6)
"""Tokens begin and end on it, so all processes send the same, and none is signed twice."""
LASTS = timedelta(hours=12)
"""From the last line of the grid. Between 6 and 12 hours are left of it: less than the 24 that are allowed, and more
than none, even where this machine's clock is hours off."""
ORIGINS = 256
"""Push services whose tokens are kept; there are four, and Windows has some dozens of names."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_MAIL = re.compile(r"mailto:[^\s<>@:?&#]+@([^\s<>@:?&#]+)", re.ASCII)
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z](?:[a-z0-9-]*[a-z0-9])?", re.ASCII)
_NOWHERE = ("local", "localhost", "internal", "invalid", "test", "example")
"""Ends of names that lead nowhere for whoever is not here (RFC 2606, 6762): Apple answers them with BadJwtToken."""


@dataclass(slots=True, kw_only=True)
class Vapid:
    """`key` and what is signed with it stay out of what is printed."""

    key: EllipticCurvePrivateKey = field(repr=False)
    subject: str
    public: str
    """What browsers subscribe with, as `applicationServerKey`."""
    _kept: dict[str, tuple[datetime, str]] = field(default_factory=dict, repr=False)
    """By origin, with the line of the grid that it is of."""

    @classmethod
    def read(cls, pem: bytes, *, subject: str) -> Self:
        """Raises BadSetting."""
        key = es256_key(pem, whose="The key of Web Push", called="one of the elliptic curve P-256")
        if not _reachable(subject):
            raise BadSetting(
                "The subject of Web Push is where push services write to when alerts go wrong: mailto: and a mail "
                "address, or an https:// address, whose host others can reach too."
            )
        public = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return cls(key=key, subject=subject, public=base64url(public))

    def authorization(self, origin: str, now: datetime) -> str:
        """The header's value, for a push service of this origin."""
        line = now - (now - _EPOCH) % GRID
        kept, said = self._kept.get(origin, (None, ""))
        if kept != line:
            said = f"vapid t={self._token(origin, line + LASTS)}, k={self.public}"
            if len(self._kept) >= ORIGINS:  # no such many push services exist: somebody makes up names
                self._kept.clear()
            self._kept[origin] = line, said
        return said

    def _token(self, origin: str, expires_at: datetime) -> str:
        claims = {"aud": origin, "exp": int(expires_at.timestamp()), "sub": self.subject}
        return es256_token(self.key, {"typ": "JWT", "alg": "ES256"}, claims)


def _reachable(subject: str) -> bool:
    if found := _MAIL.fullmatch(subject):
        return _is_host(found[1])
    try:
        parts = urlsplit(subject)
        plain = subject.isascii() and subject.isprintable() and not re.search(r"[\s\\<>\"]", subject)
        return plain and parts.scheme == "https" and "@" not in parts.netloc and _is_host(parts.hostname or "")
    except ValueError:
        return False


def _is_host(text: str) -> bool:
    host = text.lower()
    return bool(_HOST.fullmatch(host)) and host.rpartition(".")[2] not in _NOWHERE


# A key pair for one message alone: whoever shares one, shares what encrypts (RFC 8291).
#
# Making one takes 27 µs of the 122 that a message takes, with its public half written out. Nothing of it depends on
# the message, so `pairs.py` makes them ahead.


@dataclass(frozen=True, slots=True)
class Pair:
    private: EllipticCurvePrivateKey
    public: bytes
    """As it travels: 65 bytes."""

    @classmethod
    def of(cls, private: EllipticCurvePrivateKey) -> Self:
        return cls(private, private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))

    @classmethod
    def new(cls) -> Self:
        return cls.of(generate_private_key(SECP256R1()))


# Key pairs that are made ahead, while nothing is sent: one for each message, and never one for two.

AHEAD = 2_000
"""As many as a window has devices; 55 ms of a core, and some 2 MB."""
RESTS_FOR = 0.05
"""Seconds without a message, behind which nobody is taken to send: pairs that are made beside him take his time."""


class Pairs:
    """For one thread that sends, with another that makes them; to be closed, which ends that one."""

    def __init__(self, make: Callable[[], Pair] = Pair.new, *, ahead: int = AHEAD, rests_for: float = RESTS_FOR):
        self._make, self._ahead, self._rests_for = make, ahead, rests_for
        self._made: deque[Pair] = deque()
        self._taken, self._closing = Event(), Event()
        self._thread = Thread(target=self._run, name="pairs", daemon=True)
        self._thread.start()

    def __call__(self) -> Pair:
        """One that nobody else gets: made here and now where none is left, for nobody waits for the other thread."""
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


# Standing: what push services think of our key, so that no single subscription can give us a bad name.
#
# Most who refuse a token may mean us, or one browser: anybody can register a subscription that was made for somebody
# else's key, or an address of a push service that isn't one of a subscription. A mistake of ours stops all alerts, so
# a refusal that names a key shows one only where ours was never taken; otherwise it takes more in a row than one
# person has browsers.

REPUTATION_ORIGINS = 256
"""As with tokens: whoever makes up names of push services gets nothing taken there."""


@dataclass(slots=True)
class KeyReputation:
    """One process's, of the key that it began with."""

    taken_at: set[str] = field(default_factory=set)
    refusals: int = 0
    """In a row, wherever."""

    def taken(self, origin: str) -> None:
        self.refusals = 0
        if len(self.taken_at) < REPUTATION_ORIGINS:
            self.taken_at.add(origin)

    def refused(self, origin: str, *, named: bool) -> bool:
        """Whether it is us. `named`: the answer says that it is about a token or its key."""
        self.refusals += 1
        return (named and origin not in self.taken_at) or self.refusals > MOST_DEVICES
