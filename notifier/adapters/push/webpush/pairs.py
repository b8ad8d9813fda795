"""Key pairs for one message each, made ahead while there is nothing else to do.

RFC 8291 asks for a new pair for every message: whoever shares one, shares what encrypts. Making one takes 27 µs of the
122 that a message takes, with its public half written out, and nothing of it depends on the message.
"""

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

MOST = 1024
"""As many as VIPs are alerted by one burst; about a megabyte."""


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


@dataclass(slots=True, kw_only=True)
class Pairs:
    """For any number of threads: what one has taken, no other gets."""

    make: Callable[[], Pair] = Pair.new
    process: Callable[[], int] = os.getpid
    most: int = MOST
    ready: deque[Pair] = field(default_factory=deque)
    maker: int = -1
    """The process that made what is ready."""

    def fill(self) -> None:
        """Whoever waits for work calls it; 28 ms for all of them."""
        self._own()
        while len(self.ready) < self.most:
            self.ready.append(self.make())

    def take(self) -> Pair:
        """One that was made ahead, or else one that is made now."""
        self._own()
        try:
            return self.ready.popleft()
        except IndexError:
            return self.make()

    def _own(self) -> None:
        # A process that was forked has a copy of what its parent goes on using. Pools of workers fork.
        if self.maker != (process := self.process()):
            self.ready, self.maker = deque(), process
