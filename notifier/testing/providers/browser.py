"""A browser with one subscription: its keys, and what its service worker makes of a message."""

import json
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from notifier.domain.push.device import WebSubscription
from notifier.testing.providers.aes128gcm import decrypted


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    title: str
    tag: str
    """One more with the same takes the place of the last."""
    language: str


@dataclass(slots=True, kw_only=True)
class Browser:
    endpoint: str
    private: EllipticCurvePrivateKey = field(repr=False)
    secret: bytes = field(repr=False)
    key: str
    """The application server's, which it subscribed with."""
    online: bool = True
    gone: bool = False
    """Its person has taken the permission away."""
    unreadable: int = 0

    @property
    def subscription(self) -> WebSubscription:
        """What an app registers."""
        public = self.private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return WebSubscription(endpoint=self.endpoint, key=public, secret=self.secret)

    def read(self, body: bytes) -> Shown | None:
        """None for what can't be read: it is thrown away, and whoever sent it isn't told."""
        try:
            said = json.loads(decrypted(body, self.private, self.secret))
            return Shown(title=said["title"], tag=said["tag"], language=said["lang"])
        except (ValueError, KeyError, TypeError):
            self.unreadable += 1
            return None
