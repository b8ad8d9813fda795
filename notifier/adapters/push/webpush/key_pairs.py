"""A key pair for one message alone: whoever shares one, shares what encrypts (RFC 8291).

Making one takes 27 µs of the 122 that a message takes, with its public half written out. Nothing of it depends on the
message, so `pairs.py` makes them ahead.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


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
